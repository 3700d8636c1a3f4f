// What the differential programs share: each call goes by the route that the first argument names
// (exported|dlsym|look-up|per-thread), and its result is printed. Knows nothing of the shim.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <vector>

namespace differential {

inline std::string route;
inline void* driver;

/// The function as the chosen route gives it; null if the driver lacks it.
inline void* find(const char* name, const char* symbol) {
    if (route == "exported") return dlsym(RTLD_DEFAULT, symbol);
    if (route == "dlsym") return dlsym(driver, symbol);
    using LookUp = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
    const auto ask = reinterpret_cast<LookUp>(dlsym(driver, "cuGetProcAddress_v2"));
    void* found = nullptr;
    const cuuint64_t flags =
        route == "per-thread" ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
    ask(name, &found, CUDA_VERSION, flags, nullptr);
    return found;
}

template <class Function, class... Arguments>
CUresult call(const char* name, const char* symbol, const char* text, Arguments... arguments) {
    auto* function = reinterpret_cast<Function>(find(name, symbol));
    if (!function) {
        std::printf("%s(%s): absent\n", name, text);
        return CUDA_ERROR_NOT_FOUND;
    }
    const CUresult result = function(arguments...);
    std::printf("%s(%s): %d\n", name, text, static_cast<int>(result));
    return result;
}

// Old entry points are called on purpose.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// The name as it is written, and the symbol it expands to.
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define CALL(name, ...) call<decltype(&::name)>(#name, TEXT(name), #__VA_ARGS__, __VA_ARGS__)
#define CALL0(name) call<decltype(&::name)>(#name, TEXT(name), "")

inline void value(const char* what, unsigned long long number) {
    std::printf("  %s %llu\n", what, number);
}

constexpr size_t kBig = 8u << 20, kSmall = 4096;
inline unsigned long long sum(const std::vector<unsigned char>& bytes) {
    unsigned long long total = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) total = total * 31 + bytes[i];
    return total;
}

inline bool open_driver(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a crash keeps the lines so far
    if (argc < 2) return false;
    route = argv[1];
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return driver != nullptr;
}

}  // namespace differential
