// Allocations: exact bounds, sparse copies, limits and injected faults.
#include <sys/resource.h>

#include <cstring>

#include "driver_test.h"

using namespace driver_test;

namespace {
long resident_kib() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
}
}  // namespace

TEST_CASE("memory: bounds are exact to the byte, and the report names the nearest allocation") {
    const auto outcome = in_child("", [] {
        Gpu gpu;
        CUdeviceptr p = 0, q = 0;
        OK(cuMemAlloc(&p, 100));
        OK(cuMemAlloc(&q, 100));
        EQUAL(q - p, 512u);
        OK(gpu.put(p + 96, 1));
        OK(cuCtxSynchronize());
        EXPECT(cuMemsetD8(p, 0, 101), CUDA_ERROR_INVALID_VALUE);
        OK(gpu.put(p + 100, 1));
        EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.errors.find("behind the end of allocation") != std::string::npos);
}

TEST_CASE("memory: a copy stays inside one allocation") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        CUdeviceptr p = 0, q = 0;
        OK(cuMemAlloc(&p, 2 * kMiB));
        OK(cuMemAlloc(&q, 2 * kMiB));
        EQUAL(q - p, 2 * kMiB);
        std::vector<char> bytes(4 * kMiB);
        EXPECT(cuMemcpyHtoD(p, bytes.data(), bytes.size()), CUDA_ERROR_INVALID_VALUE);
        EXPECT(cuMemcpyDtoH(bytes.data(), p + kMiB, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
        EXPECT(cuMemcpyDtoH(bytes.data(), 0x1000, 16), CUDA_ERROR_INVALID_VALUE);
        EXPECT(cuMemcpyDtoH(nullptr, p, 16), CUDA_ERROR_INVALID_VALUE);
    });
}

