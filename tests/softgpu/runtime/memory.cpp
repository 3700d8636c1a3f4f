// Allocation, pinned and managed memory, pools, pointers, IPC.
#include <vector>

#include "api.h"

using namespace cudart;

CUDART_API(cudaMalloc, (void** address, size_t bytes), (address, bytes)) {
    if (!address) return cudaErrorInvalidValue;
    if (bytes == 0) {
        *address = nullptr;
        return cudaSuccess;
    }
    return forward(cu.cuMemAlloc, address, bytes);
}

CUDART_API(cudaFree, (void* address), (address)) {
    if (!address) return cudaSuccess;  // it creates the context, though
    return forward(cu.cuMemFree, address);
}

CUDART_API(cudaMallocPitch, (void** address, size_t* pitch, size_t width, size_t height),
           (address, pitch, width, height)) {
    if (!address || !pitch) return cudaErrorInvalidValue;
    if (width == 0 || height == 0) {
        *address = nullptr;
        *pitch = 0;
        return cudaSuccess;
    }
    return forward(cu.cuMemAllocPitch, address, pitch, width, height, 4u);
}

CUDART_API(cudaMalloc3D, (cudaPitchedPtr * pointer, cudaExtent extent), (pointer, extent)) {
    if (!pointer) return cudaErrorInvalidValue;
    *pointer = {nullptr, 0, extent.width, extent.height};
    const size_t rows = extent.height * extent.depth;
    if (extent.width == 0 || rows == 0) return cudaSuccess;
    return forward(cu.cuMemAllocPitch, &pointer->ptr, &pointer->pitch, extent.width, rows, 4u);
}

CUDART_API(cudaMallocManaged, (void** address, size_t bytes, unsigned flags), (address, bytes, flags)) {
    if (!address || bytes == 0) return cudaErrorInvalidValue;
    return forward(cu.cuMemAllocManaged, address, bytes, flags);
}

CUDART_API(cudaMallocHost, (void** address, size_t bytes), (address, bytes)) {
    if (!address) return cudaErrorInvalidValue;
    if (bytes == 0) {
        *address = nullptr;
        return cudaSuccess;
    }
    return to_error(cu.cuMemAllocHost(address, bytes));
}

CUDART_API(cudaHostAlloc, (void** address, size_t bytes, unsigned flags), (address, bytes, flags)) {
    if (!address) return cudaErrorInvalidValue;
    if (bytes == 0) {
        *address = nullptr;
        return cudaSuccess;
    }
    return to_error(cu.cuMemHostAlloc(address, bytes, flags));
}

CUDART_API(cudaFreeHost, (void* address), (address)) {
    return address ? to_error(cu.cuMemFreeHost(address)) : cudaSuccess;
}

CUDART_FORWARD(cudaHostRegister, cuMemHostRegister, (void* address, size_t bytes, unsigned flags),
               (address, bytes, flags))
CUDART_FORWARD(cudaHostUnregister, cuMemHostUnregister, (void* address), (address))
CUDART_FORWARD(cudaHostGetDevicePointer, cuMemHostGetDevicePointer,
               (void** device, void* host, unsigned flags), (device, host, flags))
CUDART_FORWARD(cudaHostGetFlags, cuMemHostGetFlags, (unsigned* flags, void* host), (flags, host))
CUDART_FORWARD(cudaMemGetInfo, cuMemGetInfo, (size_t * free_bytes, size_t* total_bytes),
               (free_bytes, total_bytes))

// --- managed memory
// ---------------------------------------------------------------------------------------------------
CUDART_FORWARD_TWIN(cudaMemPrefetchAsync, _ptsz, cuMemPrefetchAsync,
                    (const void* address, size_t bytes, cudaMemLocation location, unsigned flags,
                     cudaStream_t stream),
                    (address, bytes, location, flags, stream))
CUDART_FORWARD(cudaMemAdvise, cuMemAdvise,
               (const void* address, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location),
               (address, bytes, advice, location))
CUDART_FORWARD(cudaMemRangeGetAttribute, cuMemRangeGetAttribute,
               (void* data, size_t data_bytes, cudaMemRangeAttribute attribute, const void* address,
                size_t bytes),
               (data, data_bytes, attribute, address, bytes))
CUDART_FORWARD(cudaMemRangeGetAttributes, cuMemRangeGetAttributes,
               (void** data, size_t* sizes, cudaMemRangeAttribute* attributes, size_t count,
                const void* address, size_t bytes),
               (data, sizes, attributes, count, address, bytes))
CUDART_FORWARD_TWIN(cudaMemPrefetchBatchAsync, _ptsz, cuMemPrefetchBatchAsync,
                    (void** addresses, size_t* sizes, size_t count, cudaMemLocation* locations,
                     size_t* indices, size_t location_count, unsigned long long flags, cudaStream_t stream),
                    (addresses, sizes, count, locations, indices, location_count, flags, stream))
CUDART_FORWARD_TWIN(cudaMemDiscardBatchAsync, _ptsz, cuMemDiscardBatchAsync,
                    (void** addresses, size_t* sizes, size_t count, unsigned long long flags,
                     cudaStream_t stream),
                    (addresses, sizes, count, flags, stream))
CUDART_FORWARD_TWIN(cudaMemDiscardAndPrefetchBatchAsync, _ptsz, cuMemDiscardAndPrefetchBatchAsync,
                    (void** addresses, size_t* sizes, size_t count, cudaMemLocation* locations,
                     size_t* indices, size_t location_count, unsigned long long flags, cudaStream_t stream),
                    (addresses, sizes, count, locations, indices, location_count, flags, stream))
