// Launch parameters and limits, shared by launches and graph nodes.
#pragma once

#include "tests/softgpu/driver/modules.h"
#include "tests/softgpu/driver/work.h"

namespace softgpu {

/// The parameter block from `kernelParams` or `extra`.
CUresult pack_params(const CUfunc_st* function, void** params, void** extra, std::vector<std::byte>* block);
CUresult set_launch_attribute(KernelWork* work, const CUlaunchAttribute& attribute);
/// A cooperative grid must fit the device at once.
CUresult check_cooperative(const KernelWork& work);
/// Blocks of this size that one multiprocessor holds.
CUresult occupancy(const CUfunc_st* function, int threads, std::size_t dynamic_shared, int* blocks);

}  // namespace softgpu
