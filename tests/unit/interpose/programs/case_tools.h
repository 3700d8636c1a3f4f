// What the programs of the cases share: calls through dlsym, results printed. Knows nothing of the shim.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <map>
#include <string>
#include <type_traits>

namespace case_tools {

inline void* driver;

template <class Function>
Function* function(const char* symbol) {
    return reinterpret_cast<Function*>(dlsym(driver, symbol));
}

// Old entry points are called on purpose.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define CU(name) function<std::remove_pointer_t<decltype(&::name)>>(TEXT(name))

inline void show(const char* what, unsigned long long number) {
    std::printf("%s %llu\n", what, number);
}

#define SHOW(name, ...) show(#name, CU(name)(__VA_ARGS__))

constexpr std::size_t kBig = 8u << 20;

inline CUcontext use_device() {
    CUcontext context = nullptr;
    SHOW(cuInit, 0);
    SHOW(cuDevicePrimaryCtxRetain, &context, 0);
    SHOW(cuCtxSetCurrent, context);
    return context;
}

inline unsigned byte_at(CUdeviceptr address) {
    unsigned char byte = 0;
    CU(cuMemcpyDtoH)(&byte, address, 1);
    return byte;
}

/// Runs the case that the first argument names.
inline int run_case(int argc, char** argv, const std::map<std::string, void (*)()>& cases) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    const auto found = argc > 1 ? cases.find(argv[1]) : cases.end();
    if (!driver || found == cases.end()) return 2;
    found->second();
    return 0;
}

}  // namespace case_tools
