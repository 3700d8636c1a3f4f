// Questions about memory, and the ways in which an address leaves our sight: other processes, tensor maps,
// textures.
#include "interpose/log.h"
#include "interpose/op_call.h"

namespace swapadvisor {

CUresult hook_cuPointerGetAttribute(Entry entry, Fn_cuPointerGetAttribute real, void* data,
                                    CUpointer_attribute attribute, CUdeviceptr address) {
    return answer_or_forward(
        entry, [&](Runtime& runtime) { return runtime.pointer_attribute(data, attribute, address); },
        [&] { return real(data, attribute, address); });
}

CUresult hook_cuPointerGetAttributes(Entry entry, Fn_cuPointerGetAttributes real, unsigned count,
                                     CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
    const CUresult result = real(count, attributes, data, address);
    Runtime* runtime = result == CUDA_SUCCESS ? runtime_for(entry) : nullptr;
    if (!runtime || !runtime->is_managed(address)) return result;
    // The driver knows nothing of a range without a mapping, and answers with zeros instead of an error.
    for (unsigned i = 0; i < count; ++i) (void)runtime->pointer_attribute(data[i], attributes[i], address);
    return result;
}

CUresult hook_cuPointerSetAttribute(Entry entry, Fn_cuPointerSetAttribute real, const void* value,
                                    CUpointer_attribute attribute, CUdeviceptr address) {
    // Set by libraries that register the memory with another device.
    if (Runtime* runtime = runtime_for(entry)) runtime->escape(address, "pointer attribute set");
    return real(value, attribute, address);
}

CUresult hook_cuMemRetainAllocationHandle(Entry entry, Fn_cuMemRetainAllocationHandle real,
                                          CUmemGenericAllocationHandle* handle, void* address) {
    Runtime* runtime = runtime_for(entry);
    // As for any memory that did not come from cuMemCreate; the handle behind it is ours.
    if (runtime && runtime->is_managed(reinterpret_cast<CUdeviceptr>(address)))
        return CUDA_ERROR_INVALID_VALUE;
    return real(handle, address);
}

CUresult hook_cuMemGetHandleForAddressRange(Entry entry, Fn_cuMemGetHandleForAddressRange real, void* handle,
                                            CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                                            unsigned long long flags) {
    if (Runtime* runtime = runtime_for(entry)) runtime->escape(address, "exported as a file descriptor");
    return real(handle, address, bytes, type, flags);
}

CUresult hook_cuIpcGetMemHandle(Entry entry, Fn_cuIpcGetMemHandle real, CUipcMemHandle* handle,
                                CUdeviceptr address) {
    Runtime* runtime = runtime_for(entry);
    if (handle && runtime && runtime->is_managed(address)) {
        size_t bytes = 0;
        (void)runtime->mem_get_address_range(nullptr, &bytes, address);
        if (first_time(bytes)) {
            say("cuIpcGetMemHandle: this memory is managed and cannot go to another process; "
                "SWAPADVISOR_PLAIN=%zu leaves "
                "allocations of its size to the driver",
                bytes);
        }
        return CUDA_ERROR_INVALID_VALUE;  // what a driver says of memory that is mapped
    }
    return real(handle, address);
}

namespace {

void keep_in_place(Entry entry, CUresult result, const void* address, const char* reason) {
    if (result != CUDA_SUCCESS) return;
    if (Runtime* runtime = runtime_for(entry))
        runtime->escape(reinterpret_cast<CUdeviceptr>(address), reason);
}

}  // namespace

CUresult hook_cuTensorMapEncodeTiled(Entry entry, Fn_cuTensorMapEncodeTiled real, CUtensorMap* map,
                                     CUtensorMapDataType type, cuuint32_t rank, void* address,
                                     const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                     const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                     CUtensorMapFloatOOBfill fill) {
    const CUresult result = real(map, type, rank, address, dims, strides, box, element_strides, interleave,
                                 swizzle, promotion, fill);
    keep_in_place(entry, result, address, "tensor map");
    return result;
}

CUresult hook_cuTensorMapEncodeIm2col(Entry entry, Fn_cuTensorMapEncodeIm2col real, CUtensorMap* map,
                                      CUtensorMapDataType type, cuuint32_t rank, void* address,
                                      const cuuint64_t* dims, const cuuint64_t* strides, const int* lower,
                                      const int* upper, cuuint32_t channels, cuuint32_t pixels,
                                      const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                      CUtensorMapFloatOOBfill fill) {
    const CUresult result = real(map, type, rank, address, dims, strides, lower, upper, channels, pixels,
                                 element_strides, interleave, swizzle, promotion, fill);
    keep_in_place(entry, result, address, "tensor map");
    return result;
}

CUresult hook_cuTensorMapEncodeIm2colWide(Entry entry, Fn_cuTensorMapEncodeIm2colWide real, CUtensorMap* map,
                                          CUtensorMapDataType type, cuuint32_t rank, void* address,
                                          const cuuint64_t* dims, const cuuint64_t* strides, int lower,
                                          int upper, cuuint32_t channels, cuuint32_t pixels,
                                          const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                          CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                          CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    const CUresult result = real(map, type, rank, address, dims, strides, lower, upper, channels, pixels,
                                 element_strides, interleave, mode, swizzle, promotion, fill);
    keep_in_place(entry, result, address, "tensor map");
    return result;
}

CUresult hook_cuTensorMapReplaceAddress(Entry entry, Fn_cuTensorMapReplaceAddress real, CUtensorMap* map,
                                        void* address) {
    const CUresult result = real(map, address);
    keep_in_place(entry, result, address, "tensor map");
    return result;
}

CUresult hook_cuTexObjectCreate(Entry entry, Fn_cuTexObjectCreate real, CUtexObject* texture,
                                const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* description,
                                const CUDA_RESOURCE_VIEW_DESC* view) {
    const CUresult result = real(texture, resource, description, view);
    if (resource && resource->resType == CU_RESOURCE_TYPE_LINEAR) {
        keep_in_place(entry, result, reinterpret_cast<const void*>(resource->res.linear.devPtr), "texture");
    } else if (resource && resource->resType == CU_RESOURCE_TYPE_PITCH2D) {
        keep_in_place(entry, result, reinterpret_cast<const void*>(resource->res.pitch2D.devPtr), "texture");
    }
    return result;
}

CUresult hook_cuTexRefSetAddress_v2(Entry entry, Fn_cuTexRefSetAddress_v2 real, size_t* offset,
                                    CUtexref texture, CUdeviceptr address, size_t bytes) {
    const CUresult result = real(offset, texture, address, bytes);
    keep_in_place(entry, result, reinterpret_cast<const void*>(address), "texture");
    return result;
}

CUresult hook_cuTexRefSetAddress2D_v2(Entry entry, Fn_cuTexRefSetAddress2D_v2 real, CUtexref texture,
                                      const CUDA_ARRAY_DESCRIPTOR* description, CUdeviceptr address,
                                      size_t pitch) {
    const CUresult result = real(texture, description, address, pitch);
    keep_in_place(entry, result, reinterpret_cast<const void*>(address), "texture");
    return result;
}

}  // namespace swapadvisor
