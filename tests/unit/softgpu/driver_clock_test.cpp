// The virtual clock: exact times of copies, the duplex limit, overlap, determinism.
#include <fstream>

#include "driver_test.h"

using namespace driver_test;

namespace {

constexpr const char* kRates = "h2d=10GB/s,d2h=5GB/s,duplex=9GB/s,latency=1000,call=0";

unsigned long long nanoseconds(CUevent from, CUevent to) {
    float ms = 0;
    OK(cuEventElapsedTime(&ms, from, to));
    return static_cast<unsigned long long>(static_cast<double>(ms) * 1e6 + 0.5);
}

struct Copies {
    Gpu gpu;
    CUstream in = Gpu::stream(), out = Gpu::stream();
    CUevent start = Gpu::event(), in_done = Gpu::event(), out_done = Gpu::event();
    void *host_in = nullptr, *host_out = nullptr;
    CUdeviceptr to = 0, from = 0;
    explicit Copies(std::size_t bytes) {
        OK(cuMemAllocHost(&host_in, bytes));
        OK(cuMemAllocHost(&host_out, bytes));
        OK(cuMemAlloc(&to, bytes));
        OK(cuMemAlloc(&from, bytes));
    }
};

}  // namespace

TEST_CASE("clock: a copy takes the latency and bytes over rate") {
    RUN_IN_CHILD(kRates, [] {
        Copies c(100'000);
        OK(cuEventRecord(c.start, c.in));
        OK(cuMemcpyHtoDAsync(c.to, c.host_in, 100'000, c.in));
        OK(cuEventRecord(c.in_done, c.in));
        OK(cuEventRecord(c.out_done, c.out));
        OK(cuStreamSynchronize(c.in));
        EQUAL(nanoseconds(c.start, c.in_done), 1000u + 10'000u);
        OK(cuEventRecord(c.start, c.out));
        OK(cuMemcpyDtoHAsync(c.host_out, c.from, 99'999, c.out));
        OK(cuEventRecord(c.out_done, c.out));
        OK(cuStreamSynchronize(c.out));
        EQUAL(nanoseconds(c.start, c.out_done), 1000u + 20'000u);  // 19999.8 rounded up
    });
}

TEST_CASE("clock: both directions share the duplex limit in proportion") {
    RUN_IN_CHILD(kRates, [] {
        // 15 GB/s wanted, 9 allowed: 6 in and 3 out. 60000 bytes each: in moves 10 us; then 30000 bytes are
        // left of out, at its own rate of 5: 6 us more. Latency (1 us) at the same time for both.
        Copies c(100'000);
        OK(cuEventRecord(c.start, c.in));
        OK(cuMemcpyHtoDAsync(c.to, c.host_in, 60'000, c.in));
        OK(cuEventRecord(c.in_done, c.in));
        OK(cuMemcpyDtoHAsync(c.host_out, c.from, 60'000, c.out));
        OK(cuEventRecord(c.out_done, c.out));
        OK(cuCtxSynchronize());
        EQUAL(nanoseconds(c.start, c.in_done), 11'000u);
        EQUAL(nanoseconds(c.start, c.out_done), 17'000u);
    });
}

TEST_CASE("clock: latency is not stretched, and copies of one direction queue") {
    RUN_IN_CHILD(kRates, [] {
        Copies c(100'000);
        OK(cuEventRecord(c.start, c.in));
        OK(cuMemcpyHtoDAsync(c.to, c.host_in, 10'000, c.in));
        OK(cuMemcpyHtoDAsync(c.to + 50'000, c.host_in, 10'000, c.out));
        OK(cuEventRecord(c.in_done, c.in));
        OK(cuEventRecord(c.out_done, c.out));
        OK(cuCtxSynchronize());
        EQUAL(nanoseconds(c.start, c.in_done), 2'000u);
        EQUAL(nanoseconds(c.start, c.out_done), 4'000u);
    });
}

TEST_CASE("clock: kernels run beside copies, and a table gives their times") {
    const std::string table = "/tmp/softgpu_driver_test_" + std::to_string(getpid());
    std::ofstream(table) << "# name ns\n^store$ 123456\nspin 50000\n";
    RUN_IN_CHILD(std::string(kRates) + ",kernel-table=" + table, [] {
        Copies c(100'000);
        const CUevent kernel_done = Gpu::event();
        OK(cuEventRecord(c.start, c.in));
        OK(cuMemcpyHtoDAsync(c.to, c.host_in, 100'000, c.in));
        OK(cuEventRecord(c.in_done, c.in));
        OK(c.gpu.put(c.from, 1, c.out));
        OK(c.gpu.work(5, c.out));
        OK(cuEventRecord(kernel_done, c.out));
        OK(cuCtxSynchronize());
        EQUAL(nanoseconds(c.start, c.in_done), 11'000u);
        EQUAL(nanoseconds(c.start, kernel_done), 173'456u);
    });
    std::remove(table.c_str());
}

TEST_CASE("clock: modelled kernel time follows the instructions") {
    RUN_IN_CHILD("call=0,launch=700,instructions=1e9", [] {
        Gpu gpu;
        const CUevent a = Gpu::event(), b = Gpu::event(), c = Gpu::event();
        OK(cuEventRecord(a, nullptr));
        OK(gpu.work(1000));
        OK(cuEventRecord(b, nullptr));
        OK(gpu.work(2000));
        OK(cuEventRecord(c, nullptr));
        OK(cuCtxSynchronize());
        // Three instructions a round: 3 ns.
        const auto first = nanoseconds(a, b), second = nanoseconds(b, c);
        EQUAL(second - first, 3000u);
        THAT(first > 3700 && first < 3720);
    });
}

TEST_CASE("clock: host calls cost time, and blocking brings the host to the end") {
    RUN_IN_CHILD("call=5us,launch=0", [] {
        Gpu gpu;
        unsigned long long before = 0, after = 0, device = 0;
        softgpu_now(&before, nullptr);
        for (int i = 0; i < 10; ++i) OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
        softgpu_now(&after, nullptr);
        EQUAL(after - before, 50'000u);
        OK(gpu.work(100'000'000));
        OK(cuCtxSynchronize());
        softgpu_now(&after, &device);
        EQUAL(after, device);
        THAT(after > before + 1'000'000);
    });
}

TEST_CASE("clock: a missing dependency shows as wrong data") {
    RUN_IN_CHILD(kRates, [] {
        Copies c(4'000'000);
        static_cast<unsigned*>(c.host_in)[0] = 42;
        OK(cuMemcpyHtoDAsync(c.to, c.host_in, 4'000'000, c.in));
        OK(c.gpu.move(c.from, c.to, c.out));  // nobody waits for the copy
        OK(cuCtxSynchronize());
        EQUAL(Gpu::word(c.from), 0u);
        OK(cuMemsetD32(c.to, 0, 1));
        OK(cuCtxSynchronize());
        OK(cuMemcpyHtoDAsync(c.to, c.host_in, 4'000'000, c.in));
        OK(cuEventRecord(c.in_done, c.in));
        OK(cuStreamWaitEvent(c.out, c.in_done, 0));
        OK(c.gpu.move(c.from, c.to, c.out));
        OK(cuCtxSynchronize());
        EQUAL(Gpu::word(c.from), 42u);
    });
}

TEST_CASE("clock: the legacy stream and blocking streams wait for each other, others don't") {
    RUN_IN_CHILD(kRates, [] {
        Copies c(4'000'000);
        static_cast<unsigned*>(c.host_in)[0] = 42;
        CUstream blocking = nullptr;
        OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
        OK(cuMemcpyHtoDAsync(c.to, c.host_in, 4'000'000, blocking));
        OK(c.gpu.move(c.from, c.to, CU_STREAM_LEGACY));
        OK(c.gpu.move(c.from + 4, c.from, blocking));
        OK(cuCtxSynchronize());
        EQUAL(Gpu::word(c.from), 42u);
        EQUAL(Gpu::word(c.from + 4), 42u);
        OK(cuMemsetD32(c.to, 0, 1));
        OK(cuCtxSynchronize());
        OK(cuMemcpyHtoDAsync(c.to, c.host_in, 4'000'000, c.in));  // non-blocking
        OK(c.gpu.move(c.from + 8, c.to, CU_STREAM_LEGACY));
        OK(cuCtxSynchronize());
        EQUAL(Gpu::word(c.from + 8), 0u);
    });
}

TEST_CASE("clock: two runs of a program agree to the nanosecond") {
    const std::string file = "/tmp/softgpu_driver_clock_" + std::to_string(getpid());
    std::string seen[2];
    for (std::string& text : seen) {
        RUN_IN_CHILD("", [&] {
            Copies c(8 * kMiB);
            for (int i = 0; i < 200; ++i) {
                OK(cuMemcpyHtoDAsync(c.to, c.host_in, static_cast<std::size_t>(1 + i * 1237), c.in));
                OK(cuEventRecord(c.in_done, c.in));
                OK(cuStreamWaitEvent(c.out, c.in_done, 0));
                OK(c.gpu.work(static_cast<unsigned>(i * 100), c.out));
                OK(cuMemcpyDtoHAsync(c.host_out, c.to, static_cast<std::size_t>(1 + i * 977), c.out));
                if (i % 17 == 0) OK(cuStreamSynchronize(c.out));
            }
            OK(cuCtxSynchronize());
            unsigned long long host = 0, device = 0;
            softgpu_now(&host, &device);
            std::ofstream(file) << host << ' ' << device;
        });
        std::ifstream in(file);
        std::getline(in, text);
    }
    std::remove(file.c_str());
    CHECK(seen[0] == seen[1]);
    CHECK(seen[0] != "");
}

TEST_CASE("clock: host functions run in stream order and the host learns from them") {
    RUN_IN_CHILD(kRates, [] {
        Copies c(kMiB);
        static int order = 0, first = 0, second = 0;
        OK(cuLaunchHostFunc(
            c.in, [](void*) { first = ++order; }, nullptr));
        OK(cuMemcpyHtoDAsync(c.to, c.host_in, 1000, c.in));
        OK(cuLaunchHostFunc(
            c.in, [](void*) { second = ++order; }, nullptr));
        static CUresult inside = CUDA_SUCCESS;
        OK(cuLaunchHostFunc(
            c.in, [](void*) { inside = cuCtxSynchronize(); }, nullptr));
        OK(cuStreamSynchronize(c.in));
        EQUAL(first, 1);
        EQUAL(second, 2);
        EXPECT(inside, CUDA_ERROR_NOT_PERMITTED);
    });
}

TEST_CASE("clock: a stream waits for a value that the host or another stream writes") {
    RUN_IN_CHILD(kRates, [] {
        Copies c(kMiB);
        auto* flag = static_cast<volatile unsigned*>(c.host_in);
        const auto at = reinterpret_cast<CUdeviceptr>(c.host_in);
        OK(cuStreamWaitValue32(c.in, at, 3, CU_STREAM_WAIT_VALUE_GEQ));
        OK(c.gpu.put(c.to, 5, c.in));
        EXPECT(cuStreamQuery(c.in), CUDA_ERROR_NOT_READY);
        *flag = 3;
        OK(cuStreamSynchronize(c.in));
        EQUAL(Gpu::word(c.to), 5u);
        OK(cuStreamWaitValue32(c.in, at, 9, CU_STREAM_WAIT_VALUE_EQ));
        OK(cuStreamWriteValue32(c.out, at, 9, 0));
        OK(cuStreamSynchronize(c.in));
        EQUAL(static_cast<unsigned>(*flag), 9u);
    });
}
