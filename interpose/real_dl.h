// The next dlopen, dlsym and dlvsym behind our own, found without calling them: by reading the symbol tables
// of the objects loaded after this one, as RTLD_NEXT would.
#pragma once

namespace swapadvisor {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);

extern "C" {
// Also read by dlsym.S. Null until ensure_real_dl() has run.
extern DlsymFunction swapadvisor_real_dlsym;
extern DlvsymFunction swapadvisor_real_dlvsym;
extern void* (*swapadvisor_real_dlopen)(const char* name, int flags);
}

void find_real_dl();

// After ensure_real_dl(). Atomic, because two threads may find them at the same time.
inline void* real_dlsym(void* handle, const char* name) {
    return __atomic_load_n(&swapadvisor_real_dlsym, __ATOMIC_RELAXED)(handle, name);
}
inline void* real_dlvsym(void* handle, const char* name, const char* version) {
    return __atomic_load_n(&swapadvisor_real_dlvsym, __ATOMIC_RELAXED)(handle, name, version);
}

/// Idempotent, thread-safe, async-signal-safe apart from the loader's own lock; works before any constructor.
inline void ensure_real_dl() {
    if (!__atomic_load_n(&swapadvisor_real_dlvsym, __ATOMIC_ACQUIRE)) find_real_dl();
}

}  // namespace swapadvisor
