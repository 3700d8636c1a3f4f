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

/// Copies between mapped memory of two devices go only by the peer forms, which plain memory does not need.
struct Between {
    CUcontext to = nullptr, from = nullptr;
    explicit operator bool() const { return to != from; }
};

Between devices_of(Entry entry, CUdeviceptr to, CUdeviceptr from) {
    static const bool several = [] {
        const auto count =
            reinterpret_cast<CUresult (*)(int*)>(real_symbol(managed_copy(), "cuDeviceGetCount"));
        int devices = 0;
        return count && count(&devices) == CUDA_SUCCESS && devices > 1;
    }();
    Between between;
    Runtime* runtime = several ? runtime_for(entry) : nullptr;
    if (!runtime ||
        runtime->pointer_attribute(&between.to, CU_POINTER_ATTRIBUTE_CONTEXT, to) != CUDA_SUCCESS ||
        runtime->pointer_attribute(&between.from, CU_POINTER_ATTRIBUTE_CONTEXT, from) != CUDA_SUCCESS) {
        return {};
    }
    return between;
}

CUresult copy_between(Entry entry, Between between, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    using Copy = CUresult (*)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
    const bool twin = entry.stream == DefaultStream::per_thread;
    const auto peer =
        reinterpret_cast<Copy>(real_symbol(managed_copy(), twin ? "cuMemcpyPeer_ptds" : "cuMemcpyPeer"));
    return run_copy(entry, device(to, bytes), device(from, bytes), [&] {
        return peer ? peer(to, between.to, from, between.from, bytes) : CUDA_ERROR_NOT_FOUND;
    });
}

CUresult copy_between_async(Entry entry, Between between, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                            CUstream stream) {
    using Copy = CUresult (*)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream);
    const bool twin = entry.stream == DefaultStream::per_thread;
    const auto peer = reinterpret_cast<Copy>(
        real_symbol(managed_copy(), twin ? "cuMemcpyPeerAsync_ptsz" : "cuMemcpyPeerAsync"));
    return run_copy_async(entry, device(to, bytes), device(from, bytes), stream, [&] {
        return peer ? peer(to, between.to, from, between.from, bytes, stream) : CUDA_ERROR_NOT_FOUND;
    });
}

}  // namespace

CUresult hook_cuMemcpy(Entry entry, Fn_cuMemcpy real, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    if (const Between between = devices_of(entry, to, from))
        return copy_between(entry, between, to, from, bytes);
    return run_copy(entry, device(to, bytes), device(from, bytes), [&] { return real(to, from, bytes); });
}

CUresult hook_cuMemcpyHtoD_v2(Entry entry, Fn_cuMemcpyHtoD_v2 real, CUdeviceptr to, const void* from,
                              size_t bytes) {
    return run_copy(entry, device(to, bytes), host(from, bytes), [&] { return real(to, from, bytes); });
}

CUresult hook_cuMemcpyDtoH_v2(Entry entry, Fn_cuMemcpyDtoH_v2 real, void* to, CUdeviceptr from,
                              size_t bytes) {
    return run_copy(entry, host(to, bytes), device(from, bytes), [&] { return real(to, from, bytes); });
}

CUresult hook_cuMemcpyDtoD_v2(Entry entry, Fn_cuMemcpyDtoD_v2 real, CUdeviceptr to, CUdeviceptr from,
                              size_t bytes) {
    if (const Between between = devices_of(entry, to, from))
        return copy_between(entry, between, to, from, bytes);
    return run_copy(entry, device(to, bytes), device(from, bytes), [&] { return real(to, from, bytes); });
}

CUresult hook_cuMemcpyAsync(Entry entry, Fn_cuMemcpyAsync real, CUdeviceptr to, CUdeviceptr from,
                            size_t bytes, CUstream stream) {
    if (const Between between = devices_of(entry, to, from)) {
        return copy_between_async(entry, between, to, from, bytes, stream);
    }
    return run_copy_async(entry, device(to, bytes), device(from, bytes), stream,
                          [&] { return real(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyHtoDAsync_v2(Entry entry, Fn_cuMemcpyHtoDAsync_v2 real, CUdeviceptr to,
                                   const void* from, size_t bytes, CUstream stream) {
    return run_copy_async(entry, device(to, bytes), host(from, bytes), stream,
                          [&] { return real(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoHAsync_v2(Entry entry, Fn_cuMemcpyDtoHAsync_v2 real, void* to, CUdeviceptr from,
                                   size_t bytes, CUstream stream) {
    return run_copy_async(entry, host(to, bytes), device(from, bytes), stream,
                          [&] { return real(to, from, bytes, stream); });
}

CUresult hook_cuMemcpyDtoDAsync_v2(Entry entry, Fn_cuMemcpyDtoDAsync_v2 real, CUdeviceptr to,
                                   CUdeviceptr from, size_t bytes, CUstream stream) {
    if (const Between between = devices_of(entry, to, from)) {
        return copy_between_async(entry, between, to, from, bytes, stream);
    }
    return run_copy_async(entry, device(to, bytes), device(from, bytes), stream,
                          [&] { return real(to, from, bytes, stream); });
}

}  // namespace swapadvisor
