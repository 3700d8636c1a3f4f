// Copies and memsets between host and device memory.
#include "copy.h"

namespace cudart {

namespace {

bool valid(cudaMemcpyKind kind) {
    return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

CUmemorytype type_of(cudaMemcpyKind kind, bool source) {
    switch (kind) {
        case cudaMemcpyHostToHost:
            return CU_MEMORYTYPE_HOST;
        case cudaMemcpyHostToDevice:
            return source ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        case cudaMemcpyDeviceToHost:
            return source ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        case cudaMemcpyDeviceToDevice:
            return CU_MEMORYTYPE_DEVICE;
        default:
            return CU_MEMORYTYPE_UNIFIED;
    }
}

CUdeviceptr pointer(const void* p) {
    return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(p));
}

cudaError_t copy(const Driver& cu, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    if (!valid(kind)) return cudaErrorInvalidMemcpyDirection;
    if (bytes == 0) return cudaSuccess;
    switch (kind) {
        case cudaMemcpyHostToDevice:
            return to_error(cu.cuMemcpyHtoD(pointer(to), from, bytes));
        case cudaMemcpyDeviceToHost:
            return to_error(cu.cuMemcpyDtoH(to, pointer(from), bytes));
        case cudaMemcpyDeviceToDevice:
            return to_error(cu.cuMemcpyDtoD(pointer(to), pointer(from), bytes));
        default:
            return to_error(cu.cuMemcpy(pointer(to), pointer(from), bytes));
    }
}

cudaError_t copy_async(const Driver& cu, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                       cudaStream_t stream) {
    if (!valid(kind)) return cudaErrorInvalidMemcpyDirection;
    if (bytes == 0) return cudaSuccess;
    switch (kind) {
        case cudaMemcpyHostToDevice:
            return to_error(cu.cuMemcpyHtoDAsync(pointer(to), from, bytes, stream));
        case cudaMemcpyDeviceToHost:
            return to_error(cu.cuMemcpyDtoHAsync(to, pointer(from), bytes, stream));
        case cudaMemcpyDeviceToDevice:
            return to_error(cu.cuMemcpyDtoDAsync(pointer(to), pointer(from), bytes, stream));
        default:
            return to_error(cu.cuMemcpyAsync(pointer(to), pointer(from), bytes, stream));
    }
}

cudaError_t plane(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                  cudaMemcpyKind kind, CUDA_MEMCPY2D* out) {
    if (!valid(kind)) return cudaErrorInvalidMemcpyDirection;
    if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
    *out = {};
    out->srcMemoryType = type_of(kind, true);
    out->dstMemoryType = type_of(kind, false);
    out->srcHost = from, out->srcDevice = pointer(from), out->srcPitch = from_pitch;
    out->dstHost = to, out->dstDevice = pointer(to), out->dstPitch = to_pitch;
    out->WidthInBytes = width, out->Height = height;
    return cudaSuccess;
}

cudaError_t peer_copy(const cudaMemcpy3DPeerParms& in, CUDA_MEMCPY3D_PEER* out) {
    if (in.srcArray || in.dstArray) return cudaErrorNotSupported;
    *out = {};
    out->srcMemoryType = out->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    out->srcXInBytes = in.srcPos.x, out->srcY = in.srcPos.y, out->srcZ = in.srcPos.z;
    out->dstXInBytes = in.dstPos.x, out->dstY = in.dstPos.y, out->dstZ = in.dstPos.z;
    out->srcDevice = pointer(in.srcPtr.ptr), out->srcPitch = in.srcPtr.pitch,
    out->srcHeight = in.srcPtr.ysize;
    out->dstDevice = pointer(in.dstPtr.ptr), out->dstPitch = in.dstPtr.pitch,
    out->dstHeight = in.dstPtr.ysize;
    out->WidthInBytes = in.extent.width, out->Height = in.extent.height, out->Depth = in.extent.depth;
    CUDART_TRY(primary_context(in.srcDevice, &out->srcContext));
    return primary_context(in.dstDevice, &out->dstContext);
}

bool empty(const cudaExtent& e) {
    return e.width == 0 || e.height == 0 || e.depth == 0;
}

unsigned char byte(int value) {
    return static_cast<unsigned char>(value);
}

}  // namespace

cudaError_t driver_copy(const cudaMemcpy3DParms& in, CUDA_MEMCPY3D* out) {
    if (!valid(in.kind)) return cudaErrorInvalidMemcpyDirection;
    if (in.srcArray || in.dstArray) return cudaErrorNotSupported;  // the device has no arrays
    if (!empty(in.extent) && (in.extent.width > in.srcPtr.pitch || in.extent.width > in.dstPtr.pitch))
        return cudaErrorInvalidPitchValue;
    *out = {};
    out->srcMemoryType = type_of(in.kind, true);
    out->dstMemoryType = type_of(in.kind, false);
    out->srcXInBytes = in.srcPos.x, out->srcY = in.srcPos.y, out->srcZ = in.srcPos.z;
    out->dstXInBytes = in.dstPos.x, out->dstY = in.dstPos.y, out->dstZ = in.dstPos.z;
    out->srcHost = in.srcPtr.ptr, out->srcDevice = pointer(in.srcPtr.ptr);
    out->srcPitch = in.srcPtr.pitch, out->srcHeight = in.srcPtr.ysize;
    out->dstHost = in.dstPtr.ptr, out->dstDevice = pointer(in.dstPtr.ptr);
    out->dstPitch = in.dstPtr.pitch, out->dstHeight = in.dstPtr.ysize;
    out->WidthInBytes = in.extent.width, out->Height = in.extent.height, out->Depth = in.extent.depth;
    return cudaSuccess;
}

void runtime_copy(const CUDA_MEMCPY3D& in, cudaMemcpy3DParms* out) {
    const auto is_host = [](CUmemorytype t) { return t == CU_MEMORYTYPE_HOST; };
    const auto unified =
        in.srcMemoryType == CU_MEMORYTYPE_UNIFIED || in.dstMemoryType == CU_MEMORYTYPE_UNIFIED;
    const auto place = [&](CUmemorytype t, const void* host, CUdeviceptr device) {
        return is_host(t) ? const_cast<void*>(host)
                          : reinterpret_cast<void*>(static_cast<std::uintptr_t>(device));
    };
    *out = {};
    out->srcPos = {in.srcXInBytes, in.srcY, in.srcZ};
    out->dstPos = {in.dstXInBytes, in.dstY, in.dstZ};
    out->srcPtr = {place(in.srcMemoryType, in.srcHost, in.srcDevice), in.srcPitch, in.WidthInBytes,
                   in.srcHeight};
    out->dstPtr = {place(in.dstMemoryType, in.dstHost, in.dstDevice), in.dstPitch, in.WidthInBytes,
                   in.dstHeight};
    out->extent = {in.WidthInBytes, in.Height, in.Depth};
    out->kind = unified ? cudaMemcpyDefault
                : is_host(in.srcMemoryType)
                    ? (is_host(in.dstMemoryType) ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice)
                : is_host(in.dstMemoryType) ? cudaMemcpyDeviceToHost
                                            : cudaMemcpyDeviceToDevice;
}

cudaError_t linear_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, CUDA_MEMCPY3D* out) {
    cudaMemcpy3DParms p{};
    p.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
    p.dstPtr = {to, bytes, bytes, 1};
    p.extent = {bytes, 1, 1};
    p.kind = kind;
    return driver_copy(p, out);
}

