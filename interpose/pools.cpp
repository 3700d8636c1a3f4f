#include "interpose/pools.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "interpose/driver.h"
#include "interpose/left_to_driver.h"

namespace swapadvisor {

namespace {

constexpr std::uint64_t kPage = 2ull << 20;  // in what a pool takes its memory from the device

std::uint64_t whole_pages(std::uint64_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

struct Pool {
    CUdevice device = -1;
    bool served = true;
    std::uint64_t most = 0;  ///< it may not give more; 0: no limit
    std::uint64_t threshold = 0;
    std::uint64_t used = 0, used_peak = 0, reserved = 0, reserved_peak = 0;

    void took(std::uint64_t bytes) {
        used += bytes;
        used_peak = std::max(used_peak, used);
        reserved = std::max(reserved, whole_pages(used));
        reserved_peak = std::max(reserved_peak, reserved);
    }
    void gave(std::uint64_t bytes) {
        used -= bytes;
        keep(threshold);
    }
    /// At most so much stays reserved beyond what is in use.
    void keep(std::uint64_t bytes) { reserved = std::max(whole_pages(used), std::min(reserved, bytes)); }
};

// Never destroyed: hooks may run after static destructors.
struct Pools {
    std::mutex mutex;
    std::unordered_map<CUmemoryPool, Pool> known;
    std::unordered_map<CUdeviceptr, PoolPiece> pieces;
    std::atomic<std::size_t> piece_count{0};  ///< 0 means that frees need no look
};
Pools& pools() {
    static Pools& instance = *new Pools;
    return instance;
}

using PoolOfDevice = CUresult(CUDAAPI*)(CUmemoryPool*, CUdevice);

CUmemoryPool ask(const char* function, CUdevice device) {
    const auto call = reinterpret_cast<PoolOfDevice>(real_symbol(managed_copy(), function));
    CUmemoryPool pool = nullptr;
    return call && call(&pool, device) == CUDA_SUCCESS ? pool : nullptr;
}

/// With the lock held; null: unknown.
Pool* find(CUmemoryPool pool) {
    const auto it = pools().known.find(pool);
    return it == pools().known.end() ? nullptr : &it->second;
}

}  // namespace

void pool_created(CUmemoryPool pool, const CUmemPoolProps& props) {
    Pool made;
    made.device = props.location.id;
    made.served = props.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
                  props.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                  props.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    made.most = props.maxSize;
    const std::lock_guard lock(pools().mutex);
    pools().known.insert_or_assign(pool, made);
}

void pool_destroyed(CUmemoryPool pool) {
    const std::lock_guard lock(pools().mutex);
    pools().known.erase(pool);
}

void leave_pool(CUmemoryPool pool) {
    const CUdevice device = current_device();
    const std::lock_guard lock(pools().mutex);
    Pool& left = pools().known[pool];
    if (left.device < 0) left.device = device;
    left.served = false;
}

CUmemoryPool current_pool() {
    return ask("cuDeviceGetMemPool", current_device());
}

PoolAnswer pool_answer(CUmemoryPool pool, std::size_t bytes) {
    const CUdevice device = current_device();
    const std::lock_guard lock(pools().mutex);
    Pool* known = find(pool);
    if (!known) {
        if (!pool || pool != ask("cuDeviceGetDefaultMemPool", device)) return PoolAnswer::leave;
        known = &pools().known[pool];
        known->device = device;
    }
    if (!known->served || known->device != device) return PoolAnswer::leave;
    if (known->most != 0 && (bytes > known->most || known->used > known->most - bytes))
        return PoolAnswer::full;
    return PoolAnswer::serve;
}

void pool_took(CUdeviceptr address, PoolPiece piece) {
    const std::lock_guard lock(pools().mutex);
    if (Pool* known = find(piece.pool)) known->took(piece.bytes);
    pools().pieces[address] = piece;
    pools().piece_count.store(pools().pieces.size(), std::memory_order_relaxed);
}

std::optional<PoolPiece> pool_gave(CUdeviceptr address) {
    if (pools().piece_count.load(std::memory_order_relaxed) == 0) return std::nullopt;
    const std::lock_guard lock(pools().mutex);
    const auto it = pools().pieces.find(address);
    if (it == pools().pieces.end()) return std::nullopt;
    const PoolPiece piece = it->second;
    pools().pieces.erase(it);
    pools().piece_count.store(pools().pieces.size(), std::memory_order_relaxed);
    if (Pool* known = find(piece.pool)) known->gave(piece.bytes);
    return piece;
}

CUmemoryPool pool_of(CUdeviceptr address) {
    if (pools().piece_count.load(std::memory_order_relaxed) == 0) return nullptr;
    const std::lock_guard lock(pools().mutex);
    const auto it = pools().pieces.find(address);
    return it == pools().pieces.end() ? nullptr : it->second.pool;
}

void pool_attribute_read(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
    const std::lock_guard lock(pools().mutex);
    const Pool* known = find(pool);
    if (!known) return;
    auto& number = *static_cast<cuuint64_t*>(value);
    switch (attribute) {
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
            number += known->used;
            break;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            number += known->used_peak;
            break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
            number += known->reserved;
            break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            number += known->reserved_peak;
            break;
        default:
            break;
    }
}

void pool_attribute_set(CUmemoryPool pool, CUmemPool_attribute attribute, const void* value) {
    const CUdevice device = current_device();
    const std::lock_guard lock(pools().mutex);
    Pool* known = find(pool);
    if (!known && pool == ask("cuDeviceGetDefaultMemPool", device)) {
        known = &pools().known[pool];
        known->device = device;
    }
    if (!known) return;
    switch (attribute) {
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            known->threshold = *static_cast<const cuuint64_t*>(value);
            break;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            known->used_peak = known->used;
            break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            known->reserved_peak = known->reserved;
            break;
        default:
            break;
    }
}

void pool_trimmed(CUmemoryPool pool, std::size_t keep) {
    const std::lock_guard lock(pools().mutex);
    if (Pool* known = find(pool)) known->keep(keep);
}

}  // namespace swapadvisor
