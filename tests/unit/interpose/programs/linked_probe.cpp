// A program that names the driver's symbols itself, as one linked with -lcuda does.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>

int main() {
    const auto count = reinterpret_cast<unsigned long (*)(const char*)>(dlsym(RTLD_DEFAULT, "fake_count"));
    CUdeviceptr address = 0;
    std::printf("init %d\n", cuInit(0));
    std::printf("alloc %d\n", cuMemAlloc(&address, 4096));
    std::printf("set %d\n", cuMemsetD8(address, 1, 4096));
    std::printf("launch %d\n", cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    std::printf("free %d\n", cuMemFree(address));
    std::printf("arrived %lu %lu %lu\n", count("cuInit"), count("cuMemsetD8_v2"), count("cuLaunchKernel"));
    return 0;
}
