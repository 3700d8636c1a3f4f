// Stream-ordered allocation, from the device's pool and from pools of the program's own. A pool whose memory
// may leave the process, or lies on another device or the host, stays the driver's.
#include "interpose/op_call.h"
#include "interpose/pools.h"

namespace swapadvisor {

CUresult hook_cuMemPoolCreate(Entry entry, Fn_cuMemPoolCreate real, CUmemoryPool* pool,
                              const CUmemPoolProps* props) {
    const CUresult result = real(pool, props);
    if (result == CUDA_SUCCESS && runtime_for(entry)) pool_created(*pool, *props);
    return result;
}

CUresult hook_cuMemPoolDestroy(Entry, Fn_cuMemPoolDestroy real, CUmemoryPool pool) {
    const CUresult result = real(pool);
    if (result == CUDA_SUCCESS) pool_destroyed(pool);
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

namespace {

/// `pool` null: the driver does not tell, and there is nothing to count.
std::optional<CUresult> allocate(Entry entry, Runtime& runtime, CUdeviceptr* out, std::size_t bytes,
                                 CUmemoryPool pool, CUstream stream) {
    if (pool) {
        const PoolAnswer answer = pool_answer(pool, bytes);
        if (answer == PoolAnswer::leave) return std::nullopt;
        if (answer == PoolAnswer::full) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const auto result = runtime.mem_alloc_async(out, bytes, stream, entry.stream);
    if (pool && result == CUDA_SUCCESS) pool_took(*out, {pool, bytes});
    return result;
}

}  // namespace

CUresult hook_cuMemAllocAsync(Entry entry, Fn_cuMemAllocAsync real, CUdeviceptr* out, size_t bytes,
                              CUstream stream) {
    return answer_or_forward(
        entry, [&](Runtime& runtime) { return allocate(entry, runtime, out, bytes, current_pool(), stream); },
        [&] { return real(out, bytes, stream); });
}

CUresult hook_cuMemAllocFromPoolAsync(Entry entry, Fn_cuMemAllocFromPoolAsync real, CUdeviceptr* out,
                                      size_t bytes, CUmemoryPool pool, CUstream stream) {
    return answer_or_forward(
        entry,
        [&](Runtime& runtime) -> std::optional<CUresult> {
            return pool ? allocate(entry, runtime, out, bytes, pool, stream) : std::nullopt;
        },
        [&] { return real(out, bytes, pool, stream); });
}

CUresult hook_cuMemFreeAsync(Entry entry, Fn_cuMemFreeAsync real, CUdeviceptr address, CUstream stream) {
    return answer_or_forward(
        entry,
        [&](Runtime& runtime) {
            return free_piece(address, [&] { return runtime.mem_free_async(address, stream, entry.stream); });
        },
        [&] { return real(address, stream); });
}

CUresult hook_cuMemPoolGetAttribute(Entry entry, Fn_cuMemPoolGetAttribute real, CUmemoryPool pool,
                                    CUmemPool_attribute attribute, void* value) {
    const CUresult result = real(pool, attribute, value);
    if (result == CUDA_SUCCESS && runtime_for(entry)) pool_attribute_read(pool, attribute, value);
    return result;
}

CUresult hook_cuMemPoolSetAttribute(Entry entry, Fn_cuMemPoolSetAttribute real, CUmemoryPool pool,
                                    CUmemPool_attribute attribute, void* value) {
    const CUresult result = real(pool, attribute, value);
    if (result == CUDA_SUCCESS && runtime_for(entry)) pool_attribute_set(pool, attribute, value);
    return result;
}

CUresult hook_cuMemPoolTrimTo(Entry entry, Fn_cuMemPoolTrimTo real, CUmemoryPool pool, size_t keep) {
    const CUresult result = real(pool, keep);
    if (result == CUDA_SUCCESS && runtime_for(entry)) pool_trimmed(pool, keep);
    return result;
}

CUresult hook_cuMemPoolExportPointer(Entry entry, Fn_cuMemPoolExportPointer real,
                                     CUmemPoolPtrExportData* data, CUdeviceptr address) {
    Runtime* runtime = runtime_for(entry);
    if (runtime && runtime->is_managed(address))
        return CUDA_ERROR_INVALID_VALUE;  // as for memory of any other pool
    return real(data, address);
}

}  // namespace swapadvisor
