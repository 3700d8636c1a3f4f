#include "interpose/runtime_graphs.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "interpose/log.h"
#include "interpose/runtime_plan.h"

namespace swapadvisor {
namespace {

bool is_special_launch(const DriverApi& api, CUgraphNode node) {
    if (api.cuGraphKernelNodeGetAttribute_ == nullptr) return false;
    CUkernelNodeAttrValue value{};
    if (api.cuGraphKernelNodeGetAttribute_(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value) == CUDA_SUCCESS &&
        value.cooperative != 0)
        return true;
    value = {};
    return api.cuGraphKernelNodeGetAttribute_(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value) ==
               CUDA_SUCCESS &&
           value.clusterDim.x * value.clusterDim.y * value.clusterDim.z > 1;
}

/// Keeps a copy of the argument bytes. False if their extent is unknown.
bool keep_launch(FunctionTable& functions, GraphNode& node, const KernelLaunch& launch) {
    node.launch = launch;
    node.storage.clear();
    node.offsets.clear();
    node.packed = false;
    if (launch.params != nullptr) {
        const FunctionInfo& info = functions.info(launch.function);
        if (!info.layout_known) return false;
        for (const FunctionInfo::Param& param : info.params) {
            const std::size_t at = (node.storage.size() + 15) / 16 * 16;
            node.storage.resize(at + param.bytes);
            std::memcpy(node.storage.data() + at, launch.params[node.offsets.size()], param.bytes);
            node.offsets.push_back(at);
        }
    } else if (launch.extra != nullptr) {
        const void* buffer = nullptr;
        std::size_t bytes = 0;
        for (void** entry = launch.extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
            if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER)
                buffer = entry[1];
            else if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE)
                bytes = *static_cast<std::size_t*>(entry[1]);
            else
                return false;
        }
        node.storage.resize(bytes);
        if (bytes != 0) std::memcpy(node.storage.data(), buffer, bytes);
        node.packed = true;
    }
    node.launch.params = nullptr;
    node.launch.extra = nullptr;
    return true;
}

/// Argument pointers into a node's storage, in the form that the launch had.
struct Arguments {
    explicit Arguments(GraphNode& node) : bytes(node.storage.size()) {
        for (std::size_t at : node.offsets) pointers.push_back(node.storage.data() + at);
        extra[1] = node.storage.data();
        extra[3] = &bytes;
        params_form = node.packed ? nullptr : pointers.data();
        extra_form = node.packed ? extra : nullptr;
        static void* none = nullptr;
        if (!node.packed && pointers.empty()) params_form = &none;
    }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;
    std::vector<void*> pointers;
    std::size_t bytes;
    void* extra[5] = {CU_LAUNCH_PARAM_BUFFER_POINTER, nullptr, CU_LAUNCH_PARAM_BUFFER_SIZE, nullptr,
                      CU_LAUNCH_PARAM_END};
    void** params_form;
    void** extra_form;
};

CUdeviceptr device_side(CUmemorytype type, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? device : 0;
}

struct Reader {
    RuntimeState& state;
    GraphWork& work;

