// The real driver: found on first need, one table of real functions per copy of it. Nothing here makes a CUDA
// call.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/generated/hooks.h"

#define SWAPADVISOR_EXPORT __attribute__((visibility("default")))

namespace swapadvisor {

/// The exported symbol of the default driver copy, or null. Looks only at the driver, never at our own hooks.
/// Has the shape of fill_driver_api's look_up; `user` is the copy's number as an integer in a pointer.
void* real_symbol(void* copy, const char* symbol);

/// The driver copy that the runtime manages: the first one through which a hooked call came. `real_symbol`'s
/// `user`.
void* managed_copy();

namespace detail {
extern std::atomic<int> managed;
extern std::atomic<bool> bypass;
void* resolve_real_function(unsigned copy, unsigned slot);
bool claim_managed(unsigned copy);
}  // namespace detail

/// The real function behind a hook; null if the driver lacks it.
inline void* real_function(unsigned copy, unsigned slot) {
    void* function = real_functions[copy][slot].load(std::memory_order_relaxed);
    if (!function) [[unlikely]]
        function = detail::resolve_real_function(copy, slot);
    return function;
}

/// What a hook answers when there is no real function to forward to.
CUresult missing_function(unsigned copy, unsigned slot);

/// The runtime for a call that came through `entry`; null: forward untouched.
inline Runtime* runtime_for(Entry entry) {
    if (detail::managed.load(std::memory_order_relaxed) != static_cast<int>(entry.copy)) [[unlikely]] {
        if (!detail::claim_managed(entry.copy)) return nullptr;
    }
    return detail::bypass.load(std::memory_order_relaxed) ? nullptr : Runtime::get();
}

/// True if any copy of the driver has been met.
bool driver_known();

/// True in a child of fork: the driver is unusable there, and nothing of ours may run.
bool in_forked_child();

/// The copy that the code or data address lies in, or -1. Registers a copy that was not known before:
/// `handle` is any handle through which `symbol` at `address` was found.
int driver_copy_at(void* address, void* handle);

/// True if `address` lies in the driver (any known copy).
bool inside_driver(const void* address);

/// Slot of a hooked symbol by its exact name, or -1.
int hooked_slot(const char* symbol);

}  // namespace swapadvisor
