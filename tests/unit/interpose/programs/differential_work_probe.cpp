// Launches of every form, code and its globals, graphs by hand, pools, memory operations and host functions
// on streams, sharing, several contexts and devices: right calls and wrong ones, every result printed. Run
// with and without the shim, the lines must be the same.
#include <array>
#include <cstdint>

#include "tests/unit/interpose/programs/differential.h"

using namespace differential;

namespace {

// add: p[i] += v for i < n; by_global: the same through an address that a global of the module holds.
const char* const kCode = R"(
.version 6.4
.target sm_75
.address_size 64
.visible .global .align 8 .u64 table[2];
.visible .entry add(.param .u64 p, .param .u32 n, .param .u32 v)
{
    .reg .pred %q;
    .reg .b32 %r<8>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [p];
    ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [v];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %q, %r6, %r1;
    @%q ret;
    mad.wide.u32 %d2, %r6, 4, %d1;
    ld.global.u32 %r7, [%d2];
    add.u32 %r7, %r7, %r2;
    st.global.u32 [%d2], %r7;
    ret;
}
.visible .entry by_global(.param .u32 v)
{
    .reg .b32 %r<4>;
    .reg .b64 %d<3>;
    ld.param.u32 %r1, [v];
    ld.global.u64 %d1, [table];
    ld.global.u32 %r2, [%d1];
    add.u32 %r2, %r2, %r1;
    st.global.u32 [%d1], %r2;
    ret;
}
)";

unsigned word_at(CUdeviceptr address) {
    unsigned word = 0xdead;
    CALL(cuMemcpyDtoH, &word, address, 4);
    return word;
}

/// Arguments of `add`, as pointers and as a packed block.
struct Arguments {
    struct {
        CUdeviceptr p;
        unsigned n, v;
    } block;
    std::array<void*, 3> pointers{&block.p, &block.n, &block.v};
    size_t bytes = sizeof block;
    std::array<void*, 5> extra{CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                               CU_LAUNCH_PARAM_END};
    Arguments(CUdeviceptr p, unsigned n, unsigned v) : block{p, n, v} {}
    Arguments(const Arguments&) = delete;
};

struct Code {
    CUmodule module = nullptr;
    CUfunction add = nullptr, by_global = nullptr;
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;

    Code() {
        CALL(cuModuleLoadData, &module, kCode);
        CALL(cuModuleGetFunction, &add, module, "add");
        CALL(cuModuleGetFunction, &by_global, module, "by_global");
        CALL(cuModuleGetFunction, &add, module, "nothing");
        CALL(cuModuleGetFunction, nullptr, module, "add");
        CALL(cuModuleLoadData, nullptr, kCode);
        CALL(cuModuleLoadData, &module, ".version 1.0 nonsense");
        CALL(cuLibraryLoadData, &library, kCode, nullptr, nullptr, 0, nullptr, nullptr, 0);
        CALL(cuLibraryGetKernel, &kernel, library, "add");
        CALL(cuLibraryGetKernel, &kernel, library, "nothing");
    }
    void unload() const {
        CALL(cuModuleUnload, module);
        CALL(cuModuleUnload, module);
        CALL(cuLibraryUnload, library);
        CALL(cuLibraryUnload, library);
    }
};

