// Launches of old kinds, whose arguments are not seen at the launch.
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

/// Parameters set one by one ahead of cuLaunch and cuLaunchGrid: what they name stays resident from here on.
/// Each function's are looked at like memory at an address of its own.
CUresult keep_named(Entry entry, CUfunction function, int offset, const void* data, unsigned bytes) {
    Runtime* runtime = data ? runtime_for(entry) : nullptr;
    if (!runtime) return CUDA_SUCCESS;
    const CUdeviceptr place = (reinterpret_cast<CUdeviceptr>(function) << 16) + static_cast<unsigned>(offset);
    return runtime->copies({place, nullptr, bytes}, {0, data, bytes});
}

}  // namespace

CUresult hook_cuParamSetv(Entry entry, Fn_cuParamSetv real, CUfunction function, int offset, void* data,
                          unsigned bytes) {
    const CUresult result = keep_named(entry, function, offset, data, bytes);
    return result == CUDA_SUCCESS ? real(function, offset, data, bytes) : result;
}

CUresult hook_cuParamSeti(Entry entry, Fn_cuParamSeti real, CUfunction function, int offset, unsigned value) {
    const CUresult result = keep_named(entry, function, offset, &value, sizeof value);
    return result == CUDA_SUCCESS ? real(function, offset, value) : result;
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
