// Memsets.
#include "interpose/copy_spans.h"
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

/// What is set: `element_bytes` each to `value`.
struct Fill {
    CopySpan to;
    unsigned value;
    unsigned element_bytes;
};

Fill linear(CUdeviceptr to, unsigned value, unsigned element_bytes, size_t count) {
    return {{to, nullptr, element_bytes * count}, value, element_bytes};
}
Fill pitched(CUdeviceptr to, size_t pitch, unsigned value, unsigned element_bytes, size_t width,
             size_t height) {
    return {set_span(to, pitch, element_bytes, width, height), value, element_bytes};
}

template <class Call>
CUresult set(Entry entry, const Fill& fill, Call call) {
    return run_op(
        entry,
        [&](Runtime& runtime) {
            return runtime.begin_memset(fill.to, fill.value, fill.element_bytes, nullptr, entry.stream, true);
        },
        call);
}

template <class Call>
CUresult set_async(Entry entry, const Fill& fill, CUstream stream, Call call) {
    return run_op(
        entry,
        [&](Runtime& runtime) {
            return runtime.begin_memset(fill.to, fill.value, fill.element_bytes, stream, entry.stream, false);
        },
        call);
}

}  // namespace

CUresult hook_cuMemsetD8_v2(Entry entry, Fn_cuMemsetD8_v2 real, CUdeviceptr to, unsigned char value,
                            size_t count) {
    return set(entry, linear(to, value, 1, count), [&] { return real(to, value, count); });
}

CUresult hook_cuMemsetD16_v2(Entry entry, Fn_cuMemsetD16_v2 real, CUdeviceptr to, unsigned short value,
                             size_t count) {
    return set(entry, linear(to, value, 2, count), [&] { return real(to, value, count); });
}

CUresult hook_cuMemsetD32_v2(Entry entry, Fn_cuMemsetD32_v2 real, CUdeviceptr to, unsigned value,
                             size_t count) {
    return set(entry, linear(to, value, 4, count), [&] { return real(to, value, count); });
}

CUresult hook_cuMemsetD8Async(Entry entry, Fn_cuMemsetD8Async real, CUdeviceptr to, unsigned char value,
                              size_t count, CUstream stream) {
    return set_async(entry, linear(to, value, 1, count), stream,
                     [&] { return real(to, value, count, stream); });
}

CUresult hook_cuMemsetD16Async(Entry entry, Fn_cuMemsetD16Async real, CUdeviceptr to, unsigned short value,
                               size_t count, CUstream stream) {
    return set_async(entry, linear(to, value, 2, count), stream,
                     [&] { return real(to, value, count, stream); });
}

CUresult hook_cuMemsetD32Async(Entry entry, Fn_cuMemsetD32Async real, CUdeviceptr to, unsigned value,
                               size_t count, CUstream stream) {
    return set_async(entry, linear(to, value, 4, count), stream,
                     [&] { return real(to, value, count, stream); });
}

CUresult hook_cuMemsetD2D8_v2(Entry entry, Fn_cuMemsetD2D8_v2 real, CUdeviceptr to, size_t pitch,
                              unsigned char value, size_t width, size_t height) {
    return set(entry, pitched(to, pitch, value, 1, width, height),
               [&] { return real(to, pitch, value, width, height); });
}

CUresult hook_cuMemsetD2D8Async(Entry entry, Fn_cuMemsetD2D8Async real, CUdeviceptr to, size_t pitch,
                                unsigned char value, size_t width, size_t height, CUstream stream) {
    return set_async(entry, pitched(to, pitch, value, 1, width, height), stream,
                     [&] { return real(to, pitch, value, width, height, stream); });
}

CUresult hook_cuMemsetD2D16_v2(Entry entry, Fn_cuMemsetD2D16_v2 real, CUdeviceptr to, size_t pitch,
                               unsigned short value, size_t width, size_t height) {
    return set(entry, pitched(to, pitch, value, 2, width, height),
               [&] { return real(to, pitch, value, width, height); });
}

CUresult hook_cuMemsetD2D16Async(Entry entry, Fn_cuMemsetD2D16Async real, CUdeviceptr to, size_t pitch,
                                 unsigned short value, size_t width, size_t height, CUstream stream) {
    return set_async(entry, pitched(to, pitch, value, 2, width, height), stream,
                     [&] { return real(to, pitch, value, width, height, stream); });
}

CUresult hook_cuMemsetD2D32_v2(Entry entry, Fn_cuMemsetD2D32_v2 real, CUdeviceptr to, size_t pitch,
                               unsigned value, size_t width, size_t height) {
    return set(entry, pitched(to, pitch, value, 4, width, height),
               [&] { return real(to, pitch, value, width, height); });
}

CUresult hook_cuMemsetD2D32Async(Entry entry, Fn_cuMemsetD2D32Async real, CUdeviceptr to, size_t pitch,
                                 unsigned value, size_t width, size_t height, CUstream stream) {
    return set_async(entry, pitched(to, pitch, value, 4, width, height), stream,
                     [&] { return real(to, pitch, value, width, height, stream); });
}

}  // namespace swapadvisor
