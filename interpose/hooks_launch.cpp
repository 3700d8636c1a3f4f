// Kernel launches. Attributes of cuLaunchKernelEx go on verbatim: only the fields that say what is touched
// are read.
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

/// The frame of every launch.
template <class Call>
CUresult launch(Entry entry, const KernelLaunch& what, Call call) {
    if (!what.function) return call();  // the driver says what is wrong
    return run_op(
        entry, [&](Runtime& runtime) { return runtime.begin_kernel(what, entry.stream); }, call);
}

}  // namespace

CUresult hook_cuLaunchKernel(Entry entry, Fn_cuLaunchKernel real, CUfunction function, unsigned grid_x,
                             unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                             unsigned block_z, unsigned shared_bytes, CUstream stream, void** params,
                             void** extra) {
    return launch(entry,
                  {function,
                   {grid_x, grid_y, grid_z},
                   {block_x, block_y, block_z},
                   shared_bytes,
                   stream,
                   params,
                   extra},
                  [&] {
                      return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                                  stream, params, extra);
                  });
}

CUresult hook_cuLaunchKernelEx(Entry entry, Fn_cuLaunchKernelEx real, const CUlaunchConfig* config,
                               CUfunction function, void** params, void** extra) {
    if (!config) return real(config, function, params, extra);
    return launch(entry,
                  {function,
                   {config->gridDimX, config->gridDimY, config->gridDimZ},
                   {config->blockDimX, config->blockDimY, config->blockDimZ},
                   config->sharedMemBytes,
                   config->hStream,
                   params,
                   extra},
                  [&] { return real(config, function, params, extra); });
}

CUresult hook_cuLaunchCooperativeKernel(Entry entry, Fn_cuLaunchCooperativeKernel real, CUfunction function,
                                        unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                        unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                        CUstream stream, void** params) {
    return launch(entry,
                  {function,
                   {grid_x, grid_y, grid_z},
                   {block_x, block_y, block_z},
                   shared_bytes,
                   stream,
                   params,
                   nullptr},
                  [&] {
                      return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                                  stream, params);
                  });
}

}  // namespace swapadvisor