    /// True if there are buffers that no node names any more.
    bool note_uses(GraphNode& node) {
        std::vector<Buffer*> former;
        former.swap(node.uses);
        auto add = [&](Buffer* buffer) {
            if (buffer != nullptr && std::find(node.uses.begin(), node.uses.end(), buffer) == node.uses.end())
                node.uses.push_back(buffer);
        };
        auto use = [&](std::uint64_t address) { add(state.find(address)); };
        if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
            Arguments arguments(node);
            state.named_by(state.functions->info(node.launch.function), arguments.params_form,
                           arguments.extra_form, add);
        } else if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
            use(device_side(node.copy.dstMemoryType, node.copy.dstDevice));
            use(device_side(node.copy.srcMemoryType, node.copy.srcDevice));
        } else if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) {
            use(node.fill.dst);
        }
        for (Buffer* buffer : node.uses) work.name(buffer);
        bool any = false;
        for (Buffer* buffer : former) any |= work.unname(buffer);
        return any;
    }

    void read(CUgraph graph) {
        const DriverApi& api = state.api;
        std::size_t count = 0;
        if (api.cuGraphGetNodes_ == nullptr || api.cuGraphGetNodes_(graph, nullptr, &count) != CUDA_SUCCESS) {
            work.unread = work.opaque = true;
            return;
        }
        std::vector<CUgraphNode> nodes(count);
        if (count != 0) api.cuGraphGetNodes_(graph, nodes.data(), &count);
        nodes.resize(count);
        for (CUgraphNode node : in_order(nodes)) read_node(node);
    }

    std::vector<CUgraphNode> in_order(const std::vector<CUgraphNode>& nodes) {
        std::unordered_map<CUgraphNode, std::vector<CUgraphNode>> before;
        for (CUgraphNode node : nodes) {
            std::size_t count = 0;
            if (state.api.cuGraphNodeGetDependencies_ == nullptr ||
                state.api.cuGraphNodeGetDependencies_(node, nullptr, nullptr, &count) != CUDA_SUCCESS)
                continue;
            std::vector<CUgraphNode> all(count);
            std::vector<CUgraphEdgeData> edges(count);
            if (count != 0 &&
                state.api.cuGraphNodeGetDependencies_(node, all.data(), edges.data(), &count) != CUDA_SUCCESS)
                work.opaque = true;
            before[node] = std::move(all);
        }
        std::vector<CUgraphNode> ordered;
        std::unordered_map<CUgraphNode, int> seen;
        std::vector<std::pair<CUgraphNode, bool>> stack;
        for (CUgraphNode first : nodes) {
            stack.push_back({first, false});
            while (!stack.empty()) {
                auto [node, done] = stack.back();
                stack.pop_back();
                if (done) {
                    ordered.push_back(node);
                } else if (seen[node]++ == 0) {
                    stack.push_back({node, true});
                    for (CUgraphNode other : before[node]) stack.push_back({other, false});
                }
            }
        }
        return ordered;
    }

    void read_node(CUgraphNode handle) {
        const DriverApi& api = state.api;
        GraphNode node;
        node.node = handle;
        if (api.cuGraphNodeGetType_(handle, &node.type) != CUDA_SUCCESS) {
            work.unread = work.opaque = true;
            return;
        }
        if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
            CUDA_KERNEL_NODE_PARAMS params{};
            if (api.cuGraphKernelNodeGetParams_(handle, &params) != CUDA_SUCCESS) {
                work.unread = work.opaque = true;
                return;
            }
            KernelLaunch launch;
            launch.function =
                params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
            launch.grid[0] = params.gridDimX;
            launch.grid[1] = params.gridDimY;
            launch.grid[2] = params.gridDimZ;
            launch.block[0] = params.blockDimX;
            launch.block[1] = params.blockDimY;
            launch.block[2] = params.blockDimZ;
            launch.shared_bytes = params.sharedMemBytes;
            launch.params = params.kernelParams;
            launch.extra = params.extra;
            if (!keep_launch(*state.functions, node, launch)) work.unread = work.opaque = true;
            if (is_special_launch(api, handle)) work.opaque = true;
        } else if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
            if (api.cuGraphMemcpyNodeGetParams_(handle, &node.copy) != CUDA_SUCCESS)
                work.unread = work.opaque = true;
        } else if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) {
            if (api.cuGraphMemsetNodeGetParams_(handle, &node.fill) != CUDA_SUCCESS)
                work.unread = work.opaque = true;
        } else if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) {
            CUgraph child = nullptr;
            if (api.cuGraphChildGraphNodeGetGraph_(handle, &child) == CUDA_SUCCESS)
                read(child);
            else
                work.unread = work.opaque = true;
            return;
        } else if (node.type != CU_GRAPH_NODE_TYPE_EMPTY) {
            work.opaque = true;
            return;
        }
        note_uses(node);
        work.nodes.push_back(std::move(node));
    }
};

