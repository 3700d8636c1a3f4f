// Kernel launches. Attributes of cuLaunchKernelEx go on verbatim: only the fields that say what is touched
// are read.
#include "interpose/op_call.h"

namespace swapadvisor {

CUresult hook_cuLaunchKernel(Entry entry, Fn_cuLaunchKernel real, CUfunction function, unsigned grid_x,
                             unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                             unsigned block_z, unsigned shared_bytes, CUstream stream, void** params,
                             void** extra) {
    if (!function) {
        return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,
                    extra);
    }
    return run_op(
        entry,
        [&](Runtime& runtime) {
            return runtime.begin_kernel({function,
                                         {grid_x, grid_y, grid_z},
                                         {block_x, block_y, block_z},
                                         shared_bytes,
                                         stream,
                                         params,
                                         extra},
                                        entry.stream);
        },
        [&] {
            return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                        params, extra);
        });
}

CUresult hook_cuLaunchKernelEx(Entry entry, Fn_cuLaunchKernelEx real, const CUlaunchConfig* config,
                               CUfunction function, void** params, void** extra) {
    if (!config || !function) return real(config, function, params, extra);
    return run_op(
        entry,
        [&](Runtime& runtime) {
            return runtime.begin_kernel({function,
                                         {config->gridDimX, config->gridDimY, config->gridDimZ},
                                         {config->blockDimX, config->blockDimY, config->blockDimZ},
                                         config->sharedMemBytes,
                                         config->hStream,
                                         params,
                                         extra},
                                        entry.stream);
        },
        [&] { return real(config, function, params, extra); });
}

CUresult hook_cuLaunchCooperativeKernel(Entry entry, Fn_cuLaunchCooperativeKernel real, CUfunction function,
                                        unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                        unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                        CUstream stream, void** params) {
    if (!function)
        return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                    params);
    return run_op(
        entry,
        [&](Runtime& runtime) {
            return runtime.begin_kernel({function,
                                         {grid_x, grid_y, grid_z},
                                         {block_x, block_y, block_z},
                                         shared_bytes,
                                         stream,
                                         params,
                                         nullptr},
                                        entry.stream);
        },
        [&] {
            return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                        params);
        });
}

}  // namespace swapadvisor
