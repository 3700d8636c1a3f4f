// Stream capture: what it records, and each of its rules broken and caught.
#include <thread>

#include "driver_test.h"

using namespace driver_test;

namespace {

constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr auto kLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

CUdeviceptr words(std::size_t n) {
    CUdeviceptr p = 0;
    OK(cuMemAlloc(&p, n * 4));
    OK(cuMemsetD32(p, 0, n));
    OK(cuCtxSynchronize());
    return p;
}

}  // namespace

TEST_CASE("capture: records without running, replays what was recorded") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        const CUdeviceptr p = words(4);
        const CUstream s = Gpu::stream(), t = Gpu::stream();
        const CUevent fork = Gpu::event(), join = Gpu::event();
        OK(cuStreamBeginCapture(s, kGlobal));
        OK(gpu.put(p, 1, s));
        OK(cuEventRecord(fork, s));
        OK(cuStreamWaitEvent(t, fork, 0));
        OK(gpu.move(p + 4, p, t));
        OK(gpu.move(p + 8, p, s));
        OK(cuEventRecord(join, t));
        OK(cuStreamWaitEvent(s, join, 0));
        OK(gpu.move(p + 12, p + 4, s));
        CUgraph graph = nullptr;
        OK(cuStreamEndCapture(s, &graph));
        EQUAL(Gpu::word(p), 0u);
        size_t nodes = 0, edges = 0, roots = 0;
        OK(cuGraphGetNodes(graph, nullptr, &nodes));
        OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
        OK(cuGraphGetRootNodes(graph, nullptr, &roots));
        EQUAL(nodes, 4u);
        EQUAL(edges, 4u);
        EQUAL(roots, 1u);
        CUgraphExec exec = nullptr;
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphDestroy(graph));
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        for (unsigned i = 0; i < 4; ++i) EQUAL(Gpu::word(p + 4 * i), 1u);
        OK(cuGraphExecDestroy(exec));
        EQUAL(softgpu_count("strictness"), 0u);
    });
}