CUresult issue(RuntimeState& state, GraphNode& node, CUstream stream) {
    const DriverApi& api = state.api;
    if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
        Arguments arguments(node);
        const KernelLaunch& l = node.launch;
        return api.cuLaunchKernel_(l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1],
                                   l.block[2], l.shared_bytes, stream, arguments.params_form,
                                   arguments.extra_form);
    }
    if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) return api.cuMemcpy3DAsync_(&node.copy, stream);
    if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) {
        const CUDA_MEMSET_NODE_PARAMS& f = node.fill;
        const std::size_t pitch = f.height > 1 ? f.pitch : f.width * f.elementSize;
        if (f.elementSize == 1)
            return api.cuMemsetD2D8Async_(f.dst, pitch, static_cast<unsigned char>(f.value), f.width,
                                          f.height, stream);
        if (f.elementSize == 2)
            return api.cuMemsetD2D16Async_(f.dst, pitch, static_cast<unsigned short>(f.value), f.width,
                                           f.height, stream);
        return api.cuMemsetD2D32Async_(f.dst, pitch, f.value, f.width, f.height, stream);
    }
    return CUDA_SUCCESS;
}

}  // namespace

void GraphWork::name(Buffer* buffer) {
    if (named[buffer]++ != 0) return;
    uses.push_back(buffer);
    ++buffer->graphs;
}

bool GraphWork::unname(Buffer* buffer) {
    const auto found = named.find(buffer);
    if (found == named.end() || --found->second != 0) return false;
    named.erase(found);
    std::erase(uses, buffer);
    --buffer->graphs;
    return true;
}

void GraphWork::drop_uses() {
    for (Buffer* buffer : uses) --buffer->graphs;
    uses.clear();
    named.clear();
}

void forget_graphs_of(RuntimeState& state, const Residency& residency) {
    state.forget_captures_of(residency);
    for (auto& [exec, work] : state.graphs) {
        std::erase_if(work->uses, [&](Buffer* b) { return b->owner == &residency; });
        std::erase_if(work->named, [&](const auto& entry) { return entry.first->owner == &residency; });
        for (GraphNode& node : work->nodes)
            std::erase_if(node.uses, [&](Buffer* b) { return b->owner == &residency; });
    }
}

void Runtime::graph_instantiated(CUgraphExec exec, CUgraph graph) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    if (state.contexts.empty()) return;
    auto work = std::make_unique<GraphWork>();
    Reader{state, *work}.read(graph);
    if (auto& old = state.graphs[exec]) old->drop_uses();
    state.graphs[exec] = std::move(work);
    state.forget_captured_graph(graph);
    state.finish_deferred_frees();
}

void Runtime::graph_exec_updated(CUgraphExec exec, CUgraph graph) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    auto found = state.graphs.find(exec);
    if (found == state.graphs.end()) return;
    auto work = std::make_unique<GraphWork>();
    Reader{state, *work}.read(graph);
    // Later changes name the nodes of the graph that was instantiated.
    for (std::size_t i = 0; i < work->nodes.size() && i < found->second->nodes.size(); ++i)
        work->nodes[i].node = found->second->nodes[i].node;
    found->second->drop_uses();
    found->second = std::move(work);
    state.finish_deferred_frees();
}

void Runtime::graph_exec_kernel_changed(CUgraphExec exec, CUgraphNode handle, const KernelLaunch& launch) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    auto found = state.graphs.find(exec);
    if (found == state.graphs.end()) return;
    // What the program freed while this graph still named it can go now.
    bool replaced = false;
    for (GraphNode& node : found->second->nodes)
        if (node.node == handle) {
            if (!keep_launch(*state.functions, node, launch))
                found->second->unread = found->second->opaque = true;
            replaced |= Reader{state, *found->second}.note_uses(node);
        }
    if (replaced) state.finish_deferred_frees();
}

void Runtime::graph_exec_copy_changed(CUgraphExec exec, CUgraphNode handle, const CopySpan& destination,
                                      const CopySpan& source) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    auto found = state.graphs.find(exec);
    if (found == state.graphs.end()) return;
    bool replaced = false;
    for (GraphNode& node : found->second->nodes) {
        if (node.node != handle) continue;
        if (destination.pitched || source.pitched) found->second->opaque = true;
        if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) {
            found->second->opaque = true;  // the new value is not known here
            node.fill.dst = destination.address;
            replaced |= Reader{state, *found->second}.note_uses(node);
            continue;
        }
        CUDA_MEMCPY3D& copy = node.copy;
        copy = {};
        copy.dstMemoryType = destination.address != 0 ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        copy.dstDevice = destination.address;
        copy.dstHost = const_cast<void*>(destination.host);
        copy.srcMemoryType = source.address != 0 ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        copy.srcDevice = source.address;
        copy.srcHost = source.host;
        copy.WidthInBytes = source.bytes != 0 ? std::min(destination.bytes, source.bytes) : destination.bytes;
        copy.Height = copy.Depth = 1;
        replaced |= Reader{state, *found->second}.note_uses(node);
    }
    if (replaced) state.finish_deferred_frees();
}

