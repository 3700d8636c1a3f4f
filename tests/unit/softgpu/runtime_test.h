// Tests of the software runtime: each case in a child process with settings of its own (driver_test.h).
#pragma once

#include "runtime_kernels.h"
#include "tests/unit/softgpu/driver_test.h"

namespace runtime_test {

inline void expect(cudaError_t got, cudaError_t wanted, const char* text, int line) {
    if (got == wanted) return;
    throw driver_test::CheckFailed("line " + std::to_string(line) + ": " + text + " is " +
                                   cudaGetErrorName(got) + ", expected " + cudaGetErrorName(wanted));
}

#define RT(call, wanted) ::runtime_test::expect((call), (wanted), #call, __LINE__)
#define RT_OK(call) RT(call, cudaSuccess)

template <class T>
T* device(std::size_t count) {
    void* p = nullptr;
    RT_OK(cudaMalloc(&p, count * sizeof(T)));
    return static_cast<T*>(p);
}

template <class T>
std::vector<T> host(const T* device_memory, std::size_t count) {
    std::vector<T> out(count);
    RT_OK(cudaMemcpy(out.data(), device_memory, count * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
}

inline std::vector<int> counted(int from, std::size_t count) {
    std::vector<int> out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = from + static_cast<int>(i);
    return out;
}

}  // namespace runtime_test