TEST_CASE("capture: an unsafe call during a GLOBAL capture fails and spoils it") {
    using Unsafe = CUresult (*)();
    const Unsafe calls[] = {
        [] {
            CUdeviceptr p = 0;
            return cuMemAlloc(&p, 4);
        },
        [] { return cuMemFree(0); },
        [] {
            void* p = nullptr;
            return cuMemAllocHost(&p, 4);
        },
        [] { return cuCtxSynchronize(); },
        [] {
            const auto prop = device_prop();
            CUmemGenericAllocationHandle h = 0;
            return cuMemCreate(&h, 2 << 20, &prop, 0);
        },
        [] { return cuMemUnmap(0x200000, 2 << 20); },
        [] { return cuMemMap(0x200000, 2 << 20, 0, 1, 0); },
        [] {
            const auto a = read_write();
            return cuMemSetAccess(0x200000, 2 << 20, &a, 1);
        },
    };
    for (const Unsafe call : calls)
        RUN_IN_CHILD("", [&] {
            Gpu gpu;
            const CUdeviceptr p = words(1);
            const CUstream s = Gpu::stream();
            OK(cuStreamBeginCapture(s, kGlobal));
            OK(gpu.put(p, 1, s));
            EXPECT(call(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            EXPECT(gpu.put(p, 1, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            CUgraph graph = nullptr;
            EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            THAT(graph == nullptr);
            OK(gpu.put(p, 2, s));  // the stream is usable again
            OK(cuStreamSynchronize(s));
        });
}

TEST_CASE("capture: other threads are bound by GLOBAL, unless they relax") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        const CUstream s = Gpu::stream();
        OK(cuStreamBeginCapture(s, kGlobal));
        CUresult relaxed = CUDA_ERROR_UNKNOWN, bound = CUDA_ERROR_UNKNOWN;
        std::thread([&] {
            cuCtxSetCurrent(gpu.context);
            CUstreamCaptureMode mode = kRelaxed;
            cuThreadExchangeStreamCaptureMode(&mode);
            CUdeviceptr p = 0;
            relaxed = cuMemAlloc(&p, 4);
            cuThreadExchangeStreamCaptureMode(&mode);
            bound = cuMemAlloc(&p, 4);
        }).join();
        EXPECT(relaxed, CUDA_SUCCESS);
        EXPECT(bound, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        CUgraph graph = nullptr;
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    });
}

TEST_CASE("capture: THREAD_LOCAL binds its own thread only, RELAXED none") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        const CUstream s = Gpu::stream();
        CUdeviceptr p = 0;
        CUgraph graph = nullptr;
        OK(cuStreamBeginCapture(s, kLocal));
        CUresult other = CUDA_ERROR_UNKNOWN;
        std::thread([&] {
            CUdeviceptr q = 0;
            cuCtxSetCurrent(gpu.context);
            other = cuMemAlloc(&q, 4);
        }).join();
        EXPECT(other, CUDA_SUCCESS);
        EXPECT(cuMemAlloc(&p, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        OK(cuStreamBeginCapture(s, kRelaxed));
        OK(cuMemAlloc(&p, 4));
        OK(cuStreamEndCapture(s, &graph));
    });
}

TEST_CASE("capture: looking at or waiting for what is captured is refused") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        const CUdeviceptr p = words(1);
        const CUstream s = Gpu::stream();
        const CUevent e = Gpu::event();
        CUgraph graph = nullptr;
        OK(cuStreamBeginCapture(s, kRelaxed));
        OK(gpu.put(p, 1, s));
        OK(cuEventRecord(e, s));
        EXPECT(cuEventQuery(e), CUDA_ERROR_CAPTURED_EVENT);
        EXPECT(cuEventSynchronize(e), CUDA_ERROR_CAPTURED_EVENT);
        EXPECT(cuStreamQuery(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        OK(cuStreamBeginCapture(s, kRelaxed));
        EXPECT(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    });
}

TEST_CASE("capture: the legacy stream stays out") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        const CUdeviceptr p = words(1);
        CUstream s = nullptr;
        CUgraph graph = nullptr;
        OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
        EXPECT(cuStreamBeginCapture(nullptr, kGlobal), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        OK(cuStreamBeginCapture(s, kGlobal));
        EXPECT(gpu.put(p, 1, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        const CUstream t = Gpu::stream();  // non-blocking: no implicit dependency
        OK(cuStreamBeginCapture(t, kGlobal));
        OK(gpu.put(p, 1, nullptr));
        OK(cuStreamEndCapture(t, &graph));
    });
}

TEST_CASE("capture: begin, end and join in the wrong places") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        const CUdeviceptr p = words(1);
        const CUstream s = Gpu::stream(), t = Gpu::stream(), u = Gpu::stream();
        const CUevent e = Gpu::event(), outside = Gpu::event();
        CUgraph graph = nullptr;
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_ILLEGAL_STATE);
        OK(cuStreamBeginCapture(s, kGlobal));
        EXPECT(cuStreamBeginCapture(s, kGlobal), CUDA_ERROR_ILLEGAL_STATE);
        OK(cuEventRecord(e, s));
        OK(cuStreamWaitEvent(t, e, 0));
        OK(gpu.put(p, 1, t));  // forked, and never joined
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        CUstreamCaptureStatus status;
        OK(cuStreamIsCapturing(t, &status));
        THAT(status == CU_STREAM_CAPTURE_STATUS_NONE);

        OK(cuEventRecord(outside, u));
        OK(cuStreamBeginCapture(s, kGlobal));
        EXPECT(cuStreamWaitEvent(s, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

        OK(cuStreamBeginCapture(s, kGlobal));
        OK(cuStreamBeginCapture(u, kGlobal));
        OK(cuEventRecord(e, u));
        EXPECT(cuStreamWaitEvent(s, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        EXPECT(cuStreamEndCapture(u, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

        OK(cuStreamBeginCapture(s, kGlobal));
        OK(cuEventRecord(e, s));
        OK(cuStreamWaitEvent(t, e, 0));
        EXPECT(cuStreamEndCapture(t, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        EXPECT(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

        OK(cuStreamBeginCapture(s, kGlobal));
        CUresult elsewhere = CUDA_SUCCESS;
        std::thread([&] {
            CUgraph g = nullptr;
            cuCtxSetCurrent(gpu.context);
            elsewhere = cuStreamEndCapture(s, &g);
        }).join();
        EXPECT(elsewhere, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        OK(cuStreamEndCapture(s, &graph));
    });
}

TEST_CASE("capture: stream-ordered memory lives inside the graph") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        const CUdeviceptr p = words(1);
        const CUstream s = Gpu::stream();
        const auto before = softgpu_count("device-memory");
        CUdeviceptr q = 0;
        CUgraph graph = nullptr;
        CUgraphExec exec = nullptr;
        OK(cuStreamBeginCapture(s, kGlobal));
        OK(cuMemAllocAsync(&q, 4096, s));
        OK(gpu.put(q, 8, s));
        OK(gpu.move(p, q, s));
        OK(cuMemFreeAsync(q, s));
        OK(cuStreamEndCapture(s, &graph));
        OK(cuGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 3; ++i) OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        EQUAL(Gpu::word(p), 8u);
        EQUAL(softgpu_count("device-memory"), before);
        OK(gpu.put(q, 1, s));  // between launches there is nothing there
        EXPECT(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

TEST_CASE("capture: continuing an existing graph, and information on the way") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        const CUdeviceptr p = words(2);
        const CUstream s = Gpu::stream();
        CUgraph graph = nullptr, same = nullptr;
        CUgraphNode first = nullptr;
        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphAddEmptyNode(&first, graph, nullptr, 0));
        OK(cuStreamBeginCaptureToGraph(s, graph, &first, nullptr, 1, kGlobal));
        OK(gpu.put(p, 3, s));
        CUstreamCaptureStatus status;
        cuuint64_t id = 0;
        CUgraph seen = nullptr;
        const CUgraphNode* leaves = nullptr;
        const CUgraphEdgeData* edges = nullptr;
        size_t count = 0;
        OK(cuStreamGetCaptureInfo(s, &status, &id, &seen, &leaves, &edges, &count));
        THAT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && seen == graph && count == 1 && leaves[0] != first &&
             id != 0);
        CUgraphNode none = first;
        OK(cuStreamUpdateCaptureDependencies(s, &none, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
        OK(gpu.put(p + 4, 4, s));
        OK(cuStreamEndCapture(s, &same));
        THAT(same == graph);
        size_t dependents = 0;
        OK(cuGraphNodeGetDependentNodes(first, nullptr, nullptr, &dependents));
        EQUAL(dependents, 2u);
    });
}
