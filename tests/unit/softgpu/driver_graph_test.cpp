// Graphs made by hand, updates of executables, and the memory of allocation nodes.
#include "driver_test.h"

using namespace driver_test;

namespace {

struct Words {
    CUdeviceptr p = 0;
    explicit Words(std::size_t n) {
        OK(cuMemAlloc(&p, n * 4));
        OK(cuMemsetD32(p, 0, n));
        OK(cuCtxSynchronize());
    }
    operator CUdeviceptr() const { return p; }
};

CUgraphNode add_store(CUgraph graph, std::vector<CUgraphNode> after, CUfunction f, CUdeviceptr p,
                      unsigned v) {
    void* params[] = {&p, &v};
    CUDA_KERNEL_NODE_PARAMS k{};
    k.func = f;
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = params;
    CUgraphNode node = nullptr;
    OK(cuGraphAddKernelNode(&node, graph, after.data(), after.size(), &k));
    return node;
}

CUresult set_store(CUgraphExec exec, CUgraphNode node, CUfunction f, CUdeviceptr p, unsigned v) {
    struct {
        CUdeviceptr p;
        unsigned v;
    } block{p, v};
    size_t size = 12;  // without the tail padding
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS k{};
    k.func = f;
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
    k.extra = extra;
    return cuGraphExecKernelNodeSetParams(exec, node, &k);
}

}  // namespace

TEST_CASE("graph: nodes of each kind run in the order of their edges") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        Words p(8);
        static int called = 0;
        unsigned result[2] = {};
        CUgraph graph = nullptr, child = nullptr;
        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphCreate(&child, 0));
        add_store(child, {}, gpu.store, p + 4, 22);
        CUDA_MEMSET_NODE_PARAMS m{p.p, 0, 7, 4, 8, 1};
        CUgraphNode set = nullptr, nested = nullptr, host = nullptr, copy = nullptr;
        OK(cuGraphAddMemsetNode(&set, graph, nullptr, 0, &m, gpu.context));
        OK(cuGraphAddChildGraphNode(&nested, graph, &set, 1, child));
        const CUgraphNode kernel = add_store(graph, {set}, gpu.store, p, 11);
        const CUgraphNode both[] = {nested, kernel};
        CUDA_MEMCPY3D c{};
        c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        c.srcDevice = p;
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = result;
        c.WidthInBytes = 8;
        c.Height = c.Depth = 1;
        OK(cuGraphAddMemcpyNode(&copy, graph, both, 2, &c, gpu.context));
        CUDA_HOST_NODE_PARAMS h{[](void*) { ++called; }, nullptr};
        OK(cuGraphAddHostNode(&host, graph, &copy, 1, &h));
        CUgraphExec exec = nullptr;
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, nullptr));
        OK(cuGraphLaunch(exec, nullptr));
        OK(cuCtxSynchronize());
        EQUAL(result[0], 11u);
        EQUAL(result[1], 22u);
        EQUAL(called, 2);
        EQUAL(Gpu::word(p + 28), 7u);
        CUgraphNodeType type;
        OK(cuGraphNodeGetType(nested, &type));
        THAT(type == CU_GRAPH_NODE_TYPE_GRAPH);
        CUDA_KERNEL_NODE_PARAMS k{};
        OK(cuGraphKernelNodeGetParams(kernel, &k));
        EQUAL(*static_cast<unsigned*>(k.kernelParams[1]), 11u);
    });
}

