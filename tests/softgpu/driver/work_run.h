// What an operation does when its virtual time comes: the bodies that make_op hangs on it. Each checks again,
// since memory may have gone since the call.
#pragma once

#include <cmath>

#include "tests/softgpu/driver/work.h"

namespace softgpu {

void run_kernel(Op& op, const KernelWork& work);
void run_copy(const Op& op, const CopyWork& work);
void run_memset(const Op& op, const MemsetWork& work);
/// Works through the list of memory operations as far as it goes; true at its end.
bool step_batch(Op& op, const std::vector<CUstreamBatchMemOpParams>& list, std::size_t* at);

/// Virtual time of so many units at a rate.
inline Time duration_of(double amount, double per_second) {
    return static_cast<Time>(std::llround(amount * 1e9 / per_second));
}

}  // namespace softgpu