void launches(const Code& code, CUstream stream) {
    CUdeviceptr p = 0, other = 0;
    CALL(cuMemAlloc, &p, kBig);
    CALL(cuMemAlloc, &other, kBig);
    CALL(cuMemsetD32, p, 1000, kBig / 4);
    CALL(cuMemsetD32, other, 1, kBig / 4);
    Arguments a(p, 1 << 16, 1);
    CALL(cuLaunchKernel, code.add, 512, 1, 1, 128, 1, 1, 0, stream, a.pointers.data(), nullptr);
    CALL(cuLaunchKernel, code.add, 512, 1, 1, 128, 1, 1, 0, stream, nullptr, a.extra.data());
    CALL(cuLaunchKernel, reinterpret_cast<CUfunction>(code.kernel), 512, 1, 1, 128, 1, 1, 0, stream,
         a.pointers.data(), nullptr);
    CALL(cuLaunchCooperativeKernel, code.add, 4, 1, 1, 128, 1, 1, 0, stream, a.pointers.data());
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    CUlaunchConfig config{};
    config.gridDimX = 4;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 64;
    config.hStream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CALL(cuLaunchKernelEx, &config, code.add, a.pointers.data(), nullptr);
    config.numAttrs = 0;
    CALL(cuLaunchKernelEx, &config, code.add, nullptr, a.extra.data());
    CALL(cuLaunchKernelEx, nullptr, code.add, a.pointers.data(), nullptr);
    CALL(cuLaunchKernelEx, &config, nullptr, a.pointers.data(), nullptr);
    config.blockDimX = 5000;
    CALL(cuLaunchKernelEx, &config, code.add, a.pointers.data(), nullptr);
    CALL(cuLaunchKernel, code.add, 0, 1, 1, 128, 1, 1, 0, stream, a.pointers.data(), nullptr);
    CALL(cuLaunchKernel, code.add, 1, 1, 1, 2048, 1, 1, 0, stream, a.pointers.data(), nullptr);
    CALL(cuLaunchKernel, code.add, 1, 1, 1, 32, 1, 1, 1 << 30, stream, a.pointers.data(), nullptr);
    CALL(cuLaunchKernel, nullptr, 1, 1, 1, 32, 1, 1, 0, stream, a.pointers.data(), nullptr);
    CALL(cuLaunchCooperativeKernel, nullptr, 1, 1, 1, 32, 1, 1, 0, stream, a.pointers.data());
    CALL(cuLaunchCooperativeKernel, code.add, 1 << 20, 1, 1, 128, 1, 1, 0, stream, a.pointers.data());
    CALL(cuStreamSynchronize, stream);
    value("first", word_at(p));
    value("at 300", word_at(p + 4 * 300));
    value("past the end", word_at(p + 4 * (1 << 16)));
    // An address in the middle, and memory of both sizes.
    CUdeviceptr small = 0;
    CALL(cuMemAlloc, &small, kSmall);
    CALL(cuMemsetD32, small, 5, kSmall / 4);
    Arguments middle(p + kBig / 2, 8, 7), little(small + 16, 4, 9);
    CALL(cuLaunchKernel, code.add, 1, 1, 1, 32, 1, 1, 0, nullptr, middle.pointers.data(), nullptr);
    CALL(cuLaunchKernel, code.add, 1, 1, 1, 32, 1, 1, 0, nullptr, little.pointers.data(), nullptr);
    CALL(cuStreamSynchronize, nullptr);
    value("middle", word_at(p + kBig / 2));
    value("little", word_at(small + 16));
    // Through an address that only the module's global knows.
    CUdeviceptr table = 0;
    size_t bytes = 0;
    CALL(cuModuleGetGlobal, &table, &bytes, code.module, "table");
    value("global's bytes", bytes);
    CALL(cuModuleGetGlobal, &table, nullptr, code.module, "nothing");
    CALL(cuMemcpyHtoD, table, &other, sizeof other);
    CALL(cuMemsetD32, p, 3, kBig / 4);
    unsigned v = 4;
    void* pointers[] = {&v};
    CALL(cuLaunchKernel, code.by_global, 1, 1, 1, 1, 1, 1, 0, nullptr, pointers, nullptr);
    value("through the global", word_at(other));
    CALL(cuLibraryGetGlobal, &table, &bytes, code.library, "table");
    CALL(cuLibraryGetGlobal, &table, &bytes, code.library, "nothing");
    CALL(cuMemFree, small);
    CALL(cuMemFree, p);
    CALL(cuMemFree, other);
}

