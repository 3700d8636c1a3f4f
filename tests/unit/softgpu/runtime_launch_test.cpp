// Launches, functions, devices, streams, libraries, the way to the driver.
#include <cuda.h>

#include <atomic>

#include "runtime_test.h"

using namespace runtime_test;

TEST_CASE("runtime: wrong launch configurations are named as such") {
    RUN_IN_CHILD("", [] {
        int* out = device<int>(64);
        const dim3 bad_blocks[] = {dim3(0), dim3(2048), dim3(1, 1, 65), dim3(64, 64, 1)};
        for (const auto& block : bad_blocks) {
            launch_fill_configured(out, dim3(1), block);
            RT(cudaGetLastError(), cudaErrorInvalidConfiguration);
        }
        launch_fill_configured(out, dim3(1, 70000), dim3(1));
        RT(cudaGetLastError(), cudaErrorInvalidConfiguration);
        launch_fill_configured(out, dim3(1), dim3(1));
        RT_OK(cudaGetLastError());
        RT(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
    });
}

TEST_CASE("runtime: launches by stub, by handle, with attributes and cooperative") {
    RUN_IN_CHILD("", [] {
        int* out = device<int>(256);
        int value = 1;
        unsigned count = 256;
        void* arguments[] = {&out, &value, &count};
        RT_OK(cudaLaunchKernel(fill_stub(), dim3(4), dim3(64), arguments, 0, nullptr));
        THAT(host(out, 256) == counted(1, 256));
        cudaKernel_t kernel = nullptr;
        RT_OK(cudaGetKernel(&kernel, fill_stub()));
        value = 2;
        RT_OK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(4), dim3(64), arguments, 0,
                               nullptr));
        THAT(host(out, 256) == counted(2, 256));
        cudaFunction_t function = nullptr;
        RT_OK(cudaGetFuncBySymbol(&function, fill_stub()));
        value = 3;
        RT_OK(cudaLaunchKernel(reinterpret_cast<const void*>(function), dim3(4), dim3(64), arguments, 0,
                               nullptr));
        THAT(host(out, 256) == counted(3, 256));
        value = 4;
        RT_OK(cudaLaunchCooperativeKernel(fill_stub(), dim3(4), dim3(64), arguments, 0, nullptr));
        THAT(host(out, 256) == counted(4, 256));
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(4), config.blockDim = dim3(64);
        cudaLaunchAttribute attribute{};
        attribute.id = cudaLaunchAttributePriority;
        attribute.val.priority = 0;
        config.attrs = &attribute, config.numAttrs = 1;
        value = 5;
        RT_OK(cudaLaunchKernelExC(&config, fill_stub(), arguments));
        THAT(host(out, 256) == counted(5, 256));
    });
}

TEST_CASE("runtime: function attributes and occupancy") {
    RUN_IN_CHILD("", [] {
        cudaFuncAttributes a{};
        RT_OK(cudaFuncGetAttributes(&a, dynamic_stub()));
        EQUAL(a.maxThreadsPerBlock, 64);
        EQUAL(a.sharedSizeBytes, 0);
        THAT(a.numRegs > 0 && a.ptxVersion >= 75);
        int blocks = 0;
        RT_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill_stub(), 256, 0));
        THAT(blocks >= 1 && blocks <= 32);
        size_t offset = 99, bytes = 0;
        RT_OK(cudaFuncGetParamInfo(fill_stub(), 2, &offset, &bytes));
        EQUAL(offset, 12);
        EQUAL(bytes, 4);
        RT(cudaFuncGetParamInfo(fill_stub(), 3, &offset, &bytes), cudaErrorInvalidValue);
        const char* name = nullptr;
        RT_OK(cudaFuncGetName(&name, fill_stub()));
        THAT(std::string(name).find("fill") != std::string::npos);
        int* out = device<int>(64);
        launch_dynamic(out, 64);
        const auto back = host(out, 64);
        for (int i = 0; i < 64; ++i) EQUAL(back[static_cast<std::size_t>(i)], 63 - i);
        RT_OK(cudaFuncSetAttribute(dynamic_stub(), cudaFuncAttributeMaxDynamicSharedMemorySize, 60 << 10));
        RT(cudaFuncSetAttribute(dynamic_stub(), cudaFuncAttributeMaxDynamicSharedMemorySize, 10 << 20),
           cudaErrorInvalidValue);
    });
}

TEST_CASE("runtime: properties agree with attributes") {
    RUN_IN_CHILD("cc=8.0,memory=3GiB", [] {
        cudaDeviceProp p{};
        RT_OK(cudaGetDeviceProperties(&p, 0));
        EQUAL(p.major, 8);
        EQUAL(p.minor, 0);
        EQUAL(p.totalGlobalMem, 3ull << 30);
        EQUAL(p.warpSize, 32);
        EQUAL(p.maxThreadsPerBlock, 1024);
        EQUAL(p.unifiedAddressing, 1);
        int value = 0;
        RT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
        EQUAL(value, p.multiProcessorCount);
        RT_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlock, 0));
        EQUAL(value, p.sharedMemPerBlock);
        RT(cudaGetDeviceProperties(&p, 1), cudaErrorInvalidDevice);
        int version = 0;
        RT_OK(cudaRuntimeGetVersion(&version));
        EQUAL(version, CUDART_VERSION);
        RT_OK(cudaDriverGetVersion(&version));
        THAT(version >= CUDART_VERSION);
    });
}

