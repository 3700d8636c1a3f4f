// Error names and the state of the last error.
#include <cstring>
#include <thread>

#include "runtime_test.h"

using namespace runtime_test;

TEST_CASE("runtime: every error has a name and a text") {
    CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
    CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
    CHECK(std::string(cudaGetErrorString(cudaSuccess)) == "no error");
    CHECK(std::string(cudaGetErrorString(cudaErrorInvalidValue)) == "invalid argument");
    CHECK(std::string(cudaGetErrorName(cudaErrorGraphExecUpdateFailure)) ==
          "cudaErrorGraphExecUpdateFailure");
    CHECK(std::string(cudaGetErrorString(static_cast<cudaError_t>(4711))) == "unrecognized error code");
    CHECK(std::string(cudaGetErrorName(static_cast<cudaError_t>(4711))) == "unrecognized error code");
}

TEST_CASE("runtime: the last error is kept per thread until it is asked for") {
    RUN_IN_CHILD("", [] {
        RT_OK(cudaPeekAtLastError());
        RT(cudaMemcpy(nullptr, nullptr, 8, static_cast<cudaMemcpyKind>(9)), cudaErrorInvalidMemcpyDirection);
        RT_OK(cudaDeviceSynchronize());  // a success does not clear it
        std::thread([] { RT_OK(cudaPeekAtLastError()); }).join();
        RT(cudaPeekAtLastError(), cudaErrorInvalidMemcpyDirection);
        RT(cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
        RT_OK(cudaGetLastError());
    });
}

TEST_CASE("runtime: running out of memory is not the end") {
    RUN_IN_CHILD("memory=16MiB", [] {
        void* p = nullptr;
        RT(cudaMalloc(&p, 64 << 20), cudaErrorMemoryAllocation);
        RT(cudaGetLastError(), cudaErrorMemoryAllocation);
        int* out = device<int>(100);
        launch_fill(out, 3, 100);
        RT_OK(cudaGetLastError());
        THAT(host(out, 100) == counted(3, 100));
    });
}

TEST_CASE("runtime: an illegal access stays until the device is reset") {
    RUN_IN_CHILD("", [] {
        int* out = device<int>(64);
        launch_write_to(reinterpret_cast<int*>(0x10));
        RT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
        RT(cudaGetLastError(), cudaErrorIllegalAddress);
        void* p = nullptr;
        RT(cudaMalloc(&p, 1), cudaErrorIllegalAddress);
        launch_fill(out, 1, 64);
        RT(cudaGetLastError(), cudaErrorIllegalAddress);
        RT(cudaGetLastError(), cudaErrorIllegalAddress);  // not cleared by asking
        cudaDeviceReset();
        RT_OK(cudaGetLastError());
        out = device<int>(64);
        launch_fill(out, 5, 64);  // the stub's cached kernel is still good
        RT_OK(cudaGetLastError());
        THAT(host(out, 64) == counted(5, 64));
    });
}

TEST_CASE("runtime: a trap is an error of the launch") {
    RUN_IN_CHILD("", [] {
        launch_stop();
        const auto e = cudaDeviceSynchronize();
        THAT(e == cudaErrorIllegalInstruction || e == cudaErrorLaunchFailure);
        RT(cudaStreamSynchronize(nullptr), e);
    });
}
