// cuGetProcAddress: names, versions and flags lead to the right ABI; what is absent is absent.
#include <dlfcn.h>

#include <cstring>

#include "driver_test.h"

using namespace driver_test;

namespace {

void* look(const char* name, int version, cuuint64_t flags, CUdriverProcAddressQueryResult wanted) {
    void* p = reinterpret_cast<void*>(1);
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress(name, &p, version, flags, &status));
    EQUAL(static_cast<int>(status), static_cast<int>(wanted));
    THAT((p != nullptr) == (wanted == CU_GET_PROC_ADDRESS_SUCCESS));
    return p;
}

void* symbol(const char* name) {
    return dlsym(RTLD_DEFAULT, name);
}

}  // namespace

TEST_CASE("proc: versions choose the ABI") {
    RUN_IN_CHILD("", [] {
        constexpr auto found = CU_GET_PROC_ADDRESS_SUCCESS;
        THAT(look("cuMemAlloc", 13000, 0, found) == symbol("cuMemAlloc_v2"));
        THAT(look("cuCtxSynchronize", 2000, 0, found) == symbol("cuCtxSynchronize"));
        THAT(look("cuCtxSynchronize", 13000, 0, found) == symbol("cuCtxSynchronize_v2"));
        THAT(look("cuStreamGetCaptureInfo", 11030, 0, found) == symbol("cuStreamGetCaptureInfo_v2"));
        THAT(look("cuStreamGetCaptureInfo", 10010, 0, found) == symbol("cuStreamGetCaptureInfo"));
        THAT(look("cuStreamGetCaptureInfo", 12030, 0, found) == symbol("cuStreamGetCaptureInfo_v3"));
        THAT(look("cuGetProcAddress", 11030, 0, found) == symbol("cuGetProcAddress"));
        THAT(look("cuGetProcAddress", 12000, 0, found) == symbol("cuGetProcAddress_v2"));
        THAT(look("cuCtxCreate", 13000, 0, found) == symbol("cuCtxCreate_v4"));
        THAT(look("cuCtxCreate", 3020, 0, found) == symbol("cuCtxCreate_v2"));
    });
}

TEST_CASE("proc: flags choose the default stream") {
    RUN_IN_CHILD("", [] {
        constexpr auto found = CU_GET_PROC_ADDRESS_SUCCESS;
        constexpr cuuint64_t legacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
        constexpr cuuint64_t per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
        THAT(look("cuLaunchKernel", 13000, legacy, found) == symbol("cuLaunchKernel"));
        THAT(look("cuLaunchKernel", 13000, per_thread, found) == symbol("cuLaunchKernel_ptsz"));
        THAT(look("cuMemcpyHtoD", 13000, per_thread, found) == symbol("cuMemcpyHtoD_v2_ptds"));
        THAT(look("cuMemcpyHtoDAsync", 13000, per_thread, found) == symbol("cuMemcpyHtoDAsync_v2_ptsz"));
        THAT(look("cuMemAlloc", 13000, per_thread, found) == symbol("cuMemAlloc_v2"));  // no such flavour
        THAT(look("cuLaunchKernel", 4000, per_thread, found) == symbol("cuLaunchKernel"));
        void* p = nullptr;
        EXPECT(cuGetProcAddress("cuInit", &p, 13000, 3, nullptr), CUDA_ERROR_INVALID_VALUE);
    });
}