TEST_CASE("graph: executables take new parameters, and updates of the same shape only") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        Words p(4);
        CUgraph graph = nullptr, clone = nullptr;
        OK(cuGraphCreate(&graph, 0));
        const CUgraphNode a = add_store(graph, {}, gpu.store, p, 1);
        const CUgraphNode b = add_store(graph, {a}, gpu.store, p + 4, 2);
        OK(cuGraphClone(&clone, graph));
        CUgraphNode in_clone = nullptr;
        OK(cuGraphNodeFindInClone(&in_clone, b, clone));
        CUgraphExec exec = nullptr;
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(set_store(exec, b, gpu.store, p + 8, 9));
        OK(cuGraphLaunch(exec, nullptr));
        OK(cuCtxSynchronize());
        EQUAL(Gpu::word(p), 1u);
        EQUAL(Gpu::word(p + 4), 0u);
        EQUAL(Gpu::word(p + 8), 9u);
        OK(cuGraphNodeSetEnabled(exec, a, 0));
        OK(cuMemsetD32(p, 0, 4));
        OK(cuGraphLaunch(exec, nullptr));
        EQUAL(Gpu::word(p), 0u);

        CUgraphExecUpdateResultInfo info{};
        OK(cuGraphExecUpdate(exec, graph, &info));
        OK(cuGraphLaunch(exec, nullptr));
        EQUAL(Gpu::word(p + 4), 2u);
        add_store(graph, {b}, gpu.store, p + 12, 3);
        EXPECT(cuGraphExecUpdate(exec, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        THAT(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
        OK(cuGraphLaunch(exec, nullptr));
        OK(cuCtxSynchronize());
        EQUAL(Gpu::word(p + 12), 0u);
    });
}

TEST_CASE("graph: cycles and foreign nodes are refused") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        CUgraph g = nullptr, h = nullptr;
        CUgraphNode a = nullptr, b = nullptr, c = nullptr;
        OK(cuGraphCreate(&g, 0));
        OK(cuGraphCreate(&h, 0));
        OK(cuGraphAddEmptyNode(&a, g, nullptr, 0));
        OK(cuGraphAddEmptyNode(&b, g, &a, 1));
        EXPECT(cuGraphAddEmptyNode(&c, h, &a, 1), CUDA_ERROR_INVALID_VALUE);
        OK(cuGraphAddDependencies(g, &b, &a, nullptr, 1));
        CUgraphExec exec = nullptr;
        EXPECT(cuGraphInstantiate(&exec, g, 0), CUDA_ERROR_INVALID_VALUE);
        OK(cuGraphRemoveDependencies(g, &b, &a, nullptr, 1));
        OK(cuGraphInstantiate(&exec, g, 0));
        OK(cuGraphDestroy(g));
        EXPECT(cuGraphDestroy(g), CUDA_ERROR_INVALID_VALUE);
    });
}

TEST_CASE("graph: allocation nodes, freed inside or by a later launch") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        const auto before = softgpu_count("device-memory");
        CUgraph graph = nullptr;
        OK(cuGraphCreate(&graph, 0));
        CUDA_MEM_ALLOC_NODE_PARAMS a{};
        a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        a.bytesize = 1000;
        CUgraphNode alloc = nullptr;
        OK(cuGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &a));
        add_store(graph, {alloc}, gpu.store, a.dptr, 31);
        CUgraphExec exec = nullptr, freeing = nullptr;
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, nullptr));
        EQUAL(Gpu::word(a.dptr), 31u);
        EXPECT(cuGraphLaunch(exec, nullptr), CUDA_ERROR_INVALID_VALUE);  // still allocated
        OK(cuMemFree(a.dptr));
        EQUAL(softgpu_count("device-memory"), before);
        OK(cuGraphInstantiate(&freeing, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
        OK(cuGraphLaunch(freeing, nullptr));
        OK(cuGraphLaunch(freeing, nullptr));
        OK(cuCtxSynchronize());
        OK(cuMemFreeAsync(a.dptr, nullptr));
        OK(cuCtxSynchronize());
        EQUAL(softgpu_count("device-memory"), before);
    });
}

TEST_CASE("graph: user objects die with their last holder") {
    RUN_IN_CHILD("", [] {
        Gpu gpu;
        static int destroyed = 0;
        CUuserObject object = nullptr;
        CUgraph graph = nullptr;
        CUgraphExec exec = nullptr;
        OK(cuUserObjectCreate(
            &object, nullptr, [](void*) { ++destroyed; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphDestroy(graph));
        EQUAL(destroyed, 0);
        OK(cuGraphExecDestroy(exec));
        EQUAL(destroyed, 1);
    });
}
