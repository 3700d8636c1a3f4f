// Allocation, copies, memsets, pointers, symbols.
#include <cstring>
#include <numeric>

#include "runtime_test.h"

using namespace runtime_test;

TEST_CASE("runtime: allocation") {
    RUN_IN_CHILD("", [] {
        void* p = &p;
        RT_OK(cudaMalloc(&p, 0));
        THAT(p == nullptr);
        RT_OK(cudaFree(nullptr));
        RT_OK(cudaMalloc(&p, 1000));
        RT_OK(cudaFree(p));
        RT(cudaFree(p), cudaErrorInvalidValue);
        size_t pitch = 0;
        RT_OK(cudaMallocPitch(&p, &pitch, 100, 10));
        THAT(pitch >= 100 && pitch % 32 == 0);
        cudaPitchedPtr volume{};
        RT_OK(cudaMalloc3D(&volume, make_cudaExtent(100, 5, 3)));
        THAT(volume.ptr && volume.pitch >= 100 && volume.xsize == 100 && volume.ysize == 5);
        size_t free_bytes = 0, total = 0;
        RT_OK(cudaMemGetInfo(&free_bytes, &total));
        THAT(free_bytes < total);
    });
}

TEST_CASE("runtime: copies in every direction, by kind and by default") {
    RUN_IN_CHILD("", [] {
        const auto numbers = counted(1, 5000);
        const size_t bytes = numbers.size() * sizeof(int);
        int *a = device<int>(5000), *b = device<int>(5000);
        for (const auto kind : {cudaMemcpyHostToDevice, cudaMemcpyDefault}) {
            RT_OK(cudaMemset(a, 0, bytes));
            RT_OK(cudaMemcpy(a, numbers.data(), bytes, kind));
            THAT(host(a, 5000) == numbers);
        }
        for (const auto kind : {cudaMemcpyDeviceToDevice, cudaMemcpyDefault}) {
            RT_OK(cudaMemset(b, 0, bytes));
            RT_OK(cudaMemcpy(b, a, bytes, kind));
            THAT(host(b, 5000) == numbers);
        }
        std::vector<int> back(5000);
        RT_OK(cudaMemcpy(back.data(), numbers.data(), bytes, cudaMemcpyHostToHost));
        THAT(back == numbers);
        RT_OK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
        RT(cudaMemcpy(a, numbers.data(), bytes, static_cast<cudaMemcpyKind>(5)),
           cudaErrorInvalidMemcpyDirection);
        void* pinned = nullptr;
        RT_OK(cudaMallocHost(&pinned, bytes));
        cudaStream_t stream = nullptr;
        RT_OK(cudaStreamCreate(&stream));
        RT_OK(cudaMemcpyAsync(pinned, b, bytes, cudaMemcpyDeviceToHost, stream));
        RT_OK(cudaStreamSynchronize(stream));
        THAT(!std::memcmp(pinned, numbers.data(), bytes));
        RT_OK(cudaMemcpyPeer(a, 0, b, 0, 400));
        RT_OK(cudaFreeHost(pinned));
    });
}

TEST_CASE("runtime: planes and volumes") {
    RUN_IN_CHILD("", [] {
        std::vector<unsigned char> source(40 * 9);
        std::iota(source.begin(), source.end(), static_cast<unsigned char>(1));
        size_t pitch = 0;
        void* p = nullptr;
        RT_OK(cudaMallocPitch(&p, &pitch, 40, 9));
        RT_OK(cudaMemcpy2D(p, pitch, source.data(), 40, 40, 9, cudaMemcpyHostToDevice));
        std::vector<unsigned char> back(source.size());
        RT_OK(cudaMemcpy2D(back.data(), 40, p, pitch, 40, 9, cudaMemcpyDeviceToHost));
        THAT(back == source);
        RT(cudaMemcpy2D(back.data(), 30, p, pitch, 40, 9, cudaMemcpyDeviceToHost),
           cudaErrorInvalidPitchValue);
        RT_OK(cudaMemset2D(static_cast<char*>(p) + 8, pitch, 0xEE, 16, 4));
        RT_OK(cudaMemcpy2D(back.data(), 40, p, pitch, 40, 9, cudaMemcpyDeviceToHost));
        for (int y = 0; y < 9; ++y)
            for (int x = 0; x < 40; ++x)
                EQUAL(back[y * 40 + x], y < 4 && x >= 8 && x < 24 ? 0xEE : source[y * 40 + x]);

        cudaPitchedPtr volume{};
        const cudaExtent extent = make_cudaExtent(8, 5, 3);
        RT_OK(cudaMalloc3D(&volume, extent));
        RT_OK(cudaMemset3D(volume, 0, extent));
        RT_OK(cudaMemset3D(volume, 0x11, make_cudaExtent(4, 2, 3)));
        cudaMemcpy3DParms copy{};
        std::vector<unsigned char> box(8 * 5 * 3);
        copy.srcPtr = volume;
        copy.dstPtr = make_cudaPitchedPtr(box.data(), 8, 8, 5);
        copy.extent = extent;
        copy.kind = cudaMemcpyDeviceToHost;
        RT_OK(cudaMemcpy3D(&copy));
        for (int z = 0; z < 3; ++z)
            for (int y = 0; y < 5; ++y)
                for (int x = 0; x < 8; ++x) EQUAL(box[(z * 5 + y) * 8 + x], x < 4 && y < 2 ? 0x11 : 0);
    });
}

