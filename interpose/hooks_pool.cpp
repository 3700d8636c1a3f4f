// Stream-ordered allocation, from the device's pool and from pools of the program's own. A pool whose memory
// may leave the process, or lies on another device or the host, stays the driver's.
#include "interpose/left_to_driver.h"
#include "interpose/op_call.h"

namespace swapadvisor {

CUresult hook_cuMemPoolCreate(Entry entry, Fn_cuMemPoolCreate real, CUmemoryPool* pool,
                              const CUmemPoolProps* props) {
    const CUresult result = real(pool, props);
    if (result != CUDA_SUCCESS || !runtime_for(entry)) return result;
    forget_pool(*pool);  // the handle may have been another's, which was destroyed
    if (!pool_can_be_served(*props)) leave_pool(*pool);
    return result;
}

CUresult hook_cuMemPoolDestroy(Entry, Fn_cuMemPoolDestroy real, CUmemoryPool pool) {
    const CUresult result = real(pool);
    if (result == CUDA_SUCCESS) leave_pool(pool);  // the driver says what is wrong with a use of it
    return result;
}

CUresult hook_cuMemPoolSetAccess(Entry entry, Fn_cuMemPoolSetAccess real, CUmemoryPool pool,
                                 const CUmemAccessDesc* access, size_t count) {
    const CUresult result = real(pool, access, count);
    Runtime* runtime = result == CUDA_SUCCESS ? runtime_for(entry) : nullptr;
    if (!runtime) return result;
    leave_pool(pool);  // other devices reach into it: what comes from now on stays, what is managed is opened
    for (size_t i = 0; i < count; ++i)
        if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            runtime->pool_reached_by(access[i].location.id);
    return result;
}

CUresult hook_cuMemAllocAsync(Entry entry, Fn_cuMemAllocAsync real, CUdeviceptr* out, size_t bytes,
                              CUstream stream) {
    return answer_or_forward(
        entry,
        [&](Runtime& runtime) -> std::optional<CUresult> {
            if (current_pool_stays()) return std::nullopt;
            return runtime.mem_alloc_async(out, bytes, stream, entry.stream);
        },
        [&] { return real(out, bytes, stream); });
}

CUresult hook_cuMemAllocFromPoolAsync(Entry entry, Fn_cuMemAllocFromPoolAsync real, CUdeviceptr* out,
                                      size_t bytes, CUmemoryPool pool, CUstream stream) {
    return answer_or_forward(
        entry,
        [&](Runtime& runtime) -> std::optional<CUresult> {
            if (!pool || pool_stays(pool)) return std::nullopt;
            return runtime.mem_alloc_async(out, bytes, stream, entry.stream);
        },
        [&] { return real(out, bytes, pool, stream); });
}

CUresult hook_cuMemFreeAsync(Entry entry, Fn_cuMemFreeAsync real, CUdeviceptr address, CUstream stream) {
    return answer_or_forward(
        entry, [&](Runtime& runtime) { return runtime.mem_free_async(address, stream, entry.stream); },
        [&] { return real(address, stream); });
}

CUresult hook_cuMemPoolExportPointer(Entry entry, Fn_cuMemPoolExportPointer real,
                                     CUmemPoolPtrExportData* data, CUdeviceptr address) {
    Runtime* runtime = runtime_for(entry);
    if (runtime && runtime->is_managed(address))
        return CUDA_ERROR_INVALID_VALUE;  // as for memory of any other pool
    return real(data, address);
}

}  // namespace swapadvisor