void Runtime::graph_exec_destroyed(CUgraphExec exec) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    auto found = state.graphs.find(exec);
    if (found == state.graphs.end()) return;
    found->second->drop_uses();
    state.graphs.erase(found);
    state.finish_deferred_frees();
}

OpToken Runtime::begin_graph_launch(CUgraphExec exec, CUstream stream, DefaultStream default_stream) {
    RuntimeState& state = RuntimeState::of(this);
    PendingOp* const opened = state.open(false);
    if (opened == nullptr) return {};
    PendingOp& op = *opened;
    auto found = state.graphs.find(exec);
    // A launch into a capture becomes a child node: the outer graph's launch is the op.
    const bool counts = found != state.graphs.end() && !state.is_capturing(stream, default_stream);
    if (counts) {
        if (const CUresult result = state.look_through_copies(*found->second); result != CUDA_SUCCESS)
            return state.fail(op, result, "a graph's copy");
    }
    if (!counts || found->second->uses.empty()) {
        op.busy = false;
        state.mutex.unlock();
        return {};
    }
    GraphWork& work = *found->second;
    bool over = false;
    for (Buffer* buffer : work.uses) over = over || buffer->owner->over_limit();
    if (!over || work.opaque) {
        for (Buffer* buffer : work.uses) op.uses.push_back({buffer, Access::read_write, false});
        const unsigned geometry[6] = {static_cast<unsigned>(work.nodes.size()), 0, 0, 0, 0, 0};
        return state.begin(op, OpKind::graph, work.nodes.size() + 1, geometry, stream, default_stream,
                           "a graph");
    }
    // Node by node: only what one node touches has to be resident at once, and plans can look inside.
    ++state.unrolled_graphs;
    CUstream target = stream;
    if (target == nullptr)
        target = default_stream == DefaultStream::per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    OpToken token;
    token.fail = CUDA_SUCCESS;
    for (GraphNode& node : work.nodes) {
        op.busy = true;
        op.uses.clear();
        unsigned geometry[6] = {};
        OpKind kind = OpKind::memset;
        std::uint64_t function = 0;
        const char* what = "a graph's memset";
        if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
            FunctionInfo& info = state.functions->info(node.launch.function);
            kind = OpKind::kernel;
            function = info.id;
            what = info.name.c_str();
            std::copy_n(node.launch.grid, 3, geometry);
            std::copy_n(node.launch.block, 3, geometry + 3);
            if (!info.told && !node.uses.empty()) state.tell_name(node.uses.front()->owner, info);
        } else if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
            const bool to = device_side(node.copy.dstMemoryType, node.copy.dstDevice) != 0;
            const bool from = device_side(node.copy.srcMemoryType, node.copy.srcDevice) != 0;
            kind = to && from ? OpKind::memcpy_d2d : to ? OpKind::memcpy_h2d : OpKind::memcpy_d2h;
            geometry[0] = static_cast<unsigned>(node.copy.WidthInBytes * node.copy.Height * node.copy.Depth);
            what = "a graph's copy";
        }
        for (Buffer* buffer : node.uses) op.uses.push_back({buffer, Access::read_write, false});
        OpToken inner = state.begin(op, kind, function, geometry, stream, default_stream, what);
        if (inner.fail) return inner;                    // unlocked
        if (inner.state == nullptr) state.mutex.lock();  // touches nothing managed
        const CUresult result = issue(state, node, target);
        if (inner.state != nullptr) state.end(op, result);
        if (result != CUDA_SUCCESS) {
            token.fail = result;
            break;
        }
    }
    op.busy = false;
    state.mutex.unlock();
    return token;
}

}  // namespace swapadvisor