CUDART_FORWARD_TWIN(cudaStreamAttachMemAsync, _ptsz, cuStreamAttachMemAsync,
                    (cudaStream_t stream, void* address, size_t bytes, unsigned flags),
                    (stream, address, bytes, flags))

// --- stream-ordered allocation and pools
// --------------------------------------------------------------------------------
CUDART_TWIN(cudaMallocAsync, _ptsz, (void** address, size_t bytes, cudaStream_t stream),
            (address, bytes, stream)) {
    if (!address) return cudaErrorInvalidValue;
    if (bytes == 0) {
        *address = nullptr;
        return cudaSuccess;
    }
    return forward(cu.cuMemAllocAsync, address, bytes, stream);
}
CUDART_TWIN(cudaFreeAsync, _ptsz, (void* address, cudaStream_t stream), (address, stream)) {
    return address ? forward(cu.cuMemFreeAsync, address, stream) : cudaSuccess;
}
CUDART_FORWARD_TWIN(cudaMallocFromPoolAsync, _ptsz, cuMemAllocFromPoolAsync,
                    (void** address, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                    (address, bytes, pool, stream))
CUDART_FORWARD(cudaMemPoolTrimTo, cuMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes), (pool, bytes))
CUDART_FORWARD(cudaMemPoolSetAttribute, cuMemPoolSetAttribute,
               (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value), (pool, attribute, value))
CUDART_FORWARD(cudaMemPoolGetAttribute, cuMemPoolGetAttribute,
               (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value), (pool, attribute, value))
CUDART_FORWARD(cudaMemPoolSetAccess, cuMemPoolSetAccess,
               (cudaMemPool_t pool, const cudaMemAccessDesc* list, size_t count), (pool, list, count))
CUDART_FORWARD(cudaMemPoolGetAccess, cuMemPoolGetAccess,
               (cudaMemAccessFlags * flags, cudaMemPool_t pool, cudaMemLocation* location),
               (flags, pool, location))
CUDART_FORWARD(cudaMemPoolCreate, cuMemPoolCreate, (cudaMemPool_t * pool, const cudaMemPoolProps* properties),
               (pool, properties))
CUDART_FORWARD(cudaMemPoolDestroy, cuMemPoolDestroy, (cudaMemPool_t pool), (pool))
CUDART_FORWARD(cudaMemGetDefaultMemPool, cuMemGetDefaultMemPool,
               (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
               (pool, location, type))
CUDART_FORWARD(cudaMemGetMemPool, cuMemGetMemPool,
               (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
               (pool, location, type))
CUDART_FORWARD(cudaMemSetMemPool, cuMemSetMemPool,
               (cudaMemLocation * location, cudaMemAllocationType type, cudaMemPool_t pool),
               (location, type, pool))
CUDART_FORWARD(cudaMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle,
               (void* handle, cudaMemPool_t pool, cudaMemAllocationHandleType type, unsigned flags),
               (handle, pool, type, flags))
CUDART_FORWARD(cudaMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle,
               (cudaMemPool_t * pool, void* handle, cudaMemAllocationHandleType type, unsigned flags),
               (pool, handle, type, flags))
CUDART_FORWARD(cudaMemPoolExportPointer, cuMemPoolExportPointer,
               (cudaMemPoolPtrExportData * data, void* address), (data, address))
CUDART_FORWARD(cudaMemPoolImportPointer, cuMemPoolImportPointer,
               (void** address, cudaMemPool_t pool, cudaMemPoolPtrExportData* data), (address, pool, data))
CUDART_FORWARD(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
               (pool, device))
CUDART_FORWARD(cudaDeviceSetMemPool, cuDeviceSetMemPool, (int device, cudaMemPool_t pool), (device, pool))
CUDART_FORWARD(cudaDeviceGetMemPool, cuDeviceGetMemPool, (cudaMemPool_t * pool, int device), (pool, device))

// --- pointers and IPC
// ---------------------------------------------------------------------------------------------------
CUDART_API(cudaPointerGetAttributes, (cudaPointerAttributes * attributes, const void* pointer),
           (attributes, pointer)) {
    if (!attributes) return cudaErrorInvalidValue;
    CUmemorytype type{};
    unsigned managed = 0;
    int device = 0;
    CUdeviceptr device_pointer = 0;
    void* host_pointer = nullptr;
    const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* where[] = {&type, &managed, &device, &device_pointer, &host_pointer};
    const CUresult r = cu.cuPointerGetAttributes(5, which, where, address);
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_VALUE) return to_error(r);
    *attributes = {};
    if (r == CUDA_ERROR_INVALID_VALUE || type == CUmemorytype{}) {
        attributes->type = cudaMemoryTypeUnregistered;
        attributes->device = cudaInvalidDeviceId;
        attributes->hostPointer = const_cast<void*>(pointer);
        return cudaSuccess;
    }
    attributes->type = managed                      ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeDevice;
    attributes->device = device;
    attributes->devicePointer = reinterpret_cast<void*>(static_cast<std::uintptr_t>(device_pointer));
    attributes->hostPointer = host_pointer;
    return cudaSuccess;
}

CUDART_FORWARD(cudaIpcGetMemHandle, cuIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void* address),
               (handle, address))
CUDART_FORWARD(cudaIpcOpenMemHandle, cuIpcOpenMemHandle,
               (void** address, cudaIpcMemHandle_t handle, unsigned flags), (address, handle, flags))
CUDART_FORWARD(cudaIpcCloseMemHandle, cuIpcCloseMemHandle, (void* address), (address))
CUDART_FORWARD(cudaIpcGetEventHandle, cuIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
               (handle, event))
CUDART_FORWARD(cudaIpcOpenEventHandle, cuIpcOpenEventHandle,
               (cudaEvent_t * event, cudaIpcEventHandle_t handle), (event, handle))