TEST_CASE("proc: absent is absent") {
    RUN_IN_CHILD("", [] {
        constexpr auto missing = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        look("", 13000, 0, missing);
        look("cuNoSuchThing", 13000, 0, missing);
        look("cuMemAlloc_v2", 13000, 0, missing);
        look("cuMulticastCreate", 13000, 0, missing);
        look("cuLaunchKernelEx", 11000, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
        THAT(symbol("cuMulticastCreate") == nullptr);
        THAT(symbol("cuTexObjectCreate") == nullptr);
        void* p = nullptr;
        auto* first =
            reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(symbol("cuGetProcAddress"));
        EXPECT(first("cuNoSuchThing", &p, 13000, 0), CUDA_ERROR_NOT_FOUND);
    });
}

TEST_CASE("proc: per-thread default streams are streams of their own") {
    RUN_IN_CHILD("latency=1000", [] {
        Gpu gpu;
        auto* copy = reinterpret_cast<decltype(&cuMemcpyHtoDAsync)>(symbol("cuMemcpyHtoDAsync_v2_ptsz"));
        auto* id =
            reinterpret_cast<CUresult (*)(CUstream, unsigned long long*)>(symbol("cuStreamGetId_ptsz"));
        unsigned long long mine = 0, legacy = 0, named = 0;
        OK(id(nullptr, &mine));
        OK(cuStreamGetId(CU_STREAM_PER_THREAD, &named));
        OK(cuStreamGetId(nullptr, &legacy));
        THAT(mine == named && mine != legacy);
        CUdeviceptr p = 0;
        void* host = nullptr;
        OK(cuMemAlloc(&p, kMiB));
        OK(cuMemAllocHost(&host, kMiB));
        OK(copy(p, host, kMiB, nullptr));
        EXPECT(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
        OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    });
}

TEST_CASE("contexts: stack, destruction and sticky errors") {
    RUN_IN_CHILD("", [] {
        OK(cuInit(0));
        CUdeviceptr p = 0;
        EXPECT(cuMemAlloc(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
        CUcontext a = nullptr, b = nullptr, current = nullptr;
        OK(cuCtxCreate(&a, nullptr, 0, 0));
        OK(cuCtxCreate(&b, nullptr, 0, 0));
        OK(cuMemAlloc(&p, 4));
        OK(cuCtxDestroy(b));
        OK(cuCtxGetCurrent(&current));
        THAT(current == a);
        EXPECT(cuCtxPushCurrent(b), CUDA_ERROR_INVALID_CONTEXT);
        CUmodule m = nullptr;
        CUfunction f = nullptr;
        OK(cuModuleLoadData(&m, kKernels));
        OK(cuModuleGetFunction(&f, m, "store"));
        EXPECT(cuModuleGetFunction(&f, m, "nothing"), CUDA_ERROR_NOT_FOUND);
        EXPECT(cuModuleLoadData(
                   &m, ".version 7.0\n.target sm_75\n.address_size 64\n.entry k(){ frobnicate.u32 %r1; }"),
               CUDA_ERROR_INVALID_PTX);
        unsigned v = 1;
        void* params[] = {&p, &v};
        OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));  // p went with b
        EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT(cuMemAlloc(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
        OK(cuCtxDestroy(a));
        OK(cuCtxCreate(&a, nullptr, 0, 0));
        OK(cuMemAlloc(&p, 4));
    });
}

// These two calls are old, and part of the driver all the same.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST_CASE("contexts: uses are counted") {
    RUN_IN_CHILD("", [] {
        OK(cuInit(0));
        CUcontext a = nullptr, b = nullptr, again = nullptr, current = nullptr;
        EXPECT(cuCtxAttach(&again, 0), CUDA_ERROR_INVALID_CONTEXT);
        OK(cuCtxCreate(&a, nullptr, 0, 0));
        OK(cuCtxCreate(&b, nullptr, 0, 0));
        EXPECT(cuCtxAttach(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
        EXPECT(cuCtxAttach(&again, 1), CUDA_ERROR_INVALID_VALUE);
        OK(cuCtxAttach(&again, 0));
        THAT(again == b);
        EXPECT(cuCtxDetach(a), CUDA_ERROR_INVALID_CONTEXT);  // not current
        OK(cuCtxDetach(b));
        OK(cuCtxGetCurrent(&current));
        THAT(current == b);
        OK(cuCtxDetach(b));
        EXPECT(cuCtxDetach(b), CUDA_ERROR_INVALID_CONTEXT);
        OK(cuCtxGetCurrent(&current));
        THAT(current == a);
    });
}

TEST_CASE("launches: bad shapes and parameters are refused") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        CUdeviceptr p = 0;
        unsigned v = 1;
        OK(cuMemAlloc(&p, 4));
        void* params[] = {&p, &v};
        EXPECT(cuLaunchKernel(gpu.store, 0, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr),
               CUDA_ERROR_INVALID_VALUE);
        EXPECT(cuLaunchKernel(gpu.store, 1, 1, 1, 1025, 1, 1, 0, nullptr, params, nullptr),
               CUDA_ERROR_INVALID_VALUE);
        EXPECT(cuLaunchKernel(gpu.store, 1, 1, 1, 1, 1, 1, 1 << 20, nullptr, params, nullptr),
               CUDA_ERROR_INVALID_VALUE);
        EXPECT(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr),
               CUDA_ERROR_INVALID_HANDLE);
        EXPECT(cuLaunchKernel(gpu.store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
               CUDA_ERROR_INVALID_VALUE);
        struct {
            CUdeviceptr p;
            unsigned v;
        } block{p, 6};
        size_t size = 12;
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                         CU_LAUNCH_PARAM_END};
        OK(cuLaunchKernel(gpu.store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
        EQUAL(Gpu::word(p), 6u);
        size = 8;
        EXPECT(cuLaunchKernel(gpu.store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
               CUDA_ERROR_INVALID_VALUE);
        size_t offset = 0;
        OK(cuFuncGetParamInfo(gpu.store, 1, &offset, &size));
        THAT(offset == 8 && size == 4);
        EXPECT(cuFuncGetParamInfo(gpu.store, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    });
}

TEST_CASE("linking: both logs are strings, also where there is nothing to say") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        char info[64], errors[64];
        std::memset(info, 'x', sizeof info);
        std::memset(errors, 'x', sizeof errors);
        CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                                  CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void* values[] = {info, reinterpret_cast<void*>(sizeof info), errors,
                          reinterpret_cast<void*>(sizeof errors)};
        CUlinkState state = nullptr;
        void* image = nullptr;
        std::size_t bytes = 0;
        OK(cuLinkCreate(4, options, values, &state));
        OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(kKernels), std::strlen(kKernels) + 1,
                         "kernels", 0, nullptr, nullptr));
        OK(cuLinkComplete(state, &image, &bytes));
        EQUAL(info[0], '\0');
        EQUAL(errors[0], '\0');
        CUmodule module = nullptr;
        OK(cuModuleLoadData(&module, image));
        OK(cuLinkDestroy(state));
    });
}
