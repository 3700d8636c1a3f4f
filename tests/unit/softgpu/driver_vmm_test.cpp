// Each rule of virtual memory management, broken and caught.
#include "driver_test.h"

using namespace driver_test;

TEST_CASE("vmm: aliases of one handle see each other's writes") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        Mapping m;
        const auto access = read_write();
        OK(cuMemMap(m.address + 4 * kMiB, m.bytes, 0, m.handle, 0));
        OK(cuMemSetAccess(m.address + 4 * kMiB, m.bytes, &access, 1));
        OK(gpu.put(m.address + 64, 77));
        EQUAL(Gpu::word(m.address + 4 * kMiB + 64), 77u);
        EQUAL(softgpu_count("strictness"), 0u);
    });
}

TEST_CASE("vmm: bad maps are refused") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        Mapping m;
        EXPECT(cuMemMap(m.address + 2 * kMiB, 2 * kMiB, 2 * kMiB, m.handle, 0),
               CUDA_ERROR_INVALID_VALUE);  // offset
        EXPECT(cuMemMap(m.address + 2 * kMiB, kMiB, 0, m.handle, 0),
               CUDA_ERROR_INVALID_VALUE);                                                 // granularity
        EXPECT(cuMemMap(m.address, 2 * kMiB, 0, m.handle, 0), CUDA_ERROR_INVALID_VALUE);  // mapped already
        EXPECT(cuMemMap(m.address + 8 * kMiB, 2 * kMiB, 0, m.handle, 0),
               CUDA_ERROR_INVALID_VALUE);  // not reserved
        EXPECT(cuMemMap(m.address + 2 * kMiB, 4 * kMiB, 0, m.handle, 0),
               CUDA_ERROR_INVALID_VALUE);  // beyond the handle
        EXPECT(cuMemMap(m.address + 2 * kMiB, 2 * kMiB, 0, 12345, 0),
               CUDA_ERROR_INVALID_VALUE);  // no such handle
        const auto prop = device_prop();
        CUmemGenericAllocationHandle h = 0;
        EXPECT(cuMemCreate(&h, kMiB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
        EQUAL(h, 0u);
        CUdeviceptr p = 0;
        EXPECT(cuMemAddressReserve(&p, kMiB, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    });
}

TEST_CASE("vmm: a part of a handle can be mapped, loudly") {
    const auto outcome = in_child("", [] {
        Gpu gpu;
        Mapping m(16 * kMiB, 4 * kMiB);
        OK(cuMemMap(m.address + 8 * kMiB, 2 * kMiB, 0, m.handle, 0));
        EQUAL(softgpu_count("strictness"), 1u);
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.errors.find("map whole handles") != std::string::npos);
}

TEST_CASE("vmm: access must be set before use") {
    const auto outcome = in_child("", [] {
        Gpu gpu;
        const auto prop = device_prop();
        CUdeviceptr p = 0;
        CUmemGenericAllocationHandle h = 0;
        OK(cuMemAddressReserve(&p, 2 * kMiB, 0, 0, 0));
        OK(cuMemCreate(&h, 2 * kMiB, &prop, 0));
        OK(cuMemMap(p, 2 * kMiB, 0, h, 0));
        EXPECT(cuMemsetD8(p, 1, 16), CUDA_ERROR_INVALID_VALUE);
        OK(gpu.put(p, 1));
        EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
        CUdeviceptr q = 0;
        EXPECT(cuMemAlloc(&q, 16), CUDA_ERROR_ILLEGAL_ADDRESS);  // sticky
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.errors.find("illegal access: illegal address: kernel store") != std::string::npos);
}

TEST_CASE("vmm: read-only access refuses writes") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        Mapping m;
        auto access = read_write();
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
        CUdeviceptr to = 0;
        OK(cuMemAlloc(&to, 4));
        OK(cuMemSetAccess(m.address, m.bytes, &access, 1));
        OK(gpu.move(to, m.address));
        OK(cuCtxSynchronize());
        OK(gpu.move(m.address, to));
        EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

TEST_CASE("vmm: unmap takes whole mappings, many at once") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        Mapping m(16 * kMiB, 4 * kMiB);
        OK(cuMemMap(m.address + 4 * kMiB, 4 * kMiB, 0, m.handle, 0));
        EXPECT(cuMemUnmap(m.address, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
        EXPECT(cuMemUnmap(m.address, 16 * kMiB), CUDA_ERROR_INVALID_VALUE);  // the second half is empty
        OK(cuMemUnmap(m.address, 8 * kMiB));
        EXPECT(cuMemUnmap(m.address, 4 * kMiB), CUDA_ERROR_INVALID_VALUE);
    });
}

TEST_CASE("vmm: unmap while work in flight uses the memory is caught, even when time has hidden it") {
    const auto outcome = in_child("", [] {
        Gpu gpu;
        Mapping m;
        const CUstream s = Gpu::stream();
        OK(gpu.put(m.address, 1, s));
        for (int i = 0; i < 1000; ++i) OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));  // a millisecond goes by
        unsigned long long host = 0, device = 0;
        softgpu_now(&host, &device);
        THAT(device > 500'000);  // the kernel is long over
        EXPECT(cuMemUnmap(m.address, m.bytes), CUDA_ERROR_ILLEGAL_STATE);
        EQUAL(softgpu_count("strictness"), 1u);
        OK(cuStreamSynchronize(s));
        OK(cuMemUnmap(m.address, m.bytes));
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.errors.find("store") != std::string::npos);
}

TEST_CASE("vmm: an event that was synchronised with, or seen complete, makes unmap legal") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        Mapping m, n;
        const CUstream s = Gpu::stream();
        const CUevent e = Gpu::event();
        OK(gpu.put(m.address, 1, s));
        OK(cuEventRecord(e, s));
        OK(gpu.put(n.address, 1, s));
        OK(cuEventSynchronize(e));
        OK(cuMemUnmap(m.address, m.bytes));
        EXPECT(cuMemUnmap(n.address, n.bytes), CUDA_ERROR_ILLEGAL_STATE);
        while (cuStreamQuery(s) == CUDA_ERROR_NOT_READY) {
        }
        OK(cuMemUnmap(n.address, n.bytes));
    });
}

