// Stream-ordered allocation from pools of the program's own. A pool whose memory may leave the process, or
// lies on another device or the host, stays the driver's; the others are served like the default pool.
#include <algorithm>
#include <mutex>
#include <vector>

#include "interpose/log.h"
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

std::mutex& mutex() {
    static std::mutex& instance = *new std::mutex;
    return instance;
}

/// Pools that stay the driver's.
std::vector<CUmemoryPool>& left_alone() {
    static std::vector<CUmemoryPool>& instance = *new std::vector<CUmemoryPool>;
    return instance;
}

bool is_left_alone(CUmemoryPool pool) {
    const std::lock_guard lock(mutex());
    const auto& pools = left_alone();
    return std::find(pools.begin(), pools.end(), pool) != pools.end();
}

bool may_be_served(const CUmemPoolProps& props) {
    if (props.handleTypes != CU_MEM_HANDLE_TYPE_NONE || props.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return false;
    using GetDevice = CUresult(CUDAAPI*)(CUdevice*);
    CUdevice current = -1;
    const auto get_device = reinterpret_cast<GetDevice>(real_symbol(managed_copy(), "cuCtxGetDevice"));
    return get_device && get_device(&current) == CUDA_SUCCESS && current == props.location.id;
}

}  // namespace

CUresult hook_cuMemPoolCreate(Entry entry, Fn_cuMemPoolCreate real, CUmemoryPool* pool,
                              const CUmemPoolProps* props) {
    const CUresult result = real(pool, props);
    if (result == CUDA_SUCCESS && runtime_for(entry) && !may_be_served(*props)) {
        const std::lock_guard lock(mutex());
        left_alone().push_back(*pool);
    }
    return result;
}

CUresult hook_cuMemPoolDestroy(Entry, Fn_cuMemPoolDestroy real, CUmemoryPool pool) {
    const CUresult result = real(pool);
    if (result == CUDA_SUCCESS) {
        const std::lock_guard lock(mutex());
        std::erase(left_alone(), pool);
    }
    return result;
}

CUresult hook_cuMemAllocFromPoolAsync(Entry entry, Fn_cuMemAllocFromPoolAsync real, CUdeviceptr* out,
                                      size_t bytes, CUmemoryPool pool, CUstream stream) {
    return answer_or_forward(
        entry,
        [&](Runtime& runtime) -> std::optional<CUresult> {
            if (!pool || is_left_alone(pool)) return std::nullopt;
            return runtime.mem_alloc_async(out, bytes, stream, entry.stream);
        },
        [&] { return real(out, bytes, pool, stream); });
}

CUresult hook_cuMemPoolExportPointer(Entry entry, Fn_cuMemPoolExportPointer real,
                                     CUmemPoolPtrExportData* data, CUdeviceptr address) {
    Runtime* runtime = runtime_for(entry);
    if (runtime && runtime->is_managed(address))
        return CUDA_ERROR_INVALID_VALUE;  // as for memory of any other pool
    return real(data, address);
}

}  // namespace swapadvisor
