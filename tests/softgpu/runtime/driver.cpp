#include "driver.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "newest_abi.h"

namespace cudart {

namespace {

constexpr int kVersion = 13000;

std::atomic<bool> at_exit{false};

struct Loaded {
    Driver legacy, per_thread;
    CUresult status = CUDA_ERROR_NOT_INITIALIZED;
};

// cuda.h declares the oldest ABI under the plain name of these.
constexpr int version_of(std::string_view name) {
    return name == "cuCtxSynchronize" || name == "cuCtxGetDevice" ? 12000 : kVersion;
}

void fill(Driver& d, bool per_thread) {
    d.per_thread = per_thread;
    const cuuint64_t flags =
        per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    CUdriverProcAddressQueryResult status{};
#define X(entry)                                                                               \
    if (d.query(#entry, &d.entry.address, version_of(#entry), flags, &status) != CUDA_SUCCESS) \
        d.entry.address = nullptr;
    CUDART_DRIVER_ENTRIES(X)
#undef X
}

void open(Loaded& all) {
    all.status = CUDA_ERROR_STUB_LIBRARY;
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return;
    using Query = decltype(Driver::query);
    const auto query = reinterpret_cast<Query>(dlsym(library, "cuGetProcAddress_v2"));
    if (!query) return;
    all.legacy.query = all.per_thread.query = query;
    fill(all.legacy, false);
    fill(all.per_thread, true);
    if ((all.status = all.legacy.cuInit(0)) != CUDA_SUCCESS) return;
    int version = 0;
    if (all.legacy.cuDriverGetVersion(&version) != CUDA_SUCCESS || version < kVersion)
        all.status = CUDA_ERROR_STUB_LIBRARY;
    // Registered after the program's own constructors, so it runs before the handlers they registered.
    std::atexit([] { at_exit = true; });
}

Loaded& loaded() {
    static Loaded* all = [] {
        auto* fresh = new Loaded;
        open(*fresh);
        return fresh;
    }();
    return *all;
}

}  // namespace

CUresult load_driver() {
    return loaded().status;
}
const Driver& driver(bool per_thread) {
    return per_thread ? loaded().per_thread : loaded().legacy;
}
bool exiting() {
    return at_exit;
}

// The ABI asked for must be the one that cuda.h declares: the newest, but for the exceptions above.
#define X(entry)                                                                                        \
    static_assert(std::is_same_v<decltype(&::entry), newest_##entry> || version_of(#entry) != kVersion, \
                  #entry);
CUDART_DRIVER_ENTRIES(X)
#undef X

}  // namespace cudart