TEST_CASE("runtime: symbols, constant and managed variables") {
    RUN_IN_CHILD("", [] {
        size_t bytes = 0;
        RT_OK(cudaGetSymbolSize(&bytes, table_symbol()));
        EQUAL(bytes, 16);
        const float wanted[4] = {2, 4, 8, 16}, input[4] = {1, 1, 1, 1};
        float *in = device<float>(4), *out = device<float>(4);
        RT_OK(cudaMemcpy(in, input, 16, cudaMemcpyHostToDevice));
        launch_scale(in, out, 4);
        THAT((host(out, 4) == std::vector<float>{1, 2, 3, 4}));  // the initialiser
        RT_OK(cudaMemcpyToSymbol(table_symbol(), wanted, 16, 0, cudaMemcpyHostToDevice));
        launch_scale(in, out, 4);
        THAT((host(out, 4) == std::vector<float>{2, 4, 8, 16}));
        RT(cudaMemcpyToSymbol(table_symbol(), wanted, 16, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
        RT(cudaMemcpyToSymbol(&bytes, wanted, 4, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
        RT(cudaMemcpyToSymbol(table_symbol(), wanted, 4, 0, cudaMemcpyDeviceToHost),
           cudaErrorInvalidMemcpyDirection);

        launch_bump();
        RT_OK(cudaDeviceSynchronize());
        int value = 0;
        RT_OK(cudaMemcpyFromSymbol(&value, counter_symbol(), 4, 0, cudaMemcpyDeviceToHost));
        EQUAL(value, 8);
        EQUAL(read_shared_value(), 84);
        void* address = nullptr;
        RT_OK(cudaGetSymbolAddress(&address, counter_symbol()));
        THAT(host(static_cast<int*>(address), 1)[0] == 8);
    });
}

TEST_CASE("runtime: pointer attributes tell the kinds of memory apart") {
    RUN_IN_CHILD("", [] {
        void *d = device<int>(100), *pinned = nullptr, *managed = nullptr;
        int local = 0;
        RT_OK(cudaHostAlloc(&pinned, 4096, cudaHostAllocMapped));
        RT_OK(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal));
        cudaPointerAttributes a{};
        RT_OK(cudaPointerGetAttributes(&a, static_cast<char*>(d) + 12));
        EQUAL(a.type, cudaMemoryTypeDevice);
        EQUAL(a.device, 0);
        THAT(a.devicePointer == static_cast<char*>(d) + 12);
        RT_OK(cudaPointerGetAttributes(&a, pinned));
        EQUAL(a.type, cudaMemoryTypeHost);
        THAT(a.hostPointer == pinned);
        RT_OK(cudaPointerGetAttributes(&a, managed));
        EQUAL(a.type, cudaMemoryTypeManaged);
        RT_OK(cudaPointerGetAttributes(&a, &local));
        EQUAL(a.type, cudaMemoryTypeUnregistered);
        RT_OK(cudaPeekAtLastError());
        void* alias = nullptr;
        RT_OK(cudaHostGetDevicePointer(&alias, pinned, 0));
        launch_fill(static_cast<int*>(alias), 9, 10);
        RT_OK(cudaDeviceSynchronize());
        EQUAL(static_cast<int*>(pinned)[9], 18);
        RT_OK(cudaFree(managed));
    });
}

TEST_CASE("runtime: stream-ordered allocation and pools") {
    RUN_IN_CHILD("", [] {
        cudaStream_t stream = nullptr;
        RT_OK(cudaStreamCreate(&stream));
        void* p = nullptr;
        RT_OK(cudaMallocAsync(&p, 4000, stream));
        launch_fill(static_cast<int*>(p), 1, 1000, stream);
        std::vector<int> back(1000);
        RT_OK(cudaMemcpyAsync(back.data(), p, 4000, cudaMemcpyDeviceToHost, stream));
        RT_OK(cudaFreeAsync(p, stream));
        RT_OK(cudaStreamSynchronize(stream));
        THAT(back == counted(1, 1000));
        cudaMemPool_t pool = nullptr, mine = nullptr;
        RT_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location = {cudaMemLocationTypeDevice, 0};
        RT_OK(cudaMemPoolCreate(&mine, &properties));
        THAT(mine != pool);
        RT_OK(cudaMallocFromPoolAsync(&p, 100, mine, stream));
        RT_OK(cudaFreeAsync(p, stream));
        RT_OK(cudaStreamSynchronize(stream));
        RT_OK(cudaMemPoolTrimTo(mine, 0));
        RT_OK(cudaMemPoolDestroy(mine));
    });
}

TEST_CASE("runtime: two devices copy to each other") {
    RUN_IN_CHILD("devices=2", [] {
        int count = 0;
        RT_OK(cudaGetDeviceCount(&count));
        EQUAL(count, 2);
        int* first = device<int>(500);
        launch_fill(first, 100, 500);
        RT_OK(cudaSetDevice(1));
        int* second = device<int>(500);
        cudaPointerAttributes a{};
        RT_OK(cudaPointerGetAttributes(&a, second));
        EQUAL(a.device, 1);
        RT_OK(cudaMemcpyPeer(second, 1, first, 0, 2000));
        THAT(host(second, 500) == counted(100, 500));
        int can = 0;
        RT_OK(cudaDeviceCanAccessPeer(&can, 1, 0));
        EQUAL(can, 1);
        RT_OK(cudaDeviceEnablePeerAccess(0, 0));
        RT(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
        launch_fill(first, 7, 500);
        RT_OK(cudaDeviceSynchronize());
        THAT(host(first, 500) == counted(7, 500));
        RT(cudaSetDevice(2), cudaErrorInvalidDevice);
    });
}
