// Nodes of an executable graph as calls on a stream.
#include <algorithm>

#include "interpose/runtime_graphs.h"

namespace swapadvisor {

NodeArguments::NodeArguments(GraphNode& node) : bytes(node.storage.size()) {
    for (std::size_t at : node.offsets) pointers.push_back(node.storage.data() + at);
    extra[1] = node.storage.data();
    extra[3] = &bytes;
    params_form = node.packed ? nullptr : pointers.data();
    extra_form = node.packed ? extra : nullptr;
    static void* none = nullptr;
    if (!node.packed && pointers.empty()) params_form = &none;
}

NodeOp node_op(RuntimeState& state, const GraphNode& node) {
    NodeOp op;
    if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
        FunctionInfo& info = state.functions->info(node.launch.function);
        op.kind = OpKind::kernel;
        op.function = info.id;
        op.what = info.name.c_str();
        std::copy_n(node.launch.grid, 3, op.geometry);
        std::copy_n(node.launch.block, 3, op.geometry + 3);
        if (!info.told && !node.uses.empty()) state.tell_name(node.uses.front()->owner, info);
    } else if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
        const bool to = device_side(node.copy.dstMemoryType, node.copy.dstDevice) != 0;
        const bool from = device_side(node.copy.srcMemoryType, node.copy.srcDevice) != 0;
        op.kind = to && from ? OpKind::memcpy_d2d : to ? OpKind::memcpy_h2d : OpKind::memcpy_d2h;
        op.geometry[0] = static_cast<unsigned>(node.copy.WidthInBytes * node.copy.Height * node.copy.Depth);
        op.what = "a graph's copy";
    } else if (node.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
        op.what = "a graph's memory operation";
    }
    return op;
}

namespace {

CUresult launch_kernel(const DriverApi& api, GraphNode& node, CUstream stream) {
    NodeArguments arguments(node);
    const KernelLaunch& l = node.launch;
    if (node.attributes.empty())
        return api.cuLaunchKernel_(l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1],
                                   l.block[2], l.shared_bytes, stream, arguments.params_form,
                                   arguments.extra_form);
    CUlaunchConfig config{};
    config.gridDimX = l.grid[0];
    config.gridDimY = l.grid[1];
    config.gridDimZ = l.grid[2];
    config.blockDimX = l.block[0];
    config.blockDimY = l.block[1];
    config.blockDimZ = l.block[2];
    config.sharedMemBytes = l.shared_bytes;
    config.hStream = stream;
    config.attrs = node.attributes.data();
    config.numAttrs = static_cast<unsigned>(node.attributes.size());
    return api.cuLaunchKernelEx_(&config, l.function, arguments.params_form, arguments.extra_form);
}

CUresult fill(const DriverApi& api, const CUDA_MEMSET_NODE_PARAMS& f, CUstream stream) {
    const std::size_t pitch = f.height > 1 ? f.pitch : f.width * f.elementSize;
    if (f.elementSize == 1)
        return api.cuMemsetD2D8Async_(f.dst, pitch, static_cast<unsigned char>(f.value), f.width, f.height,
                                      stream);
    if (f.elementSize == 2)
        return api.cuMemsetD2D16Async_(f.dst, pitch, static_cast<unsigned short>(f.value), f.width, f.height,
                                       stream);
    return api.cuMemsetD2D32Async_(f.dst, pitch, f.value, f.width, f.height, stream);
}

}  // namespace

CUresult issue_node(RuntimeState& state, GraphNode& node, CUstream stream) {
    const DriverApi& api = state.api;
    switch (node.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
            return launch_kernel(api, node, stream);
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return api.cuMemcpy3DAsync_(&node.copy, stream);
        case CU_GRAPH_NODE_TYPE_MEMSET:
            return fill(api, node.fill, stream);
        case CU_GRAPH_NODE_TYPE_HOST:
            return api.cuLaunchHostFunc_(stream, node.host.fn, node.host.userData);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return api.cuEventRecord_(node.event, stream);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            return api.cuStreamWaitEvent_(stream, node.event, CU_EVENT_WAIT_DEFAULT);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
            return api.cuStreamBatchMemOp_(stream, static_cast<unsigned>(node.memory_operations.size()),
                                           node.memory_operations.data(), 0);
        default:
            return CUDA_SUCCESS;
    }
}

}  // namespace swapadvisor
