// Copies and memsets: linear, 2D, 3D, batches, between devices. Those without Async wait for a copy that has
// a host side; device-to-device copies and memsets do not block the host.
#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/work.h"

using namespace softgpu;

namespace {

std::uint64_t number(const void* p) {
    return reinterpret_cast<std::uint64_t>(p);
}

CopyWork linear(std::uint64_t to, CUmemorytype to_type, std::uint64_t from, CUmemorytype from_type,
                std::size_t bytes) {
    CopyWork w;
    w.to = {to, bytes, 1, to_type};
    w.from = {from, bytes, 1, from_type};
    w.width = bytes;
    CUDA_MEMCPY3D& o = w.original;
    o.srcMemoryType = from_type;
    o.dstMemoryType = to_type;
    if (from_type == CU_MEMORYTYPE_HOST)
        o.srcHost = reinterpret_cast<void*>(from);
    else
        o.srcDevice = from;
    if (to_type == CU_MEMORYTYPE_HOST)
        o.dstHost = reinterpret_cast<void*>(to);
    else
        o.dstDevice = to;
    o.WidthInBytes = bytes;
    o.Height = o.Depth = 1;
    o.srcPitch = o.dstPitch = bytes;
    o.srcHeight = o.dstHeight = 1;
    return w;
}

/// Reached through the devices that own the memory: no peer access is needed.
CopyWork between_peers(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
    CopyWork w = linear(to, CU_MEMORYTYPE_DEVICE, from, CU_MEMORYTYPE_DEVICE, bytes);
    w.peer = true;
    return w;
}

constexpr std::uint64_t kStagedAtOnce = 64 << 10;

/// Ordinary (pageable) host memory cannot be read by a copy engine later on.
bool pageable(const CopySide& side, std::uint64_t bytes) {
    return bytes && !known_memory(side.address, 1) && !driver().memory.in_range(side.address);
}

CUresult run(Call& call, const StreamRef& stream, CopyWork w, bool synchronous) {
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (synchronous)
        if (const CUresult r = refuse_unsafe_call(call.name()); r != CUDA_SUCCESS) return r;
    if (w.bytes() == 0) return stream->context->error;
    bool wait = synchronous && !(on_device(w.from.address) && on_device(w.to.address));
    if (!stream->capture && !synchronous) {
        if (pageable(w.to, w.bytes())) wait = true;
        if (pageable(w.from, w.bytes()) && w.from.address) {
            if (w.linear() && w.bytes() <= kStagedAtOnce && !wait) {
                const auto* bytes = reinterpret_cast<const std::byte*>(w.from.address);
                w.staged = std::make_shared<std::vector<std::byte>>(bytes, bytes + w.bytes());
            } else {
                wait = true;
            }
        }
    }
    OpRef op;
    const CUresult r = submit(call, stream, std::move(w), &op);
    if (r != CUDA_SUCCESS || !wait || !op) return r;
    return wait_for(call.lock(), stream->context, op);
}

StreamRef default_stream() {
    return resolve_stream(nullptr);
}

CUresult set(Call& call, const StreamRef& stream, CUdeviceptr to, std::size_t pitch, unsigned value,
             unsigned element, std::size_t width, std::size_t height, bool synchronous) {
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (synchronous)
        if (const CUresult r = refuse_unsafe_call(call.name()); r != CUDA_SUCCESS) return r;
    OpRef op;
    const bool wait = synchronous && !on_device(to);
    const CUresult r = submit(call, stream, MemsetWork{to, pitch, value, element, width, height}, &op);
    return r == CUDA_SUCCESS && wait ? wait_for(call.lock(), stream->context, op) : r;
}

}  // namespace