void graphs(const Code& code, CUcontext context, CUstream stream) {
    CUdeviceptr p = 0, q = 0;
    CALL(cuMemAlloc, &p, kBig);
    CALL(cuMemAlloc, &q, kBig);
    CUgraph graph = nullptr, child = nullptr;
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphCreate, nullptr, 0);
    CALL(cuGraphCreate, &child, 0);
    CUDA_MEMSET_NODE_PARAMS set{};
    set.dst = p;
    set.value = 40;
    set.elementSize = 4;
    set.width = kBig / 4;
    set.height = 1;
    CUgraphNode set_node = nullptr, kernel_node = nullptr, copy_node = nullptr, child_node = nullptr;
    CALL(cuGraphAddMemsetNode, &set_node, graph, nullptr, 0, &set, context);
    CALL(cuGraphAddMemsetNode, &set_node, nullptr, nullptr, 0, &set, context);
    Arguments a(p, 4096, 2);
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = code.add;
    kernel.gridDimX = 32;
    kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.blockDimX = 128;
    kernel.extra = a.extra.data();
    CALL(cuGraphAddKernelNode, &kernel_node, graph, &set_node, 1, &kernel);
    CALL(cuGraphAddKernelNode, &kernel_node, graph, &set_node, 1, nullptr);
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = p;
    copy.dstDevice = q;
    copy.WidthInBytes = kBig;
    copy.Height = copy.Depth = 1;
    CALL(cuGraphAddMemcpyNode, &copy_node, graph, &kernel_node, 1, &copy, context);
    set.dst = q;
    set.value = 1;
    set.width = 4;
    CUgraphNode in_child = nullptr;
    CALL(cuGraphAddMemsetNode, &in_child, child, nullptr, 0, &set, context);
    CALL(cuGraphAddChildGraphNode, &child_node, graph, &copy_node, 1, child);
    CUgraphExec exec = nullptr;
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CALL(cuGraphInstantiateWithFlags, &exec, nullptr, 0);
    for (int i = 0; i < 2; ++i) {
        CALL(cuGraphLaunch, exec, stream);
        CALL(cuStreamSynchronize, stream);
        value("child's", word_at(q));
        value("kernel's", word_at(q + 4 * 100));
        value("memset's", word_at(q + kBig - 4));
    }
    a.block.v = 11;
    CALL(cuGraphExecKernelNodeSetParams, exec, kernel_node, &kernel);
    CALL(cuGraphExecKernelNodeSetParams, exec, kernel_node, nullptr);
    CALL(cuGraphExecKernelNodeSetParams, exec, set_node, &kernel);
    set.dst = p;
    set.value = 60;
    set.width = kBig / 4;
    CALL(cuGraphExecMemsetNodeSetParams, exec, set_node, &set, context);
    CALL(cuGraphExecMemcpyNodeSetParams, exec, copy_node, &copy, context);
    CALL(cuGraphExecChildGraphNodeSetParams, exec, child_node, child);
    CALL(cuGraphLaunch, exec, stream);
    CALL(cuStreamSynchronize, stream);
    value("kernel's", word_at(q + 4 * 100));
    value("memset's", word_at(q + kBig - 4));
    CUgraphExecUpdateResultInfo info{};
    CALL(cuGraphExecUpdate, exec, graph, &info);
    value("update", info.result);
    CALL(cuGraphLaunch, exec, nullptr);
    CALL(cuStreamSynchronize, nullptr);
    value("kernel's", word_at(q + 4 * 100));
    CALL(cuGraphExecDestroy, exec);
    CALL(cuGraphLaunch, exec, stream);
    CALL(cuGraphDestroy, graph);
    CALL(cuGraphDestroy, child);
    CALL(cuGraphDestroy, nullptr);

    // Captured: a launch, a copy, memory of the graph's own.
    // The legacy stream cannot be captured, a thread's own can.
    if (CALL(cuStreamBeginCapture, nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS) {
        CALL(cuStreamEndCapture, nullptr, &graph);
        CALL(cuGraphDestroy, graph);
    }
    CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUdeviceptr own = 0;
    CALL(cuMemAllocAsync, &own, kBig, stream);
    CALL(cuMemsetD32Async, own, 70, kBig / 4, stream);
    Arguments b(own, 4096, 3);
    CALL(cuLaunchKernel, code.add, 32, 1, 1, 128, 1, 1, 0, stream, b.pointers.data(), nullptr);
    CALL(cuMemcpyDtoDAsync, q, own, kBig, stream);
    CALL(cuMemFreeAsync, own, stream);
    CUstreamCaptureStatus status{};
    CALL(cuStreamIsCapturing, stream, &status);
    value("status", status);
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CALL(cuGraphLaunch, exec, stream);
    CALL(cuStreamSynchronize, stream);
    value("captured", word_at(q));
    CALL(cuGraphExecDestroy, exec);
    CALL(cuGraphDestroy, graph);
    // A capture that a forbidden call spoils.
    CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CALL(cuMemsetD32Async, q, 1, 1, stream);
    CALL(cuStreamSynchronize, stream);
    CALL(cuMemsetD32Async, q, 1, 1, stream);
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuMemFree, p);
    CALL(cuMemFree, q);
}

