// What is known of every entry point of the header, and the log of who asked for what.
#pragma once

#include <cstdint>

namespace swapadvisor {

enum class Variant : std::uint8_t { plain, per_thread };

/// One ABI of one call. Sorted by name, variant, first version.
struct EntryPoint {
    const char* name;    ///< as asked of cuGetProcAddress
    Variant variant;     ///< per_thread: the _ptds or _ptsz twin
    int first_version;   ///< driver version that brought this ABI, as 1000 * major + 10 * minor
    const char* symbol;  ///< as exported
    int slot;            ///< of its hook, or -1
};

struct EntryRange {
    const EntryPoint* begin;
    const EntryPoint* end;
};

/// All ABIs of `name`; empty if the header does not know it.
EntryRange entry_points(const char* name);

/// The ABI that a driver answers `name` with, when asked for `version` with `flags`; null: none.
const EntryPoint* choose_entry_point(EntryRange range, int version, std::uint64_t flags);

/// What cuGetProcAddress of driver `copy` is to answer where the driver answered `real`.
void* route_proc_address(unsigned copy, const char* name, int version, std::uint64_t flags, void* real);

/// One request for an entry point.
struct RouteRequest {
    const char* route;  ///< dlsym, dlvsym, cuGetProcAddress
    const char* name;
    int version;  ///< as asked; 0 where the route has none
    std::uint64_t flags;
    const void* caller;  ///< an address in the object that asked
    bool hooked;         ///< answered with a function of ours
};

/// A row of the table of SWAPADVISOR_LOG=routes.
void log_route(const RouteRequest& request);

}  // namespace swapadvisor
