// Copies in two and three dimensions, to and from arrays, and between devices.
#include "interpose/copy_spans.h"
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

template <class Real, class Description>
CUresult described(Entry entry, Real real, const Description* what) {
    if (!what) return real(what);
    return run_copy(entry, destination_of(*what), source_of(*what), [&] { return real(what); });
}

template <class Real, class Description>
CUresult described_async(Entry entry, Real real, const Description* what, CUstream stream) {
    if (!what) return real(what, stream);
    return run_copy_async(entry, destination_of(*what), source_of(*what), stream,
                          [&] { return real(what, stream); });
}

}  // namespace

CUresult hook_cuMemcpy2D_v2(Entry entry, Fn_cuMemcpy2D_v2 real, const CUDA_MEMCPY2D_v2* what) {
    return described(entry, real, what);
}
CUresult hook_cuMemcpy2DUnaligned_v2(Entry entry, Fn_cuMemcpy2DUnaligned_v2 real,
                                     const CUDA_MEMCPY2D_v2* what) {
    return described(entry, real, what);
}
CUresult hook_cuMemcpy2DAsync_v2(Entry entry, Fn_cuMemcpy2DAsync_v2 real, const CUDA_MEMCPY2D_v2* what,
                                 CUstream stream) {
    return described_async(entry, real, what, stream);
}
CUresult hook_cuMemcpy3D_v2(Entry entry, Fn_cuMemcpy3D_v2 real, const CUDA_MEMCPY3D_v2* what) {
    return described(entry, real, what);
}
CUresult hook_cuMemcpy3DAsync_v2(Entry entry, Fn_cuMemcpy3DAsync_v2 real, const CUDA_MEMCPY3D_v2* what,
                                 CUstream stream) {
    return described_async(entry, real, what, stream);
}
CUresult hook_cuMemcpy3DPeer(Entry entry, Fn_cuMemcpy3DPeer real, const CUDA_MEMCPY3D_PEER_v1* what) {
    return described(entry, real, what);
}
CUresult hook_cuMemcpy3DPeerAsync(Entry entry, Fn_cuMemcpy3DPeerAsync real, const CUDA_MEMCPY3D_PEER_v1* what,
                                  CUstream stream) {
    return described_async(entry, real, what, stream);
}

CUresult hook_cuMemcpyDtoA_v2(Entry entry, Fn_cuMemcpyDtoA_v2 real, CUarray to, size_t offset,
                              CUdeviceptr from, size_t bytes) {
    return run_copy(entry, {}, {from, nullptr, bytes}, [&] { return real(to, offset, from, bytes); });
}

CUresult hook_cuMemcpyAtoD_v2(Entry entry, Fn_cuMemcpyAtoD_v2 real, CUdeviceptr to, CUarray from,
                              size_t offset, size_t bytes) {
    return run_copy(entry, {to, nullptr, bytes}, {}, [&] { return real(to, from, offset, bytes); });
}

// An array holds addresses as well as any memory does.
CUresult hook_cuMemcpyHtoA_v2(Entry entry, Fn_cuMemcpyHtoA_v2 real, CUarray to, size_t offset,
                              const void* from, size_t bytes) {
    return run_copy(entry, {}, {0, from, bytes}, [&] { return real(to, offset, from, bytes); });
}

CUresult hook_cuMemcpyHtoAAsync_v2(Entry entry, Fn_cuMemcpyHtoAAsync_v2 real, CUarray to, size_t offset,
                                   const void* from, size_t bytes, CUstream stream) {
    return run_copy_async(entry, {}, {0, from, bytes}, stream,
                          [&] { return real(to, offset, from, bytes, stream); });
}

CUresult hook_cuMemcpyPeer(Entry entry, Fn_cuMemcpyPeer real, CUdeviceptr to, CUcontext to_context,
                           CUdeviceptr from, CUcontext from_context, size_t bytes) {
    return run_copy(entry, {to, nullptr, bytes}, {from, nullptr, bytes},
                    [&] { return real(to, to_context, from, from_context, bytes); });
}

CUresult hook_cuMemcpyPeerAsync(Entry entry, Fn_cuMemcpyPeerAsync real, CUdeviceptr to, CUcontext to_context,
                                CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream) {
    return run_copy_async(entry, {to, nullptr, bytes}, {from, nullptr, bytes}, stream,
                          [&] { return real(to, to_context, from, from_context, bytes, stream); });
}

}  // namespace swapadvisor
