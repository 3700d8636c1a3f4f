#include "interpose/left_to_driver.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "interpose/config.h"
#include "interpose/driver.h"

namespace swapadvisor {

namespace {

std::atomic<bool> g_peers{false};
std::atomic<int> g_pool_count{0};

// Never destroyed: hooks may run after static destructors.
struct Pools {
    std::mutex mutex;
    std::vector<CUmemoryPool> left;
};
Pools& pools() {
    static Pools& instance = *new Pools;
    return instance;
}

CUdevice current_device() {
    using GetDevice = CUresult(CUDAAPI*)(CUdevice*);
    CUdevice device = -1;
    const auto get_device = reinterpret_cast<GetDevice>(real_symbol(managed_copy(), "cuCtxGetDevice"));
    return get_device && get_device(&device) == CUDA_SUCCESS ? device : -1;
}

}  // namespace

bool allocation_stays(std::size_t bytes) {
    if (g_peers.load(std::memory_order_relaxed)) [[unlikely]]
        return true;
    const auto& plain = config().plain_bytes;
    return !plain.empty() && std::find(plain.begin(), plain.end(), bytes) != plain.end();
}

CUdevice peers_reach_in() {
    g_peers.store(true, std::memory_order_relaxed);
    return current_device();
}

void leave_pool(CUmemoryPool pool) {
    if (pool_stays(pool)) return;
    const std::lock_guard lock(pools().mutex);
    pools().left.push_back(pool);
    g_pool_count.fetch_add(1, std::memory_order_relaxed);
}

void forget_pool(CUmemoryPool pool) {
    if (g_pool_count.load(std::memory_order_relaxed) == 0) return;
    const std::lock_guard lock(pools().mutex);
    g_pool_count.fetch_sub(static_cast<int>(std::erase(pools().left, pool)), std::memory_order_relaxed);
}

bool pool_stays(CUmemoryPool pool) {
    if (g_pool_count.load(std::memory_order_relaxed) == 0) return false;
    const std::lock_guard lock(pools().mutex);
    const auto& left = pools().left;
    return std::find(left.begin(), left.end(), pool) != left.end();
}

bool current_pool_stays() {
    if (g_pool_count.load(std::memory_order_relaxed) == 0) return false;
    using GetPool = CUresult(CUDAAPI*)(CUmemoryPool*, CUdevice);
    CUmemoryPool pool = nullptr;
    const auto get_pool = reinterpret_cast<GetPool>(real_symbol(managed_copy(), "cuDeviceGetMemPool"));
    return get_pool && get_pool(&pool, current_device()) == CUDA_SUCCESS && pool_stays(pool);
}

bool pool_can_be_served(const CUmemPoolProps& props) {
    return props.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
           props.location.type == CU_MEM_LOCATION_TYPE_DEVICE && props.location.id == current_device();
}

}  // namespace swapadvisor