TEST_CASE("vmm: a queued copy counts as use") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        Mapping m;
        const CUstream s = Gpu::stream();
        void* host = nullptr;
        OK(cuMemAllocHost(&host, kMiB));
        OK(gpu.work(1'000'000, s));
        OK(cuMemcpyHtoDAsync(m.address, host, kMiB, s));
        EXPECT(cuMemUnmap(m.address, m.bytes), CUDA_ERROR_ILLEGAL_STATE);
    });
}

TEST_CASE("vmm: memory mapped after the launch that uses it is caught") {
    const auto outcome = in_child("", [] {
        Gpu gpu;
        Mapping m;
        const CUstream s = Gpu::stream();
        const auto access = read_write();
        OK(cuMemUnmap(m.address, m.bytes));
        OK(gpu.work(10'000'000, s));
        OK(gpu.put(m.address, 5, s));
        OK(cuMemMap(m.address, m.bytes, 0, m.handle, 0));
        OK(cuMemSetAccess(m.address, m.bytes, &access, 1));
        OK(cuStreamSynchronize(s));
        EQUAL(softgpu_count("strictness"), 1u);
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.errors.find("mapped after it was launched") != std::string::npos);
}

TEST_CASE("vmm: memory lives until the last mapping is gone") {
    RUN_IN_CHILD("memory=64MiB", [] {
        Gpu gpu;
        const auto before = softgpu_count("device-memory");
        Mapping m(64 * kMiB, 32 * kMiB);
        OK(cuMemRelease(m.handle));
        EXPECT(cuMemRelease(m.handle), CUDA_ERROR_INVALID_VALUE);
        OK(gpu.put(m.address, 9));
        EQUAL(Gpu::word(m.address), 9u);
        CUmemGenericAllocationHandle again = 0;
        OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(m.address)));
        OK(cuMemUnmap(m.address, m.bytes));
        EQUAL(softgpu_count("device-memory"), before + 32 * kMiB);
        OK(cuMemRelease(again));
        EQUAL(softgpu_count("device-memory"), before);
        const auto prop = device_prop();
        EXPECT(cuMemCreate(&again, 128 * kMiB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(cuMemAddressFree(m.address, 32 * kMiB), CUDA_ERROR_INVALID_VALUE);
        OK(cuMemAddressFree(m.address, m.reserved));
    });
}

TEST_CASE("vmm: a device without it says so") {
    RUN_IN_CHILD("vmm=0", [] {
        Gpu gpu;
        int yes = 1;
        OK(cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
        EQUAL(yes, 0);
        CUdeviceptr p = 0;
        EXPECT(cuMemAddressReserve(&p, 2 * kMiB, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
        OK(cuMemAlloc(&p, 64));
    });
}