void pools(int device, CUstream stream) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    CUmemoryPool pool = nullptr, standard = nullptr;
    CALL(cuMemPoolCreate, &pool, &props);
    CALL(cuMemPoolCreate, nullptr, &props);
    CALL(cuDeviceGetDefaultMemPool, &standard, device);
    cuuint64_t keep = 1 << 20;
    CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    CUdeviceptr p = 0, q = 0;
    CALL(cuMemAllocFromPoolAsync, &p, kBig, pool, stream);
    CALL(cuMemAllocFromPoolAsync, &q, kBig, nullptr, stream);
    CALL(cuMemAllocFromPoolAsync, nullptr, kBig, pool, stream);
    CALL(cuMemAllocFromPoolAsync, &q, kSmall, pool, stream);
    CALL(cuMemsetD32Async, p, 8, kBig / 4, stream);
    CALL(cuMemsetD32Async, q, 9, kSmall / 4, stream);
    CALL(cuStreamSynchronize, stream);
    value("word", word_at(p + kBig - 4));
    value("word", word_at(q));
    CALL(cuMemFreeAsync, q, stream);
    CALL(cuMemFreeAsync, p, stream);
    CALL(cuMemFreeAsync, p + 4096, stream);
    CALL(cuStreamSynchronize, stream);
    CALL(cuMemPoolTrimTo, pool, 0);
    CALL(cuMemPoolDestroy, pool);
    CALL(cuDeviceSetMemPool, device, nullptr);
}

void on_host(void* user) {
    ++*static_cast<unsigned*>(user);
}