TEST_CASE("memory: outputs stay alone on errors, and free takes allocations only") {
    RUN_IN_CHILD("memory=64MiB", [] {
        Gpu gpu;
        CUdeviceptr p = 99;
        size_t pitch = 99;
        EXPECT(cuMemAlloc(&p, 128 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(cuMemAllocPitch(&p, &pitch, kMiB, 128, 4), CUDA_ERROR_OUT_OF_MEMORY);
        EQUAL(p, 99u);
        EQUAL(pitch, 99u);
        EXPECT(cuMemFree(12345), CUDA_ERROR_INVALID_VALUE);
        OK(cuMemFree(0));
        OK(cuMemAlloc(&p, 4096));
        EXPECT(cuMemFree(p + 512), CUDA_ERROR_INVALID_VALUE);
        OK(cuMemFree(p));
        EXPECT(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    });
}

TEST_CASE("memory: the whole device can be allocated, in any sizes, and comes back") {
    RUN_IN_CHILD("memory=64MiB", [] {
        OK(cuInit(0));
        CUcontext context = nullptr;
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        for (int round = 0; round < 3; ++round) {
            std::vector<CUdeviceptr> all;
            for (CUdeviceptr p = 0; cuMemAlloc(&p, round == 0   ? 2 * kMiB
                                                   : round == 1 ? 1000
                                                                : 700'000) == CUDA_SUCCESS;)
                all.push_back(p);
            EQUAL(all.size(), round == 0 ? 32u : round == 1 ? 65536u : 64u);
            size_t free = 1, total = 0;
            OK(cuMemGetInfo(&free, &total));
            EQUAL(free, 0u);
            for (const CUdeviceptr p : all) OK(cuMemFree(p));
            OK(cuMemGetInfo(&free, &total));
            EQUAL(free, total);
        }
    });
}

TEST_CASE("memory: copying 200 GiB that nobody touched costs neither memory nor time") {
    RUN_IN_CHILD("memory=512GiB,h2d=1TB,d2h=1TB", [] {
        Gpu gpu;
        constexpr std::size_t kBytes = 200ull << 30;
        CUdeviceptr p = 0, q = 0;
        void* host = nullptr;
        OK(cuMemAlloc(&p, kBytes));
        OK(cuMemAlloc(&q, kBytes));
        OK(cuMemAllocHost(&host, kBytes));
        auto* words = static_cast<unsigned*>(host);
        const long before = resident_kib();
        for (std::size_t i = 0; i < 8; ++i) words[i * (kBytes / 32)] = static_cast<unsigned>(i + 1);
        OK(cuMemsetD8(p, 0, kBytes));
        OK(cuMemcpyHtoD(p, host, kBytes));
        OK(cuMemcpyDtoD(q, p, kBytes));
        std::memset(host, 0, 4096);
        OK(cuMemcpyDtoH(host, q, kBytes));
        for (std::size_t i = 0; i < 8; ++i) EQUAL(words[i * (kBytes / 32)], static_cast<unsigned>(i + 1));
        for (std::size_t i = 0; i < 8; ++i)
            EQUAL(Gpu::word(q + i * (kBytes / 8)), static_cast<unsigned>(i + 1));
        OK(gpu.put(p + kBytes - 4, 5));
        OK(cuMemcpyDtoD(q, p, kBytes));
        EQUAL(Gpu::word(q + kBytes - 4), 5u);
        EQUAL(Gpu::word(q + kBytes / 8), 2u);
        THAT(resident_kib() - before < 64 * 1024);
    });
}

TEST_CASE("memory: sparse copies are exact at ragged edges") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        constexpr std::size_t kBytes = 3 * kMiB;
        CUdeviceptr p = 0, q = 0;
        void* host = nullptr;
        OK(cuMemAlloc(&p, kBytes));
        OK(cuMemAlloc(&q, kBytes));
        OK(cuMemAllocHost(&host, kBytes));
        std::vector<unsigned char> model_p(kBytes), model_q(kBytes, 0xab);
        OK(cuMemsetD8(q, 0xab, kBytes));
        unsigned state = 1;
        const auto random = [&](std::size_t below) {
            state = state * 1664525u + 1013904223u;
            return (static_cast<std::size_t>(state) << 8) % below;
        };
        auto* bytes = static_cast<unsigned char*>(host);
        for (int i = 0; i < 60; ++i) {
            const std::size_t at = random(kBytes), length = 1 + random(kBytes - at);
            if (i % 3 == 0) {
                const std::size_t few = std::min<std::size_t>(length, 5000);
                OK(cuMemsetD8(p + at, static_cast<unsigned char>(i), few));
                std::memset(model_p.data() + at, i, few);
            } else if (i % 3 == 1) {
                OK(cuMemsetD8(p + at, 0, length));
                std::memset(model_p.data() + at, 0, length);
            }
            const std::size_t to = random(kBytes - length + 1);
            OK(cuMemcpyDtoD(q + to, p + at, length));
            std::memcpy(model_q.data() + to, model_p.data() + at, length);
        }
        OK(cuMemcpyDtoH(bytes, q, kBytes));
        THAT(std::memcmp(bytes, model_q.data(), kBytes) == 0);
        OK(cuMemcpyDtoH(bytes, p, kBytes));
        THAT(std::memcmp(bytes, model_p.data(), kBytes) == 0);
    });
}

TEST_CASE("memory: shaped copies") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        CUdeviceptr p = 0;
        size_t pitch = 0;
        OK(cuMemAllocPitch(&p, &pitch, 100, 10, 4));
        OK(cuMemsetD2D8(p, pitch, 1, 100, 10));
        std::vector<unsigned char> in(20 * 5, 9), out(100 * 10);
        CUDA_MEMCPY2D c{};
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = in.data();
        c.srcPitch = 20;
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c.dstDevice = p;
        c.dstPitch = pitch;
        c.dstXInBytes = 30;
        c.dstY = 2;
        c.WidthInBytes = 20;
        c.Height = 5;
        OK(cuMemcpy2D(&c));
        CUDA_MEMCPY2D d{};
        d.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
        d.srcDevice = p;
        d.srcPitch = pitch;
        d.dstMemoryType = CU_MEMORYTYPE_HOST;
        d.dstHost = out.data();
        d.WidthInBytes = 100;
        d.Height = 10;
        OK(cuMemcpy2D(&d));
        for (std::size_t y = 0; y < 10; ++y)
            for (std::size_t x = 0; x < 100; ++x)
                EQUAL(out[y * 100 + x], (y >= 2 && y < 7 && x >= 30 && x < 50) ? 9 : 1);
        d.dstHost = nullptr;
        EXPECT(cuMemcpy2D(&d), CUDA_ERROR_INVALID_VALUE);
    });
}