TEST_CASE("runtime: streams, events, host functions") {
    RUN_IN_CHILD("", [] {
        cudaStream_t a = nullptr, b = nullptr;
        RT_OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
        RT_OK(cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, 0));
        unsigned flags = 0;
        RT_OK(cudaStreamGetFlags(a, &flags));
        EQUAL(flags, cudaStreamNonBlocking);
        cudaEvent_t start = nullptr, end = nullptr, plain = nullptr;
        RT_OK(cudaEventCreate(&start));
        RT_OK(cudaEventCreate(&end));
        RT_OK(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
        int *x = device<int>(1000), *y = device<int>(1000);
        RT_OK(cudaEventRecord(start, a));
        launch_fill(x, 10, 1000, a);
        RT_OK(cudaEventRecord(end, a));
        RT_OK(cudaStreamWaitEvent(b, end, 0));
        RT_OK(cudaMemcpyAsync(y, x, 4000, cudaMemcpyDeviceToDevice, b));
        static std::atomic<int> called;
        RT_OK(cudaLaunchHostFunc(
            b, [](void* data) { called = *static_cast<int*>(data); }, &called));
        RT_OK(cudaStreamAddCallback(
            b, [](cudaStream_t, cudaError_t status, void*) { called = 100 + static_cast<int>(status); },
            nullptr, 0));
        RT_OK(cudaStreamSynchronize(b));
        EQUAL(called.load(), 100);
        THAT(host(y, 1000) == counted(10, 1000));
        float ms = -1;
        RT_OK(cudaEventElapsedTime(&ms, start, end));
        THAT(ms > 0);
        RT_OK(cudaEventRecord(plain, a));
        RT(cudaEventElapsedTime(&ms, start, plain), cudaErrorInvalidResourceHandle);
        RT_OK(cudaStreamQuery(b));
        RT_OK(cudaEventDestroy(plain));
        RT_OK(cudaStreamDestroy(a));
    });
}

TEST_CASE("runtime: libraries loaded at run time") {
    RUN_IN_CHILD("", [] {
        cudaLibrary_t library = nullptr;
        RT_OK(cudaLibraryLoadData(&library, driver_test::kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
        unsigned count = 0;
        RT_OK(cudaLibraryGetKernelCount(&count, library));
        EQUAL(count, 4);
        cudaKernel_t store = nullptr;
        RT_OK(cudaLibraryGetKernel(&store, library, "store"));
        RT(cudaLibraryGetKernel(&store, library, "no_such_kernel"), cudaErrorSymbolNotFound);
        int* out = device<int>(1);
        unsigned value = 77;
        void* arguments[] = {&out, &value};
        RT_OK(
            cudaLaunchKernel(reinterpret_cast<const void*>(store), dim3(1), dim3(1), arguments, 0, nullptr));
        EQUAL(host(out, 1)[0], 77);
        RT_OK(cudaLibraryUnload(library));
    });
}

TEST_CASE("runtime: a context that the program made itself is used") {
    RUN_IN_CHILD("", [] {
        OK(cuInit(0));
        CUcontext mine = nullptr, current = nullptr;
        OK(cuCtxCreate(&mine, nullptr, 0, 0));
        void* p = device<int>(10);
        OK(cuCtxGetCurrent(&current));
        THAT(current == mine);
        CUcontext owner = nullptr;
        OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, reinterpret_cast<CUdeviceptr>(p)));
        THAT(owner == mine);
        launch_fill(static_cast<int*>(p), 1, 10);
        RT_OK(cudaDeviceSynchronize());
        OK(cuCtxSetCurrent(nullptr));
        RT_OK(cudaFree(nullptr));  // makes the primary context current
        OK(cuCtxGetCurrent(&current));
        THAT(current && current != mine);
    });
}

TEST_CASE("runtime: driver entry points by name") {
    RUN_IN_CHILD("", [] {
        void* address = nullptr;
        cudaDriverEntryPointQueryResult found{};
        RT_OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &address, 13000, cudaEnableDefault, &found));
        EQUAL(found, cudaDriverEntryPointSuccess);
        THAT(address == reinterpret_cast<void*>(&cuMemAlloc));
        RT_OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &address, 13000, cudaEnableDefault, &found));
        EQUAL(found, cudaDriverEntryPointSymbolNotFound);
        THAT(address == nullptr);
        void* twin = nullptr;
        RT_OK(cudaGetDriverEntryPointByVersion("cuStreamSynchronize", &twin, 13000,
                                               cudaEnablePerThreadDefaultStream, &found));
        RT_OK(cudaGetDriverEntryPointByVersion("cuStreamSynchronize", &address, 13000, cudaEnableLegacyStream,
                                               &found));
        THAT(twin && address && twin != address);
    });
}