void streams(CUstream stream) {
    CUdeviceptr p = 0;
    CALL(cuMemAlloc, &p, kBig);
    CALL(cuMemsetD32, p, 0, kBig / 4);
    CALL(cuStreamWriteValue32, stream, p, 5, 0);
    CALL(cuStreamWriteValue64, stream, p + 8, 6, 0);
    CALL(cuStreamWaitValue32, stream, p, 5, CU_STREAM_WAIT_VALUE_EQ);
    CALL(cuStreamWaitValue64, stream, p + 8, 6, CU_STREAM_WAIT_VALUE_GEQ);
    CALL(cuStreamWriteValue32, stream, p + 1, 5, 0);
    CALL(cuStreamWriteValue32, stream, CUdeviceptr{0}, 5, 0);
    CUstreamBatchMemOpParams list[2] = {};
    list[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    list[0].writeValue.address = p + 16;
    list[0].writeValue.value = 7;
    list[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    list[1].waitValue.address = p + 16;
    list[1].waitValue.value = 7;
    list[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    CALL(cuStreamBatchMemOp, stream, 2, list, 0);
    CALL(cuStreamBatchMemOp, stream, 2, nullptr, 0);
    unsigned called = 0;
    CALL(cuLaunchHostFunc, stream, on_host, &called);
    CALL(cuLaunchHostFunc, stream, nullptr, &called);
    CALL(cuStreamSynchronize, stream);
    value("called", called);
    value("written", word_at(p));
    value("written", word_at(p + 8));
    value("written", word_at(p + 16));
    CUevent start = nullptr, end = nullptr;
    CALL(cuEventCreate, &start, CU_EVENT_DEFAULT);
    CALL(cuEventCreate, &end, CU_EVENT_DISABLE_TIMING);
    CALL(cuEventRecord, start, stream);
    CALL(cuEventRecord, nullptr, stream);
    CALL(cuEventSynchronize, start);
    CALL(cuEventQuery, start);
    float ms = 0;
    CALL(cuEventElapsedTime, &ms, start, end);
    CALL(cuEventDestroy, start);
    CALL(cuEventDestroy, end);
    CALL(cuEventDestroy, end);
    CUstream high = nullptr;
    int least = 0, greatest = 0;
    CALL(cuCtxGetStreamPriorityRange, &least, &greatest);
    CALL(cuStreamCreateWithPriority, &high, CU_STREAM_NON_BLOCKING, greatest);
    CALL(cuMemsetD2D16Async, p, 512, 3, 100, 7, high);
    CALL(cuMemsetD2D32Async, p, 1, 3, 100, 7, high);
    CALL(cuStreamQuery, nullptr);
    CALL(cuStreamSynchronize, high);
    CALL(cuStreamDestroy, high);
    CALL(cuStreamDestroy, high);
    value("set", word_at(p + 512));
    CALL(cuMemFree, p);
}

/// Host memory, managed memory, handles for others.
void other_memory() {
    void *pinned = nullptr, *mapped = nullptr;
    CALL(cuMemHostAlloc, &pinned, kBig, CU_MEMHOSTALLOC_DEVICEMAP);
    CALL(cuMemAllocHost, &mapped, kSmall);
    CUdeviceptr p = 0, device = 0;
    CALL(cuMemHostGetDevicePointer, &device, pinned, 0);
    CALL(cuMemsetD32, device, 12, kBig / 4);
    CALL(cuStreamSynchronize, nullptr);
    value("host sees", static_cast<unsigned*>(pinned)[99]);
    CALL(cuMemAlloc, &p, kBig);
    CALL(cuMemcpyHtoDAsync, p, pinned, kBig, nullptr);
    CALL(cuStreamSynchronize, nullptr);
    value("copied", word_at(p + 396));
    CALL(cuMemFree, device);
    CALL(cuMemFreeHost, mapped);
    CALL(cuMemFreeHost, pinned);
    CALL(cuMemFreeHost, pinned);
    std::vector<unsigned char> host(kBig + 4096);
    auto* aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(host.data()) + 4095) &
                                            ~std::uintptr_t{4095});
    CALL(cuMemHostRegister, aligned, kBig, 0);
    CALL(cuMemHostRegister, aligned, kBig, 0);
    CALL(cuMemcpyDtoHAsync, aligned, p, kBig, nullptr);
    CALL(cuStreamSynchronize, nullptr);
    value("sum", sum(host) != 0);
    CALL(cuMemHostUnregister, aligned);
    CALL(cuMemHostUnregister, aligned);
    CUdeviceptr managed = 0;
    CALL(cuMemAllocManaged, &managed, kBig, CU_MEM_ATTACH_GLOBAL);
    CALL(cuMemAllocManaged, &managed, kBig, 77);
    CALL(cuMemsetD32, managed, 21, kBig / 4);
    CALL(cuStreamSynchronize, nullptr);
    value("managed", *reinterpret_cast<unsigned*>(managed));
    CALL(cuMemcpyDtoD, p, managed, kBig);
    value("from managed", word_at(p));
    CALL(cuMemFree, managed);
    CUipcMemHandle handle{};
    CALL(cuIpcGetMemHandle, nullptr, p);
    CALL(cuIpcGetMemHandle, &handle, CUdeviceptr{1} << 44);
    CALL(cuIpcOpenMemHandle, &managed, handle, 0);
    CALL(cuIpcCloseMemHandle, managed);
    CALL(cuMemFree, p);
}

/// A second device, where there is one: copies between the two, and access from one to the other.
void devices(CUcontext context) {
    CUcontext second = nullptr;
    int can = -1;
    CALL(cuDeviceCanAccessPeer, &can, 0, 1);
    if (CALL(cuDevicePrimaryCtxRetain, &second, 1) != CUDA_SUCCESS) return;
    CUdeviceptr here = 0, there = 0;
    CALL(cuMemAlloc, &here, kBig);
    CALL(cuMemsetD32, here, 31, kBig / 4);
    CALL(cuCtxPushCurrent, second);
    CALL(cuMemAlloc, &there, kBig);
    CALL(cuMemcpyPeer, there, second, here, context, kBig);
    CALL(cuMemcpyPeer, there, nullptr, here, context, kBig);
    CALL(cuMemcpyPeerAsync, there, second, here, context, 4096, nullptr);
    CALL(cuStreamSynchronize, nullptr);
    value("there", word_at(there + kBig - 4));
    CALL(cuMemsetD32, there, 32, kBig / 4);
    CALL(cuStreamSynchronize, nullptr);
    CALL(cuCtxPopCurrent, &second);
    CALL(cuCtxEnablePeerAccess, second, 1);
    CALL(cuCtxEnablePeerAccess, context, 0);
    CALL(cuCtxEnablePeerAccess, nullptr, 0);
    CALL(cuCtxEnablePeerAccess, second, 0);
    CALL(cuCtxEnablePeerAccess, second, 0);
    CALL(cuMemsetD32, there, 33, 4);
    CUDA_MEMCPY3D_PEER peer{};
    peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    peer.srcDevice = there;
    peer.srcContext = second;
    peer.dstDevice = here;
    peer.dstContext = context;
    peer.WidthInBytes = 4096;
    peer.Height = peer.Depth = 1;
    CALL(cuMemcpy3DPeer, &peer);
    CALL(cuMemcpy3DPeerAsync, &peer, nullptr);
    CALL(cuMemcpy3DPeer, nullptr);
    CALL(cuStreamSynchronize, nullptr);
    value("back", word_at(here));
    value("back", word_at(here + 64));
    CALL(cuCtxDisablePeerAccess, second);
    CALL(cuCtxDisablePeerAccess, second);
    CALL(cuMemFree, here);
    CALL(cuCtxSetCurrent, second);
    CALL(cuMemFree, there);
    CALL(cuCtxSetCurrent, context);
    CALL(cuDevicePrimaryCtxRelease, 1);
}

/// Contexts of old kinds, and one that a kernel breaks.
void contexts(CUcontext primary) {
    CUcontext own = nullptr, same = nullptr, popped = nullptr;
    CALL(cuCtxCreate, &own, nullptr, 0, 0);
    CUdeviceptr p = 0;
    CALL(cuMemAlloc, &p, kBig);
    CALL(cuMemsetD8, p, 1, kBig);
    CALL(cuCtxAttach, &same, 0);
    CALL(cuCtxAttach, &same, 1);
    CALL(cuCtxDetach, primary);
    CALL(cuCtxDetach, own);
    value("still there", word_at(p));
    CALL(cuCtxDetach, own);
    CALL(cuCtxDetach, own);
    CALL(cuMemFree, p);
    CALL(cuCtxCreate, &own, nullptr, 0, 0);
    CALL(cuCtxPopCurrent, &popped);
    CALL(cuCtxSetCurrent, primary);
    CALL(cuCtxDestroy, own);
    CALL(cuCtxDestroy, own);
    CALL(cuCtxPushCurrent, own);
    // An address that nobody has: an error that stays.
    const Code code;
    Arguments a(CUdeviceptr{1} << 44, 1, 1);
    CALL(cuMemAlloc, &p, kBig);
    CALL(cuLaunchKernel, code.add, 1, 1, 1, 1, 1, 1, 0, nullptr, a.pointers.data(), nullptr);
    CALL(cuStreamSynchronize, nullptr);
    CALL(cuMemsetD8, p, 1, 8);
    CALL(cuMemAlloc, &p, kBig);
    CALL(cuMemFree, p);
    CALL(cuStreamCreate, nullptr, 0);
    CALL(cuDevicePrimaryCtxReset, 0);
    CALL(cuMemAlloc, &p, kBig);
}

}  // namespace

int main(int argc, char** argv) {
    if (!open_driver(argc, argv)) return 2;
    CALL(cuInit, 0);
    CUcontext context = nullptr;
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    CUstream stream = nullptr;
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    const Code code;
    launches(code, stream);
    graphs(code, context, stream);
    pools(0, stream);
    streams(stream);
    other_memory();
    devices(context);
    code.unload();
    CALL(cuStreamDestroy, stream);
    contexts(context);
    return 0;
}