TEST_CASE("faults: the n-th call, sizes, host memory, slow and stuck copies") {
    RUN_IN_CHILD("fault=cuMemCreate:3=CUDA_ERROR_OUT_OF_MEMORY,fault=cuEventCreate:2+=999", [] {
        Gpu gpu;
        const auto prop = device_prop();
        CUmemGenericAllocationHandle h = 0;
        OK(cuMemCreate(&h, 2 * kMiB, &prop, 0));
        OK(cuMemCreate(&h, 2 * kMiB, &prop, 0));
        EXPECT(cuMemCreate(&h, 2 * kMiB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
        OK(cuMemCreate(&h, 2 * kMiB, &prop, 0));
        CUevent e = nullptr;
        OK(cuEventCreate(&e, 0));
        EXPECT(cuEventCreate(&e, 0), CUDA_ERROR_UNKNOWN);
        EXPECT(cuEventCreate(&e, 0), CUDA_ERROR_UNKNOWN);
    });
    RUN_IN_CHILD("fault=alloc=1MiB,fault=hostmem=4MiB", [] {
        Gpu gpu;
        CUdeviceptr p = 0;
        OK(cuMemAlloc(&p, kMiB));
        EXPECT(cuMemAlloc(&p, kMiB + 1), CUDA_ERROR_OUT_OF_MEMORY);
        void* h = nullptr;
        OK(cuMemAllocHost(&h, 3 * kMiB));
        EXPECT(cuMemAllocHost(&h, 3 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    });
    RUN_IN_CHILD("h2d=10GB/s,latency=0,call=0,fault=copy:2=slow*10,fault=copy:3=stuck", [] {
        Gpu gpu;
        CUdeviceptr p = 0;
        void* h = nullptr;
        OK(cuMemAlloc(&p, kMiB));
        OK(cuMemAllocHost(&h, kMiB));
        const CUstream s = Gpu::stream();
        unsigned long long a = 0, b = 0, c = 0;
        OK(cuStreamSynchronize(s));
        softgpu_now(&a, nullptr);
        OK(cuMemcpyHtoDAsync(p, h, 1'000'000, s));
        OK(cuStreamSynchronize(s));
        softgpu_now(&b, nullptr);
        OK(cuMemcpyHtoDAsync(p, h, 1'000'000, s));
        OK(cuStreamSynchronize(s));
        softgpu_now(&c, nullptr);
        EQUAL(b - a, 100'000u);
        EQUAL(c - b, 1'000'000u);
        OK(cuMemcpyHtoDAsync(p, h, 1'000'000, s));
        for (int i = 0; i < 100; ++i) EXPECT(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    });
}

TEST_CASE("memory: a forked child finds no device") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        const pid_t child = fork();
        if (child == 0) {
            CUdeviceptr p = 0;
            _exit(cuMemAlloc(&p, 16) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        EQUAL(status, 0);
    });
}

TEST_CASE("memory: what is known about an address") {
    RUN_IN_CHILD("devices=2", [] {
        Gpu gpu;
        CUdeviceptr p = 0, base = 0;
        void *host = nullptr, *plain = std::malloc(8192);
        OK(cuMemAlloc(&p, 1000));
        OK(cuMemAllocHost(&host, 1000));
        unsigned type = 0;
        OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 10));
        EQUAL(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
        OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 reinterpret_cast<CUdeviceptr>(host)));
        EQUAL(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
        EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     reinterpret_cast<CUdeviceptr>(plain)),
               CUDA_ERROR_INVALID_VALUE);
        size_t size = 0;
        OK(cuMemGetAddressRange(&base, &size, p + 999));
        THAT(base == p && size == 1000);
        OK(cuMemHostRegister(plain, 8192, 0));
        EXPECT(cuMemHostRegister(plain, 8192, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        OK(gpu.put(reinterpret_cast<CUdeviceptr>(plain), 12));
        OK(cuCtxSynchronize());
        EQUAL(*static_cast<unsigned*>(plain), 12u);
        OK(cuMemHostUnregister(plain));
        EXPECT(cuMemHostUnregister(plain), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        Mapping m;
        CUipcMemHandle handle;
        OK(cuIpcGetMemHandle(&handle, p));
        EXPECT(cuIpcGetMemHandle(&handle, m.address), CUDA_ERROR_INVALID_VALUE);
        // Memory of the other device takes peer access.
        CUcontext other = nullptr;
        CUdeviceptr far = 0;
        OK(cuDevicePrimaryCtxRetain(&other, 1));
        OK(cuCtxPushCurrent(other));
        OK(cuMemAlloc(&far, 64));
        OK(cuCtxPopCurrent(nullptr));
        OK(cuMemcpyPeer(far, other, p, gpu.context, 64));
        OK(cuMemcpyPeer(far, other, m.address, gpu.context, 64));
        OK(cuCtxEnablePeerAccess(other, 0));
        EXPECT(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        OK(gpu.put(far, 3));
        EQUAL(Gpu::word(far), 3u);
        OK(cuCtxDisablePeerAccess(other));
        OK(gpu.put(far, 3));
        EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}
