// Memsets.
#include "interpose/copy_spans.h"
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

template <class Call>
CUresult set(Entry entry, CUdeviceptr address, size_t bytes, Call call) {
    return run_op(
        entry,
        [&](Runtime& runtime) { return runtime.begin_memset(address, bytes, nullptr, entry.stream, true); },
        call);
}

template <class Call>
CUresult set_async(Entry entry, CUdeviceptr address, size_t bytes, CUstream stream, Call call) {
    return run_op(
        entry,
        [&](Runtime& runtime) { return runtime.begin_memset(address, bytes, stream, entry.stream, false); },
        call);
}

}  // namespace

CUresult hook_cuMemsetD8_v2(Entry entry, Fn_cuMemsetD8_v2 real, CUdeviceptr to, unsigned char value,
                            size_t count) {
    return set(entry, to, count, [&] { return real(to, value, count); });
}

CUresult hook_cuMemsetD16_v2(Entry entry, Fn_cuMemsetD16_v2 real, CUdeviceptr to, unsigned short value,
                             size_t count) {
    return set(entry, to, 2 * count, [&] { return real(to, value, count); });
}

CUresult hook_cuMemsetD32_v2(Entry entry, Fn_cuMemsetD32_v2 real, CUdeviceptr to, unsigned value,
                             size_t count) {
    return set(entry, to, 4 * count, [&] { return real(to, value, count); });
}

CUresult hook_cuMemsetD8Async(Entry entry, Fn_cuMemsetD8Async real, CUdeviceptr to, unsigned char value,
                              size_t count, CUstream stream) {
    return set_async(entry, to, count, stream, [&] { return real(to, value, count, stream); });
}

CUresult hook_cuMemsetD16Async(Entry entry, Fn_cuMemsetD16Async real, CUdeviceptr to, unsigned short value,
                               size_t count, CUstream stream) {
    return set_async(entry, to, 2 * count, stream, [&] { return real(to, value, count, stream); });
}

CUresult hook_cuMemsetD32Async(Entry entry, Fn_cuMemsetD32Async real, CUdeviceptr to, unsigned value,
                               size_t count, CUstream stream) {
    return set_async(entry, to, 4 * count, stream, [&] { return real(to, value, count, stream); });
}

CUresult hook_cuMemsetD2D8_v2(Entry entry, Fn_cuMemsetD2D8_v2 real, CUdeviceptr to, size_t pitch,
                              unsigned char value, size_t width, size_t height) {
    return set(entry, to, set_span(to, pitch, 1, width, height).bytes,
               [&] { return real(to, pitch, value, width, height); });
}

CUresult hook_cuMemsetD2D8Async(Entry entry, Fn_cuMemsetD2D8Async real, CUdeviceptr to, size_t pitch,
                                unsigned char value, size_t width, size_t height, CUstream stream) {
    return set_async(entry, to, set_span(to, pitch, 1, width, height).bytes, stream,
                     [&] { return real(to, pitch, value, width, height, stream); });
}

CUresult hook_cuMemsetD2D16_v2(Entry entry, Fn_cuMemsetD2D16_v2 real, CUdeviceptr to, size_t pitch,
                               unsigned short value, size_t width, size_t height) {
    return set(entry, to, set_span(to, pitch, 2, width, height).bytes,
               [&] { return real(to, pitch, value, width, height); });
}

CUresult hook_cuMemsetD2D16Async(Entry entry, Fn_cuMemsetD2D16Async real, CUdeviceptr to, size_t pitch,
                                 unsigned short value, size_t width, size_t height, CUstream stream) {
    return set_async(entry, to, set_span(to, pitch, 2, width, height).bytes, stream,
                     [&] { return real(to, pitch, value, width, height, stream); });
}

CUresult hook_cuMemsetD2D32_v2(Entry entry, Fn_cuMemsetD2D32_v2 real, CUdeviceptr to, size_t pitch,
                               unsigned value, size_t width, size_t height) {
    return set(entry, to, set_span(to, pitch, 4, width, height).bytes,
               [&] { return real(to, pitch, value, width, height); });
}

CUresult hook_cuMemsetD2D32Async(Entry entry, Fn_cuMemsetD2D32Async real, CUdeviceptr to, size_t pitch,
                                 unsigned value, size_t width, size_t height, CUstream stream) {
    return set_async(entry, to, set_span(to, pitch, 4, width, height).bytes, stream,
                     [&] { return real(to, pitch, value, width, height, stream); });
}

}  // namespace swapadvisor
