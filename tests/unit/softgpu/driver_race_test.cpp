// The race check, and the rules of stream-ordered memory.
#include "driver_test.h"

using namespace driver_test;

namespace {
constexpr const char* kRace = "racecheck=1,latency=1000";

struct Two {
    Gpu gpu;
    CUstream a = Gpu::stream(), b = Gpu::stream();
    CUdeviceptr p = 0;
    void* host = nullptr;
    Two() {
        OK(cuMemAlloc(&p, 4 * kMiB));
        OK(cuMemAllocHost(&host, 4 * kMiB));
    }
};
}  // namespace

TEST_CASE("race: unordered kernel and copy on the same bytes") {
    const auto outcome = in_child(kRace, [] {
        Two t;
        OK(cuMemcpyHtoDAsync(t.p, t.host, kMiB, t.a));
        OK(t.gpu.put(t.p + 64, 1, t.b));
        OK(cuCtxSynchronize());
        THAT(softgpu_count("races") >= 1);
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.errors.find("copy h2d") != std::string::npos);
    CHECK(outcome.errors.find("store") != std::string::npos);
}

TEST_CASE("race: order by stream, event, synchronisation or separate bytes is fine") {
    RUN_IN_CHILD(kRace, [] {
        Two t;
        const CUevent e = Gpu::event();
        OK(cuMemcpyHtoDAsync(t.p, t.host, kMiB, t.a));
        OK(t.gpu.put(t.p + 64, 1, t.a));  // same stream
        OK(cuEventRecord(e, t.a));
        OK(t.gpu.put(t.p + 2 * kMiB, 1, t.b));  // other bytes
        OK(cuStreamWaitEvent(t.b, e, 0));
        OK(t.gpu.move(t.p, t.p + 64, t.b));  // by event
        OK(cuStreamSynchronize(t.b));
        OK(t.gpu.put(t.p, 3, t.a));  // the host has waited
        OK(cuCtxSynchronize());
        EQUAL(softgpu_count("races"), 0u);
    });
}

TEST_CASE("race: two reads are none, a read and a write are") {
    RUN_IN_CHILD(kRace, [] {
        Two t;
        OK(t.gpu.move(t.p + kMiB, t.p, t.a));
        OK(t.gpu.move(t.p + 2 * kMiB, t.p, t.b));
        OK(cuCtxSynchronize());
        EQUAL(softgpu_count("races"), 0u);
        OK(t.gpu.move(t.p + kMiB, t.p, t.a));
        OK(t.gpu.put(t.p, 4, t.b));
        OK(cuCtxSynchronize());
        EQUAL(softgpu_count("races"), 1u);
    });
}

TEST_CASE("race: a volatile load is for what others write meanwhile, its own store is not") {
    RUN_IN_CHILD(kRace, [] {
        Two t;
        OK(t.gpu.peek(t.p + kMiB, t.p, t.a));
        OK(t.gpu.put(t.p, 4, t.b));
        OK(cuCtxSynchronize());
        EQUAL(softgpu_count("races"), 0u);
        OK(t.gpu.peek(t.p + kMiB, t.p, t.a));
        OK(t.gpu.put(t.p + kMiB, 4, t.b));
        OK(cuCtxSynchronize());
        EQUAL(softgpu_count("races"), 1u);
    });
}

TEST_CASE("race: two aliases of one chunk conflict") {
    RUN_IN_CHILD(kRace, [] {
        Gpu gpu;
        Mapping m;
        const auto access = read_write();
        OK(cuMemMap(m.address + 4 * kMiB, m.bytes, 0, m.handle, 0));
        OK(cuMemSetAccess(m.address + 4 * kMiB, m.bytes, &access, 1));
        const CUstream a = Gpu::stream(), b = Gpu::stream();
        OK(gpu.put(m.address, 1, a));
        OK(gpu.put(m.address + 4 * kMiB, 2, b));
        OK(cuCtxSynchronize());
        EQUAL(softgpu_count("races"), 1u);
    });
}

TEST_CASE("race: branches of a graph are unordered, edges order them") {
    RUN_IN_CHILD(kRace, [] {
        Two t;
        for (const bool ordered : {true, false}) {
            const CUevent fork = Gpu::event(), join = Gpu::event();
            CUgraph graph = nullptr;
            CUgraphExec exec = nullptr;
            OK(cuStreamBeginCapture(t.a, CU_STREAM_CAPTURE_MODE_GLOBAL));
            OK(cuEventRecord(fork, t.a));
            if (ordered) OK(t.gpu.put(t.p, 1, t.a));
            if (ordered) OK(cuEventRecord(fork, t.a));
            OK(cuStreamWaitEvent(t.b, fork, 0));
            OK(t.gpu.put(t.p, 2, t.b));
            if (!ordered) OK(t.gpu.put(t.p, 1, t.a));
            OK(cuEventRecord(join, t.b));
            OK(cuStreamWaitEvent(t.a, join, 0));
            OK(cuStreamEndCapture(t.a, &graph));
            OK(cuGraphInstantiate(&exec, graph, 0));
            OK(cuGraphLaunch(exec, t.a));
            OK(cuGraphLaunch(exec, t.a));
            OK(cuCtxSynchronize());
            if (ordered)
                EQUAL(softgpu_count("races"), 0u);
            else
                THAT(softgpu_count("races") >= 1);
        }
    });
}

TEST_CASE("stream-ordered: use before the allocation, after the free, or beside it is caught") {
    const auto outcome = in_child("", [] {
        Two t;
        CUdeviceptr q = 0;
        OK(cuMemAllocAsync(&q, 4096, t.a));
        OK(t.gpu.put(q, 1, t.a));
        EQUAL(softgpu_count("strictness"), 0u);
        OK(t.gpu.put(q, 2, t.b));  // b never waited for a
        OK(cuStreamSynchronize(t.b));
        EQUAL(softgpu_count("strictness"), 1u);
        OK(t.gpu.work(1'000'000, t.b));
        OK(t.gpu.put(q, 3, t.b));
        OK(cuStreamSynchronize(t.a));
        OK(cuMemFreeAsync(q, t.a));  // while b still uses it
        OK(cuStreamSynchronize(t.a));
        EXPECT(cuStreamSynchronize(t.b), CUDA_ERROR_ILLEGAL_ADDRESS);
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.errors.find("without waiting for its allocation") != std::string::npos);
}

TEST_CASE("stream-ordered: a free that does not wait for a user is caught though the user was quick") {
    const auto outcome = in_child("", [] {
        Two t;
        CUdeviceptr q = 0;
        const CUevent e = Gpu::event();
        OK(cuMemAllocAsync(&q, 4096, t.a));
        OK(cuEventRecord(e, t.a));
        OK(cuStreamWaitEvent(t.b, e, 0));
        OK(t.gpu.put(q, 1, t.b));
        for (int i = 0; i < 1000; ++i) OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
        OK(cuMemFreeAsync(q, t.a));
        EQUAL(softgpu_count("strictness"), 1u);
        EXPECT(cuMemFreeAsync(q, t.a), CUDA_ERROR_INVALID_VALUE);
        OK(cuCtxSynchronize());
    });
    CHECK(outcome.failure == "");
    CHECK(outcome.errors.find("does not wait for store") != std::string::npos);
}
