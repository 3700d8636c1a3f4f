// The three ways to the driver: dlsym and dlvsym (behind dlsym.S), and cuGetProcAddress. The exported symbols
// need none.
#include "interpose/routes.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>

#include "interpose/config.h"
#include "interpose/driver.h"
#include "interpose/log.h"
#include "interpose/real_dl.h"

namespace swapadvisor {

namespace {

constexpr EntryPoint kEntryPoints[] = {
#include "interpose/generated/entries.inc"
};

/// True for our own code, and for null.
bool is_own(const void* address) {
    Dl_info own, other;
    if (!address) return true;
    return dladdr(reinterpret_cast<const void*>(&is_own), &own) && dladdr(address, &other) &&
           own.dli_fbase == other.dli_fbase;
}

const char* object_name(const void* address) {
    Dl_info info;
    return address && dladdr(address, &info) && info.dli_fname ? info.dli_fname : "?";
}

/// Name -> hash, to say something once per name.
std::uint64_t name_key(const char* name) {
    std::uint64_t hash = 1469598103934665603ull;
    for (; *name; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 1099511628211ull;
    return hash;
}

}  // namespace

EntryRange entry_points(const char* name) {
    const auto* end = kEntryPoints + std::size(kEntryPoints);
    const auto* first = std::lower_bound(
        kEntryPoints, end, name,
        [](const EntryPoint& entry, const char* wanted) { return std::strcmp(entry.name, wanted) < 0; });
    const auto* last = first;
    while (last != end && std::strcmp(last->name, name) == 0) ++last;
    return {first, last};
}

const EntryPoint* choose_entry_point(EntryRange range, int version, std::uint64_t flags) {
    const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    const EntryPoint* plain = nullptr;
    const EntryPoint* twin = nullptr;
    for (const EntryPoint* entry = range.begin; entry != range.end; ++entry) {
        if (entry->first_version > version) continue;
        (entry->variant == Variant::plain ? plain : twin) = entry;  // sorted by version: the newest stays
    }
    return per_thread && twin ? twin : plain;
}

void* route_proc_address(unsigned copy, const char* name, int version, std::uint64_t flags, void* real) {
    const EntryRange range = entry_points(name);
    if (range.begin == range.end) {
        if (*name && first_time(name_key(name))) {
            say("%s: not known to this build (newer driver?), passed through", name);
        }
        return real;
    }
    if (std::none_of(range.begin, range.end, [](const EntryPoint& entry) { return entry.slot >= 0; }))
        return real;

    // By identity: which of the exported symbols is it? Aliased symbols are told apart by what was asked.
    void* const user = reinterpret_cast<void*>(static_cast<std::uintptr_t>(copy));
    const EntryPoint* wanted = choose_entry_point(range, version, flags);
    const EntryPoint* same = nullptr;
    for (const EntryPoint* entry = range.begin; entry != range.end; ++entry) {
        if (real_symbol(user, entry->symbol) != real) continue;
        if (!same || entry == wanted) same = entry;
    }
    if (!same && version > CUDA_VERSION) {
        // An ABI that is newer than the header has another address than the newest that the header knows.
        void* newest_known = nullptr;
        CUresult result = CUDA_ERROR_NOT_FOUND;
        if (void* ask = real_symbol(user, "cuGetProcAddress_v2")) {
            result = reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t,
                                                   CUdriverProcAddressQueryResult*)>(ask)(
                name, &newest_known, CUDA_VERSION, flags, nullptr);
        } else if (void* ask_v1 = real_symbol(user, "cuGetProcAddress")) {
            result = reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(ask_v1)(
                name, &newest_known, CUDA_VERSION, flags);
        }
        if (result != CUDA_SUCCESS || newest_known != real) wanted = nullptr;
    }
    if (!same) same = wanted;
    if (!same) {
        if (first_time(name_key(name) + static_cast<std::uint64_t>(version))) {
            say("%s (version %d): an ABI that this build does not know, passed through", name, version);
        }
        return real;
    }
    if (same->slot < 0) return real;
    // A driver may hand out what it does not export.
    const auto slot = static_cast<unsigned>(same->slot);
    if (!real_function(copy, slot)) real_functions[copy][slot].store(real, std::memory_order_relaxed);
    return kHookFunctions[copy][slot];
}

void log_route(const RouteRequest& request) {
    if (first_time(reinterpret_cast<std::uintptr_t>(&log_route))) {
        say("%-16s %-40s %7s %5s %-14s %s", "route", "entry point", "version", "flags", "answer", "asked by");
    }
    say("%-16s %-40s %7d %5llu %-14s %s", request.route, request.name, request.version,
        static_cast<unsigned long long>(request.flags), request.hooked ? "hooked" : "passed through",
        object_name(request.caller));
}

/// CUPTI, the recorder's own source of timings among its users: what it does in the driver is not the
/// program's work, and it may do it while the runtime waits for it.
bool is_profiler(const char* path) {
    if (!path) return false;
    const char* slash = std::strrchr(path, '/');
    return std::strncmp(slash ? slash + 1 : path, "libcupti", 8) == 0;
}

/// Called from dlsym.S. Sets *answered if the result is the answer; otherwise the real function is entered by
/// a jump.
extern "C" void* swapadvisor_route(void* handle, const char* name, const char* version, void* caller,
                                   int* answered) {
    ensure_real_dl();
    if (!name || name[0] != 'c' || name[1] != 'u') return nullptr;
    const int slot = hooked_slot(name);
    if (slot < 0) {
        if (logging(LogTopic::routes) && entry_points(name).begin != entry_points(name).end) {
            log_route({version ? "dlvsym" : "dlsym", name, 0, 0, caller, false});
        }
        return nullptr;
    }
    const auto look_up = [&](void* where) {
        return version ? real_dlvsym(where, name, version) : real_dlsym(where, name);
    };
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
        // Our exported hook is found like the driver's own symbol would be, but must not be found where that
        // would not: neither in the global scope behind us nor in the caller's own.
        Dl_info from;
        link_map* caller_map = nullptr;
        const bool there = look_up(RTLD_NEXT) ||
                           (dladdr1(caller, &from, reinterpret_cast<void**>(&caller_map), RTLD_DL_LINKMAP) &&
                            caller_map && !is_own(look_up(caller_map)));
        *answered = !there;
        return nullptr;
    }
    void* found = look_up(handle);
    *answered = 1;
    if (!found) return nullptr;
    Dl_info at, from;
    if (!dladdr(found, &at)) return found;
    // Found through the global scope (a handle of the main program): as above.
    if (is_own(found)) return look_up(RTLD_NEXT) ? found : nullptr;
    if (dladdr(caller, &from) &&
        (from.dli_fbase == at.dli_fbase || inside_driver(caller) || is_profiler(from.dli_fname)))
        return found;
    const int copy = driver_copy_at(found, handle);
    if (copy < 0) return found;
    if (logging(LogTopic::routes)) log_route({version ? "dlvsym" : "dlsym", name, 0, 0, caller, true});
    return kHookFunctions[copy][slot];
}

}  // namespace swapadvisor