namespace softgpu {

CUresult copy_from_3d(const CUDA_MEMCPY3D& p, CopyWork* w) {
    const auto side = [&](CUmemorytype type, const void* host, CUdeviceptr device, std::size_t x,
                          std::size_t y, std::size_t z, std::size_t pitch, std::size_t height,
                          CopySide* out) {
        if (type == CU_MEMORYTYPE_ARRAY) return false;
        if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
            return false;
        if (pitch == 0) pitch = p.WidthInBytes;
        if (height == 0) height = p.Height;
        if (p.Height > 1 && pitch < p.WidthInBytes + x) return false;
        if (p.Depth > 1 && height < p.Height + y) return false;
        const std::uint64_t base = type == CU_MEMORYTYPE_HOST ? number(host) : device;
        *out = {base + (z * height + y) * pitch + x, pitch, height, type};
        return base != 0 || p.WidthInBytes == 0;
    };
    if (p.srcLOD || p.dstLOD) return CUDA_ERROR_INVALID_VALUE;
    w->width = p.WidthInBytes;
    w->height = p.Height;
    w->depth = p.Depth;
    w->original = p;
    if (w->bytes() == 0) return CUDA_SUCCESS;
    const bool good = side(p.srcMemoryType, p.srcHost, p.srcDevice, p.srcXInBytes, p.srcY, p.srcZ, p.srcPitch,
                           p.srcHeight, &w->from) &&
                      side(p.dstMemoryType, p.dstHost, p.dstDevice, p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch,
                           p.dstHeight, &w->to);
    if (!good)
        return p.srcMemoryType == CU_MEMORYTYPE_ARRAY || p.dstMemoryType == CU_MEMORYTYPE_ARRAY
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : CUDA_ERROR_INVALID_VALUE;
    // One run of bytes where rows follow each other without a gap.
    if (w->from.pitch == w->width && w->to.pitch == w->width &&
        (w->depth == 1 || (w->from.height == w->height && w->to.height == w->height))) {
        w->width = w->bytes();
        w->height = w->depth = 1;
    }
    return CUDA_SUCCESS;
}

}  // namespace softgpu

namespace {

CUresult run_3d(Call& call, const StreamRef& stream, const CUDA_MEMCPY3D* p, bool synchronous,
                bool peer = false) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    CopyWork w;
    w.peer = peer;
    if (const CUresult r = copy_from_3d(*p, &w); r != CUDA_SUCCESS) return r;
    return run(call, stream, std::move(w), synchronous);
}

CUresult run_2d(Call& call, const StreamRef& stream, const CUDA_MEMCPY2D* p, bool synchronous) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D q{};
    q.srcXInBytes = p->srcXInBytes;
    q.srcY = p->srcY;
    q.srcMemoryType = p->srcMemoryType;
    q.srcHost = p->srcHost;
    q.srcDevice = p->srcDevice;
    q.srcArray = p->srcArray;
    q.srcPitch = p->srcPitch;
    q.dstXInBytes = p->dstXInBytes;
    q.dstY = p->dstY;
    q.dstMemoryType = p->dstMemoryType;
    q.dstHost = p->dstHost;
    q.dstDevice = p->dstDevice;
    q.dstArray = p->dstArray;
    q.dstPitch = p->dstPitch;
    q.WidthInBytes = p->WidthInBytes;
    q.Height = p->Height;
    q.Depth = 1;
    return run_3d(call, stream, &q, synchronous);
}

CUresult run_3d_peer(Call& call, const StreamRef& stream, const CUDA_MEMCPY3D_PEER* p, bool synchronous) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D q{};
    q.srcXInBytes = p->srcXInBytes, q.srcY = p->srcY, q.srcZ = p->srcZ, q.srcLOD = p->srcLOD;
    q.srcMemoryType = p->srcMemoryType, q.srcHost = p->srcHost, q.srcDevice = p->srcDevice;
    q.srcPitch = p->srcPitch, q.srcHeight = p->srcHeight;
    q.dstXInBytes = p->dstXInBytes, q.dstY = p->dstY, q.dstZ = p->dstZ, q.dstLOD = p->dstLOD;
    q.dstMemoryType = p->dstMemoryType, q.dstHost = p->dstHost, q.dstDevice = p->dstDevice;
    q.dstPitch = p->dstPitch, q.dstHeight = p->dstHeight;
    q.WidthInBytes = p->WidthInBytes, q.Height = p->Height, q.Depth = p->Depth;
    return run_3d(call, stream, &q, synchronous, true);
}

constexpr auto H = CU_MEMORYTYPE_HOST;
constexpr auto D = CU_MEMORYTYPE_DEVICE;
constexpr auto U = CU_MEMORYTYPE_UNIFIED;

}  // namespace

