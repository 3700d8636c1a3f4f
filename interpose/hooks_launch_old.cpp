// Launches of old kinds, whose arguments are not seen at the launch.
#include <cstring>

#include "interpose/op_call.h"

namespace swapadvisor {

/// Parameters set one by one ahead of cuLaunch and cuLaunchGrid: what they point to stays resident from here
/// on.
CUresult hook_cuParamSetv(Entry entry, Fn_cuParamSetv real, CUfunction function, int offset, void* data,
                          unsigned bytes) {
    Runtime* runtime = data ? runtime_for(entry) : nullptr;
    for (unsigned at = 0; runtime && at + sizeof(CUdeviceptr) <= bytes; at += sizeof(CUdeviceptr)) {
        CUdeviceptr word = 0;
        std::memcpy(&word, static_cast<const char*>(data) + at, sizeof word);
        if (word) runtime->escape(word, "parameter of a launch of the old kind");
    }
    return real(function, offset, data, bytes);
}

/// One kernel on each of several devices, as one launch: each kernel's buffers are of its own device, and are
/// made resident one kernel after the other before the common launch.
CUresult hook_cuLaunchCooperativeKernelMultiDevice(Entry entry, Fn_cuLaunchCooperativeKernelMultiDevice real,
                                                   CUDA_LAUNCH_PARAMS* list, unsigned count, unsigned flags) {
    Runtime* runtime = list ? runtime_for(entry) : nullptr;
    for (unsigned i = 0; runtime && i < count; ++i) {
        const CUDA_LAUNCH_PARAMS& one = list[i];
        if (!one.function) break;
        OpToken token = runtime->begin_kernel({one.function,
                                               {one.gridDimX, one.gridDimY, one.gridDimZ},
                                               {one.blockDimX, one.blockDimY, one.blockDimZ},
                                               one.sharedMemBytes,
                                               one.hStream,
                                               one.kernelParams,
                                               nullptr},
                                              entry.stream);
        if (token.fail) return *token.fail;
        runtime->end_op(token, CUDA_SUCCESS);
    }
    return real(list, count, flags);
}

}  // namespace swapadvisor
