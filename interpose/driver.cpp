#include "interpose/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "interpose/config.h"
#include "interpose/log.h"
#include "interpose/real_dl.h"

namespace swapadvisor {

std::atomic<void*> real_functions[kDriverCopies][kHookCount];

namespace detail {
std::atomic<int> managed{-1};
std::atomic<bool> bypass{false};
}  // namespace detail

namespace {

/// Copy 0 is the default one, which the exported symbols lead to. `base` is the load address, 0 while
/// unknown.
struct DriverCopy {
    std::atomic<std::uintptr_t> base{0};
    std::atomic<void*> handle{nullptr};  ///< our own reference, never given back: hooks keep pointers into it
};
DriverCopy g_copies[kDriverCopies];
std::mutex g_register;  // no dl* call is made while it is held
std::atomic<bool> g_forked{false};

std::uintptr_t base_of(const void* address) {
    Dl_info info;
    return address && dladdr(address, &info) ? reinterpret_cast<std::uintptr_t>(info.dli_fbase) : 0;
}

/// Any object can define one name of ours; only a driver has these in the same object.
bool is_driver(void* handle, std::uintptr_t base) {
    for (const char* name : {"cuInit", "cuDriverGetVersion", "cuMemAlloc_v2"}) {
        if (base_of(real_dlsym(handle, name)) != base) return false;
    }
    return true;
}

int known_copy(std::uintptr_t base) {
    if (base == 0) return -1;
    for (unsigned i = 0; i < kDriverCopies; ++i) {
        if (g_copies[i].base.load(std::memory_order_acquire) == base) return static_cast<int>(i);
    }
    return -1;
}

int add_copy(unsigned first, unsigned last, std::uintptr_t base, void* handle) {
    const std::lock_guard lock(g_register);
    if (const int known = known_copy(base); known >= 0) return known;
    for (unsigned i = first; i < last; ++i) {
        if (g_copies[i].base.load(std::memory_order_relaxed) != 0) continue;
        g_copies[i].handle.store(handle, std::memory_order_relaxed);
        g_copies[i].base.store(base, std::memory_order_release);
        return static_cast<int>(i);
    }
    return -1;
}

/// Finds the default driver; `load`: opens it if it is not there yet.
bool find_default(bool load) {
    if (g_copies[0].base.load(std::memory_order_acquire) != 0) return true;
    ensure_real_dl();
    void* handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
    if (!handle) {
        dlerror();  // not the program's error
        return false;
    }
    const std::uintptr_t base = base_of(real_dlsym(handle, "cuInit"));
    if (base == 0) {
        dlerror();
        dlclose(handle);
        return false;
    }
    return add_copy(0, 1, base, handle) == 0;
}

void on_fork_in_child() {
    g_forked.store(true, std::memory_order_relaxed);
    detail::bypass.store(true, std::memory_order_relaxed);
}

}  // namespace

void* real_symbol(void* copy, const char* symbol) {
    const auto index = reinterpret_cast<std::uintptr_t>(copy);
    if (index >= kDriverCopies) return nullptr;
    if (index == 0 && !find_default(true)) return nullptr;
    void* handle = g_copies[index].handle.load(std::memory_order_acquire);
    if (!handle) return nullptr;
    void* address = real_dlsym(handle, symbol);
    if (!address) dlerror();
    return address;
}

void* managed_copy() {
    const int index = detail::managed.load(std::memory_order_relaxed);
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(index < 0 ? 0 : index));
}

void* detail::resolve_real_function(unsigned copy, unsigned slot) {
    void* address =
        real_symbol(reinterpret_cast<void*>(static_cast<std::uintptr_t>(copy)), kHookedSymbols[slot]);
    if (address) real_functions[copy][slot].store(address, std::memory_order_relaxed);
    return address;
}

bool detail::claim_managed(unsigned copy) {
    int expected = -1;
    if (managed.compare_exchange_strong(expected, static_cast<int>(copy))) {
        pthread_atfork(nullptr, nullptr, on_fork_in_child);
        if (!config().enabled) bypass.store(true, std::memory_order_relaxed);
        return true;
    }
    if (expected != static_cast<int>(copy) && first_time(reinterpret_cast<std::uintptr_t>(&managed))) {
        say("a second copy of the CUDA driver is in use: calls to it are forwarded, its memory is not "
            "managed");
    }
    return expected == static_cast<int>(copy);
}

CUresult missing_function(unsigned copy, unsigned slot) {
    const bool no_driver = g_copies[copy].base.load(std::memory_order_relaxed) == 0;
    if (first_time(reinterpret_cast<std::uintptr_t>(kHookedSymbols[slot]))) {
        if (no_driver) {
            say("%s: no CUDA driver found (libcuda.so.1)", kHookedSymbols[slot]);
        } else {
            say("%s: this CUDA driver lacks it", kHookedSymbols[slot]);
        }
    }
    return no_driver ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_NOT_FOUND;
}

bool driver_known() {
    return std::any_of(std::begin(g_copies), std::end(g_copies),
                       [](const DriverCopy& copy) { return copy.base.load(std::memory_order_relaxed) != 0; });
}

bool in_forked_child() {
    return g_forked.load(std::memory_order_relaxed);
}

int driver_copy_at(void* address, void* handle) {
    Dl_info info;
    if (!dladdr(address, &info)) return -1;
    const auto base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    if (const int known = known_copy(base); known >= 0) return known;
    find_default(false);
    if (const int known = known_copy(base); known >= 0) return known;

    Lmid_t space = LM_ID_BASE;
    if (handle != RTLD_DEFAULT && handle != RTLD_NEXT && dlinfo(handle, RTLD_DI_LMID, &space) != 0) {
        dlerror();
        return -1;
    }
    void* own =
        info.dli_fname && *info.dli_fname ? dlmopen(space, info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    if (!own || !is_driver(own, base)) {
        if (own) dlclose(own);
        dlerror();
        return -1;
    }
    // A driver in the base namespace under another name is the default one if there is no other.
    const bool can_be_default = space == LM_ID_BASE && g_copies[0].base.load(std::memory_order_acquire) == 0;
    const int index = add_copy(can_be_default ? 0 : 1, kDriverCopies, base, own);
    if (index < 0 && first_time(base)) {
        say("%s: too many copies of the CUDA driver in one process; this one is left alone", info.dli_fname);
    }
    return index;
}

bool inside_driver(const void* address) {
    return known_copy(base_of(address)) >= 0;
}

int hooked_slot(const char* symbol) {
    const auto* end = kHookedSymbols + kHookCount;
    const auto* found = std::lower_bound(kHookedSymbols, end, symbol,
                                         [](const char* a, const char* b) { return std::strcmp(a, b) < 0; });
    return found != end && std::strcmp(*found, symbol) == 0 ? static_cast<int>(found - kHookedSymbols) : -1;
}

}  // namespace swapadvisor
