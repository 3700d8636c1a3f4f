// The pools of stream-ordered allocation: which of them the runtime serves in the driver's place, and what
// they have given, for the program may ask. A pool is known by its handle from its creation to its
// destruction; a device's own pool from its first use. What is not known is left to the driver, which also
// knows what is wrong with it. Thread-safe.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace swapadvisor {

void pool_created(CUmemoryPool pool, const CUmemPoolProps& props);
void pool_destroyed(CUmemoryPool pool);
/// Its memory may be reached from elsewhere: what it gives from now on is the driver's.
void leave_pool(CUmemoryPool pool);

/// The pool that cuMemAllocAsync takes from in the current context; null where the driver has none.
CUmemoryPool current_pool();

enum class PoolAnswer : std::uint8_t { serve, leave, full };
/// Whether `bytes` of it are served in the current context. `full`: over the most that it may give.
PoolAnswer pool_answer(CUmemoryPool pool, std::size_t bytes);

/// What is served out of a pool, by its address; each is counted from pool_took to pool_gave.
struct PoolPiece {
    CUmemoryPool pool = nullptr;
    std::size_t bytes = 0;
};
void pool_took(CUdeviceptr address, PoolPiece piece);
/// Before the address is freed: forgets it. A value if it was out of a pool (to be put back if the free
/// fails).
std::optional<PoolPiece> pool_gave(CUdeviceptr address);
/// `free()` with the address out of its pool, and back in it if that fails.
template <class Free>
std::optional<CUresult> free_piece(CUdeviceptr address, Free free) {
    const std::optional<PoolPiece> piece = pool_gave(address);
    const std::optional<CUresult> result = free();
    if (piece && result != CUDA_SUCCESS) pool_took(address, *piece);
    return result;
}
/// The pool that the allocation with this first address came from, or null.
CUmemoryPool pool_of(CUdeviceptr address);

/// After the driver took or answered the call for the pool's own memory: the same for what is served.
void pool_attribute_read(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
void pool_attribute_set(CUmemoryPool pool, CUmemPool_attribute attribute, const void* value);
void pool_trimmed(CUmemoryPool pool, std::size_t keep);

}  // namespace swapadvisor
