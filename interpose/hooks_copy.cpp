// Linear copies.
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

CopySpan device(CUdeviceptr address, size_t bytes) {
    return {address, nullptr, bytes};
}
CopySpan host(const void* pointer, size_t bytes) {
    return {0, pointer, bytes};
}

template <class Call>
CUresult copy(Entry entry, const CopySpan& to, const CopySpan& from, Call call) {
    return run_op(
        entry, [&](Runtime& runtime) { return runtime.begin_copy(to, from, nullptr, entry.stream, true); },
        call);
}

template <class Call>
CUresult copy_async(Entry entry, const CopySpan& to, const CopySpan& from, CUstream stream, Call call) {
    return run_op(
        entry, [&](Runtime& runtime) { return runtime.begin_copy(to, from, stream, entry.stream, false); },
        call);
}

}  // namespace

CUresult hook_cuMemcpy(Entry entry, Fn_cuMemcpy real, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return copy(entry, device(to, bytes), device(from, bytes), [&] { return real(to, from, bytes); });
}

CUresult hook_cuMemcpyHtoD_v2(Entry entry, Fn_cuMemcpyHtoD_v2 real, CUdeviceptr to, const void* from,
                              size_t bytes) {
    return copy(entry, device(to, bytes), host(from, bytes), [&] { return real(to, from, bytes); });
}

CUresult hook_cuMemcpyDtoH_v2(Entry entry, Fn_cuMemcpyDtoH_v2 real, void* to, CUdeviceptr from,
                              size_t bytes) {
    return copy(entry, host(to, bytes), device(from, bytes), [&] { return real(to, from, bytes); });
}

CUresult hook_cuMemcpyDtoD_v2(Entry entry, Fn_cuMemcpyDtoD_v2 real, CUdeviceptr to, CUdeviceptr from,
                              size_t bytes) {
    return copy(entry, device(to, bytes), device(from, bytes), [&] { return real(to, from, bytes); });
}

CUresult hook_cuMemcpyAsync(Entry entry, Fn_cuMemcpyAsync real, CUdeviceptr to, CUdeviceptr from,
                            size_t bytes, CUstream stream) {
    return copy_async(entry, device(to, bytes), device(from, bytes), stream,
                      [&] { return real(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyHtoDAsync_v2(Entry entry, Fn_cuMemcpyHtoDAsync_v2 real, CUdeviceptr to,
                                   const void* from, size_t bytes, CUstream stream) {
    return copy_async(entry, device(to, bytes), host(from, bytes), stream,
                      [&] { return real(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoHAsync_v2(Entry entry, Fn_cuMemcpyDtoHAsync_v2 real, void* to, CUdeviceptr from,
                                   size_t bytes, CUstream stream) {
    return copy_async(entry, host(to, bytes), device(from, bytes), stream,
                      [&] { return real(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoDAsync_v2(Entry entry, Fn_cuMemcpyDtoDAsync_v2 real, CUdeviceptr to,
                                   CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_async(entry, device(to, bytes), device(from, bytes), stream,
                      [&] { return real(to, from, bytes, stream); });
}

}  // namespace swapadvisor