// ---- linear copies ----

#define SOFTGPU_SYNC_COPY(to, to_type, from, from_type, bytes)                      \
    SOFTGPU_CALL(kContext);                                                         \
    if (!(to) || !(from)) return (bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; \
    return run(call, default_stream(), linear((to), (to_type), (from), (from_type), (bytes)), true)

#define SOFTGPU_ASYNC_COPY(to, to_type, from, from_type, bytes, stream)             \
    SOFTGPU_CALL(kContext);                                                         \
    if (!(to) || !(from)) return (bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; \
    return run(call, resolve_stream(stream), linear((to), (to_type), (from), (from_type), (bytes)), false)

SOFTCU cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    SOFTGPU_SYNC_COPY(to, U, from, U, bytes);
}
SOFTCU cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
    SOFTGPU_SYNC_COPY(to, D, number(from), H, bytes);
}
SOFTCU cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
    SOFTGPU_SYNC_COPY(number(to), H, from, D, bytes);
}
SOFTCU cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    SOFTGPU_SYNC_COPY(to, D, from, D, bytes);
}
SOFTCU cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
    SOFTGPU_CALL(kContext);
    if (!to || !from) return bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    return run(call, default_stream(), between_peers(to, from, bytes), true);
}
SOFTCU cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    SOFTGPU_ASYNC_COPY(to, U, from, U, bytes, stream);
}
SOFTCU cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    SOFTGPU_ASYNC_COPY(to, D, number(from), H, bytes, stream);
}
SOFTCU cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    SOFTGPU_ASYNC_COPY(number(to), H, from, D, bytes, stream);
}
SOFTCU cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    SOFTGPU_ASYNC_COPY(to, D, from, D, bytes, stream);
}
SOFTCU cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                         CUstream stream) {
    SOFTGPU_CALL(kContext);
    if (!to || !from) return bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    return run(call, resolve_stream(stream), between_peers(to, from, bytes), false);
}

// ---- shaped copies ----

SOFTCU cuMemcpy2D_v2(const CUDA_MEMCPY2D* p) {
    SOFTGPU_CALL(kContext);
    return run_2d(call, default_stream(), p, true);
}

SOFTCU cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* p) {
    SOFTGPU_CALL(kContext);
    return run_2d(call, default_stream(), p, true);
}

SOFTCU cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* p, CUstream stream) {
    SOFTGPU_CALL(kContext);
    return run_2d(call, resolve_stream(stream), p, false);
}

SOFTCU cuMemcpy3D_v2(const CUDA_MEMCPY3D* p) {
    SOFTGPU_CALL(kContext);
    return run_3d(call, default_stream(), p, true);
}

SOFTCU cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* p, CUstream stream) {
    SOFTGPU_CALL(kContext);
    return run_3d(call, resolve_stream(stream), p, false);
}

SOFTCU cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* p) {
    SOFTGPU_CALL(kContext);
    return run_3d_peer(call, default_stream(), p, true);
}

SOFTCU cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* p, CUstream stream) {
    SOFTGPU_CALL(kContext);
    return run_3d_peer(call, resolve_stream(stream), p, false);
}

// ---- batches ----