cudaError_t symbol_part(const void* symbol, size_t offset, size_t bytes, void** address) {
    SymbolSpan span;
    CUDART_TRY(find_symbol(symbol, &span));
    if (offset > span.bytes || bytes > span.bytes - offset) return cudaErrorInvalidValue;
    *address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(span.address + offset));
    return cudaSuccess;
}

}  // namespace cudart

using namespace cudart;

// --- linear
// -------------------------------------------------------------------------------------------------------------
CUDART_TWIN(cudaMemcpy, _ptds, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
            (to, from, bytes, kind)) {
    return copy(cu, to, from, bytes, kind);
}
CUDART_TWIN(cudaMemcpyAsync, _ptsz,
            (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
            (to, from, bytes, kind, stream)) {
    return copy_async(cu, to, from, bytes, kind, stream);
}

CUDART_TWIN(cudaMemcpyToSymbol, _ptds,
            (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind),
            (symbol, from, bytes, offset, kind)) {
    if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost)
        return cudaErrorInvalidMemcpyDirection;
    void* to = nullptr;
    CUDART_TRY(symbol_part(symbol, offset, bytes, &to));
    return copy(cu, to, from, bytes, kind);
}
CUDART_TWIN(cudaMemcpyToSymbolAsync, _ptsz,
            (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
             cudaStream_t stream),
            (symbol, from, bytes, offset, kind, stream)) {
    if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost)
        return cudaErrorInvalidMemcpyDirection;
    void* to = nullptr;
    CUDART_TRY(symbol_part(symbol, offset, bytes, &to));
    return copy_async(cu, to, from, bytes, kind, stream);
}
CUDART_TWIN(cudaMemcpyFromSymbol, _ptds,
            (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
            (to, symbol, bytes, offset, kind)) {
    if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice)
        return cudaErrorInvalidMemcpyDirection;
    void* from = nullptr;
    CUDART_TRY(symbol_part(symbol, offset, bytes, &from));
    return copy(cu, to, from, bytes, kind);
}
CUDART_TWIN(cudaMemcpyFromSymbolAsync, _ptsz,
            (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
             cudaStream_t stream),
            (to, symbol, bytes, offset, kind, stream)) {
    if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice)
        return cudaErrorInvalidMemcpyDirection;
    void* from = nullptr;
    CUDART_TRY(symbol_part(symbol, offset, bytes, &from));
    return copy_async(cu, to, from, bytes, kind, stream);
}

