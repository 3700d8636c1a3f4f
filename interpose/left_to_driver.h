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

/// Of the current context, or -1.
CUdevice current_device();

}  // namespace swapadvisor