namespace {

CUresult batch(Call& call, CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
               CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count, size_t* fail,
               CUstream handle) {
    if (fail) *fail = SIZE_MAX;
    if (!to || !from || !bytes || count == 0 || !attributes || !indices || attribute_count == 0 ||
        attribute_count > count || indices[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!handle || handle == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;  // not on the default stream
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    for (size_t i = 0; i < count; ++i)
        if (const CUresult r = validate(stream->context, linear(to[i], U, from[i], U, bytes[i]));
            r != CUDA_SUCCESS) {
            if (fail) *fail = i;
            return r;
        }
    for (size_t i = 0; i < count; ++i)
        if (const CUresult r = run(call, stream, linear(to[i], U, from[i], U, bytes[i]), false);
            r != CUDA_SUCCESS) {
            if (fail) *fail = i;
            return r;
        }
    return CUDA_SUCCESS;
}

CUresult batch_3d(Call& call, size_t count, CUDA_MEMCPY3D_BATCH_OP* list, unsigned long long flags,
                  size_t* fail, CUstream handle) {
    if (fail) *fail = SIZE_MAX;
    if (!list || count == 0 || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!handle || handle == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    for (size_t i = 0; i < count; ++i) {
        const auto stop = [&](CUresult r) {
            if (fail) *fail = i;
            return r;
        };
        const CUDA_MEMCPY3D_BATCH_OP& b = list[i];
        if (b.src.type != CU_MEMCPY_OPERAND_TYPE_POINTER || b.dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
            return stop(CUDA_ERROR_NOT_SUPPORTED);
        CUDA_MEMCPY3D q{};
        q.srcMemoryType = q.dstMemoryType = U;
        q.srcDevice = b.src.op.ptr.ptr;
        q.srcPitch = b.src.op.ptr.rowLength;
        q.srcHeight = b.src.op.ptr.layerHeight;
        q.dstDevice = b.dst.op.ptr.ptr;
        q.dstPitch = b.dst.op.ptr.rowLength;
        q.dstHeight = b.dst.op.ptr.layerHeight;
        q.WidthInBytes = b.extent.width;
        q.Height = b.extent.height;
        q.Depth = b.extent.depth;
        if (const CUresult r = run_3d(call, stream, &q, false); r != CUDA_SUCCESS) return stop(r);
    }
    return CUDA_SUCCESS;
}

}  // namespace

SOFTCU cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                             CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                             CUstream stream) {
    SOFTGPU_CALL(kContext);
    return batch(call, to, from, bytes, count, attributes, indices, attribute_count, nullptr, stream);
}

SOFTCU cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, unsigned long long flags,
                               CUstream stream) {
    SOFTGPU_CALL(kContext);
    return batch_3d(call, count, list, flags, nullptr, stream);
}

#undef cuMemcpyBatchAsync
SOFTCU cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                          CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                          size_t* fail, CUstream stream) {
    SOFTGPU_CALL(kContext);
    return batch(call, to, from, bytes, count, attributes, indices, attribute_count, fail, stream);
}

#undef cuMemcpy3DBatchAsync
SOFTCU cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, size_t* fail,
                            unsigned long long flags, CUstream stream) {
    SOFTGPU_CALL(kContext);
    return batch_3d(call, count, list, flags, fail, stream);
}

// ---- memsets ----

SOFTCU cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
    SOFTGPU_CALL(kContext);
    return set(call, default_stream(), to, 0, value, 1, count, 1, true);
}
SOFTCU cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
    SOFTGPU_CALL(kContext);
    return set(call, default_stream(), to, 0, value, 2, count, 1, true);
}
SOFTCU cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
    SOFTGPU_CALL(kContext);
    return set(call, default_stream(), to, 0, value, 4, count, 1, true);
}
SOFTCU cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
    SOFTGPU_CALL(kContext);
    return set(call, default_stream(), to, pitch, value, 1, width, height, true);
}
SOFTCU cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
    SOFTGPU_CALL(kContext);
    return set(call, default_stream(), to, pitch, value, 2, width, height, true);
}
SOFTCU cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
    SOFTGPU_CALL(kContext);
    return set(call, default_stream(), to, pitch, value, 4, width, height, true);
}
SOFTCU cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    SOFTGPU_CALL(kContext);
    return set(call, resolve_stream(stream), to, 0, value, 1, count, 1, false);
}
SOFTCU cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
    SOFTGPU_CALL(kContext);
    return set(call, resolve_stream(stream), to, 0, value, 2, count, 1, false);
}
SOFTCU cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    SOFTGPU_CALL(kContext);
    return set(call, resolve_stream(stream), to, 0, value, 4, count, 1, false);
}
SOFTCU cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                         CUstream stream) {
    SOFTGPU_CALL(kContext);
    return set(call, resolve_stream(stream), to, pitch, value, 1, width, height, false);
}
SOFTCU cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                          CUstream stream) {
    SOFTGPU_CALL(kContext);
    return set(call, resolve_stream(stream), to, pitch, value, 2, width, height, false);
}
SOFTCU cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
                          CUstream stream) {
    SOFTGPU_CALL(kContext);
    return set(call, resolve_stream(stream), to, pitch, value, 4, width, height, false);
}