CUDART_API(cudaMemcpyPeer, (void* to, int to_device, const void* from, int from_device, size_t bytes),
           (to, to_device, from, from_device, bytes)) {
    CUcontext to_context = nullptr, from_context = nullptr;
    CUDART_TRY(primary_context(to_device, &to_context));
    CUDART_TRY(primary_context(from_device, &from_context));
    return forward(cu.cuMemcpyPeer, to, to_context, from, from_context, bytes);
}
CUDART_API(cudaMemcpyPeerAsync,
           (void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream),
           (to, to_device, from, from_device, bytes, stream)) {
    CUcontext to_context = nullptr, from_context = nullptr;
    CUDART_TRY(primary_context(to_device, &to_context));
    CUDART_TRY(primary_context(from_device, &from_context));
    return forward(cu.cuMemcpyPeerAsync, to, to_context, from, from_context, bytes, stream);
}

CUDART_FORWARD_TWIN(cudaMemcpyBatchAsync, _ptsz, cuMemcpyBatchAsync,
                    (void* const* to, const void* const* from, const size_t* sizes, size_t count,
                     cudaMemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                     cudaStream_t stream),
                    (to, from, sizes, count, attributes, indices, attribute_count, stream))
CUDART_FORWARD_TWIN(cudaMemcpy3DBatchAsync, _ptsz, cuMemcpy3DBatchAsync,
                    (size_t count, cudaMemcpy3DBatchOp* list, unsigned long long flags, cudaStream_t stream),
                    (count, list, flags, stream))
static_assert(sizeof(cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP));
static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes));

