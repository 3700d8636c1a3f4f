// What a machine offers to a memory manager: found out by trying, on the driver itself (no shim in between).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace swapadvisor::command {

struct DeviceFacts {
    int ordinal = 0;
    std::string name;
    int compute_capability = 0;  ///< 10 * major + minor
    std::uint64_t memory_bytes = 0;
    std::uint64_t free_bytes = 0;
    bool vmm = false;  ///< virtual memory management
    std::uint64_t granularity_bytes = 0;
    bool aliasing = false;    ///< one handle under two addresses shows the same bytes
    std::int64_t map_ns = 0;  ///< host time of map and set-access of one granule
    std::int64_t unmap_ns = 0;
    std::uint64_t h2d_bytes_per_s = 0;  ///< from pinned memory, the other direction idle
    std::uint64_t d2h_bytes_per_s = 0;
    std::uint64_t duplex_bytes_per_s = 0;  ///< both directions together, both busy
    std::uint64_t pinned_bytes_per_s = 0;  ///< rate at which pinned memory is allocated
    std::string problem;                   ///< not empty: what could not be tried, and why
};

struct MachineFacts {
    std::string driver_path;         ///< empty: none found
    std::string driver_problem;      ///< why there is none, or why it cannot be used
    int driver_version = 0;          ///< as 1000 * major + 10 * minor
    bool parameter_layouts = false;  ///< kernel argument layouts can be asked for (driver 12.4)
    std::vector<DeviceFacts> devices;
    std::uint64_t host_available_bytes = 0;
    std::uint64_t locked_limit_bytes = 0;    ///< RLIMIT_MEMLOCK; 0: none
    std::string cupti_path;                  ///< empty: not found
    std::string preload_path, planner_path;  ///< empty: not found
};

MachineFacts find_machine_facts();

/// Why the CUDA driver cannot be opened here, in the loader's words; empty if it can.
std::string driver_missing();

/// One sentence per thing that will not work, or work worse, on this machine; with what to do about it.
std::vector<std::string> shortcomings(const MachineFacts& facts);

/// False if nothing can be managed here at all.
bool can_manage(const MachineFacts& facts);

}  // namespace swapadvisor::command
