// Graphs by capture and by hand.
#include "runtime_test.h"

using namespace runtime_test;

TEST_CASE("runtime: a captured graph replays what was captured") {
    RUN_IN_CHILD("", [] {
        cudaStream_t stream = nullptr;
        RT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        int *a = device<int>(200), *b = device<int>(200);
        RT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        cudaStreamCaptureStatus status{};
        RT_OK(cudaStreamIsCapturing(stream, &status));
        EQUAL(status, cudaStreamCaptureStatusActive);
        launch_fill(a, 30, 200, stream);
        RT_OK(cudaMemcpyAsync(b, a, 800, cudaMemcpyDeviceToDevice, stream));
        RT_OK(cudaMemsetAsync(a, 0, 800, stream));
        cudaGraph_t graph = nullptr;
        RT_OK(cudaStreamEndCapture(stream, &graph));
        size_t nodes = 0;
        RT_OK(cudaGraphGetNodes(graph, nullptr, &nodes));
        EQUAL(nodes, 3);
        cudaGraphExec_t exec = nullptr;
        RT_OK(cudaGraphInstantiate(&exec, graph, 0));
        for (int round = 0; round < 2; ++round) {
            RT_OK(cudaMemset(b, 0xFF, 800));
            RT_OK(cudaGraphLaunch(exec, stream));
            RT_OK(cudaStreamSynchronize(stream));
            THAT(host(b, 200) == counted(30, 200));
            THAT(host(a, 200) == std::vector<int>(200, 0));
        }
        RT_OK(cudaGraphExecDestroy(exec));
        RT_OK(cudaGraphDestroy(graph));
    });
}

TEST_CASE("runtime: synchronising a capturing stream spoils the capture") {
    RUN_IN_CHILD("", [] {
        cudaStream_t stream = nullptr;
        RT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        RT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        RT(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
        cudaGraph_t graph = nullptr;
        RT(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
        RT(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    });
}

TEST_CASE("runtime: a graph by hand: kernel, copies, memset, host function, child, update") {
    RUN_IN_CHILD("", [] {
        int* out = device<int>(64);
        int value = 5;
        unsigned count = 64;
        void* arguments[] = {&out, &value, &count};
        cudaKernelNodeParams kernel{};
        kernel.func = const_cast<void*>(fill_stub());
        kernel.gridDim = dim3(1), kernel.blockDim = dim3(64);
        kernel.kernelParams = arguments;
        cudaGraph_t graph = nullptr, child = nullptr;
        RT_OK(cudaGraphCreate(&graph, 0));
        RT_OK(cudaGraphCreate(&child, 0));
        cudaGraphNode_t k = nullptr, m = nullptr, c = nullptr, h = nullptr, g = nullptr, x = nullptr;
        RT_OK(cudaGraphAddKernelNode(&k, graph, nullptr, 0, &kernel));
        cudaKernelNodeParams read{};
        RT_OK(cudaGraphKernelNodeGetParams(k, &read));
        EQUAL(read.blockDim.x, 64);
        std::vector<int> back(64);
        RT_OK(cudaGraphAddMemcpyNode1D(&c, graph, &k, 1, back.data(), out, 256, cudaMemcpyDeviceToHost));
        cudaMemsetParams memset{};
        memset.dst = out, memset.value = 0xAB, memset.elementSize = 1, memset.width = 256, memset.height = 1;
        RT_OK(cudaGraphAddMemsetNode(&x, child, nullptr, 0, &memset));
        RT_OK(cudaGraphAddChildGraphNode(&g, graph, &c, 1, child));
        static int calls;
        cudaHostNodeParams host_node{};
        host_node.fn = [](void*) { ++calls; };
        RT_OK(cudaGraphAddHostNode(&h, graph, &g, 1, &host_node));
        RT_OK(cudaGraphAddEmptyNode(&m, graph, nullptr, 0));
        cudaGraphNodeType type{};
        RT_OK(cudaGraphNodeGetType(g, &type));
        EQUAL(type, cudaGraphNodeTypeGraph);
        cudaGraphExec_t exec = nullptr;
        RT_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
        RT_OK(cudaGraphLaunch(exec, nullptr));
        RT_OK(cudaDeviceSynchronize());
        THAT(back == counted(5, 64));
        EQUAL(calls, 1);
        EQUAL(host(out, 64)[0], static_cast<int>(0xABABABABu));
        value = 9;
        RT_OK(cudaGraphExecKernelNodeSetParams(exec, k, &kernel));
        RT_OK(cudaGraphLaunch(exec, nullptr));
        RT_OK(cudaDeviceSynchronize());
        THAT(back == counted(9, 64));
        value = 11;
        RT_OK(cudaGraphKernelNodeSetParams(k, &kernel));
        cudaGraphExecUpdateResultInfo result{};
        RT_OK(cudaGraphExecUpdate(exec, graph, &result));
        RT_OK(cudaGraphLaunch(exec, nullptr));
        RT_OK(cudaDeviceSynchronize());
        THAT(back == counted(11, 64));
    });
}

TEST_CASE("runtime: nodes of any kind through one call") {
    RUN_IN_CHILD("", [] {
        cudaGraph_t graph = nullptr;
        RT_OK(cudaGraphCreate(&graph, 0));
        cudaGraphNodeParams alloc{};
        alloc.type = cudaGraphNodeTypeMemAlloc;
        alloc.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
        alloc.alloc.poolProps.location = {cudaMemLocationTypeDevice, 0};
        alloc.alloc.bytesize = 400;
        cudaGraphNode_t a = nullptr, k = nullptr, c = nullptr, f = nullptr;
        RT_OK(cudaGraphAddNode(&a, graph, nullptr, nullptr, 0, &alloc));
        THAT(alloc.alloc.dptr != nullptr);
        int value = 21;
        unsigned count = 100;
        void* arguments[] = {&alloc.alloc.dptr, &value, &count};
        cudaGraphNodeParams kernel{};
        kernel.type = cudaGraphNodeTypeKernel;
        kernel.kernel.func = const_cast<void*>(fill_stub());
        kernel.kernel.gridDim = dim3(2), kernel.kernel.blockDim = dim3(64);
        kernel.kernel.kernelParams = arguments;
        RT_OK(cudaGraphAddNode(&k, graph, &a, nullptr, 1, &kernel));
        std::vector<int> back(100);
        cudaGraphNodeParams copy{};
        copy.type = cudaGraphNodeTypeMemcpy;
        copy.memcpy.copyParams.srcPtr = make_cudaPitchedPtr(alloc.alloc.dptr, 400, 400, 1);
        copy.memcpy.copyParams.dstPtr = make_cudaPitchedPtr(back.data(), 400, 400, 1);
        copy.memcpy.copyParams.extent = make_cudaExtent(400, 1, 1);
        copy.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
        RT_OK(cudaGraphAddNode(&c, graph, &k, nullptr, 1, &copy));
        RT_OK(cudaGraphAddMemFreeNode(&f, graph, &c, 1, alloc.alloc.dptr));
        cudaGraphExec_t exec = nullptr;
        RT_OK(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 2; ++i) {
            RT_OK(cudaGraphLaunch(exec, nullptr));
            RT_OK(cudaDeviceSynchronize());
            THAT(back == counted(21, 100));
            back.assign(100, 0);
        }
    });
}