// --- planes and volumes
// ---------------------------------------------------------------------------------------------------
CUDART_TWIN(cudaMemcpy2D, _ptds,
            (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
             cudaMemcpyKind kind),
            (to, to_pitch, from, from_pitch, width, height, kind)) {
    if (width == 0 || height == 0) return cudaSuccess;
    CUDA_MEMCPY2D c;
    CUDART_TRY(plane(to, to_pitch, from, from_pitch, width, height, kind, &c));
    return to_error(cu.cuMemcpy2DUnaligned(&c));
}
CUDART_TWIN(cudaMemcpy2DAsync, _ptsz,
            (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
             cudaMemcpyKind kind, cudaStream_t stream),
            (to, to_pitch, from, from_pitch, width, height, kind, stream)) {
    if (width == 0 || height == 0) return cudaSuccess;
    CUDA_MEMCPY2D c;
    CUDART_TRY(plane(to, to_pitch, from, from_pitch, width, height, kind, &c));
    return to_error(cu.cuMemcpy2DAsync(&c, stream));
}
CUDART_TWIN(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* p), (p)) {
    if (!p) return cudaErrorInvalidValue;
    if (empty(p->extent)) return cudaSuccess;
    CUDA_MEMCPY3D c;
    CUDART_TRY(driver_copy(*p, &c));
    return to_error(cu.cuMemcpy3D(&c));
}
CUDART_TWIN(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* p, cudaStream_t stream), (p, stream)) {
    if (!p) return cudaErrorInvalidValue;
    if (empty(p->extent)) return cudaSuccess;
    CUDA_MEMCPY3D c;
    CUDART_TRY(driver_copy(*p, &c));
    return to_error(cu.cuMemcpy3DAsync(&c, stream));
}
CUDART_TWIN(cudaMemcpy3DPeer, _ptds, (const cudaMemcpy3DPeerParms* p), (p)) {
    if (!p) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D_PEER c;
    CUDART_TRY(peer_copy(*p, &c));
    return to_error(cu.cuMemcpy3DPeer(&c));
}
CUDART_TWIN(cudaMemcpy3DPeerAsync, _ptsz, (const cudaMemcpy3DPeerParms* p, cudaStream_t stream),
            (p, stream)) {
    if (!p) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D_PEER c;
    CUDART_TRY(peer_copy(*p, &c));
    return to_error(cu.cuMemcpy3DPeerAsync(&c, stream));
}

// --- memset
// ---------------------------------------------------------------------------------------------------------------
CUDART_TWIN(cudaMemset, _ptds, (void* address, int value, size_t bytes), (address, value, bytes)) {
    if (bytes == 0) return cudaSuccess;
    return to_error(cu.cuMemsetD8(pointer(address), byte(value), bytes));
}
CUDART_TWIN(cudaMemsetAsync, _ptsz, (void* address, int value, size_t bytes, cudaStream_t stream),
            (address, value, bytes, stream)) {
    if (bytes == 0) return cudaSuccess;
    return to_error(cu.cuMemsetD8Async(pointer(address), byte(value), bytes, stream));
}
CUDART_TWIN(cudaMemset2D, _ptds, (void* address, size_t pitch, int value, size_t width, size_t height),
            (address, pitch, value, width, height)) {
    if (width == 0 || height == 0) return cudaSuccess;
    return to_error(cu.cuMemsetD2D8(pointer(address), pitch, byte(value), width, height));
}
CUDART_TWIN(cudaMemset2DAsync, _ptsz,
            (void* address, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
            (address, pitch, value, width, height, stream)) {
    if (width == 0 || height == 0) return cudaSuccess;
    return to_error(cu.cuMemsetD2D8Async(pointer(address), pitch, byte(value), width, height, stream));
}

namespace {

// Slices are adjacent when the extent has the full height; else each is a memset of its own.
template <class Set>
cudaError_t memset_volume(const cudaPitchedPtr& p, const cudaExtent& extent, Set set) {
    if (empty(extent)) return cudaSuccess;
    if (extent.height > p.ysize && extent.depth > 1) return cudaErrorInvalidValue;
    if (extent.height == p.ysize || extent.depth == 1)
        return to_error(set(pointer(p.ptr), extent.height * extent.depth));
    for (size_t z = 0; z < extent.depth; ++z)
        CUDART_TRY(to_error(set(pointer(p.ptr) + z * p.pitch * p.ysize, extent.height)));
    return cudaSuccess;
}

}  // namespace

CUDART_TWIN(cudaMemset3D, _ptds, (cudaPitchedPtr p, int value, cudaExtent extent), (p, value, extent)) {
    return memset_volume(p, extent, [&](CUdeviceptr start, size_t rows) {
        return cu.cuMemsetD2D8(start, p.pitch, byte(value), extent.width, rows);
    });
}
CUDART_TWIN(cudaMemset3DAsync, _ptsz, (cudaPitchedPtr p, int value, cudaExtent extent, cudaStream_t stream),
            (p, value, extent, stream)) {
    return memset_volume(p, extent, [&](CUdeviceptr start, size_t rows) {
        return cu.cuMemsetD2D8Async(start, p.pitch, byte(value), extent.width, rows, stream);
    });
}
