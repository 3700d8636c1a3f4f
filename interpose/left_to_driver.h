// Which allocations stay the driver's own, because something beyond the program's calls may reach them: other
// processes, other devices. Kept as a set of rules that only ever grow. Thread-safe.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace swapadvisor {

/// True for cuMemAlloc of this size: the user said so (SWAPADVISOR_PLAIN), or devices reach into each other.
bool allocation_stays(std::size_t bytes);

/// The program has let the current device reach into another's memory: mapped memory would not be reachable
/// so. Returns the current device.
CUdevice peers_reach_in();

/// Stream-ordered allocation from `pool` stays.
void leave_pool(CUmemoryPool pool);
void forget_pool(CUmemoryPool pool);
bool pool_stays(CUmemoryPool pool);

/// True if the pool that cuMemAllocAsync takes from in the current context is left to the driver.
bool current_pool_stays();

/// True if memory of a pool with these properties can be served by the runtime in the current context.
bool pool_can_be_served(const CUmemPoolProps& props);

}  // namespace swapadvisor
