// Reading executable graphs: what the driver tells of the graph that was instantiated, and what is changed later.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "interpose/runtime_graphs.h"

namespace swapadvisor {
namespace {

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
        if (!packed_arguments(launch.extra, buffer, bytes)) return false;
        node.storage.resize(bytes);
        if (bytes != 0) std::memcpy(node.storage.data(), buffer, bytes);
        node.packed = true;
    }
    node.launch.params = nullptr;
    node.launch.extra = nullptr;
    return true;
}

/// Those attributes of a kernel's node that change what it does or when; a launch of the same kernel gets them all.
constexpr CUlaunchAttributeID kAttributes[] = {
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_PRIORITY,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW};

void read_attributes(const DriverApi& api, GraphNode& node) {
    node.attributes.clear();
    if (api.cuGraphKernelNodeGetAttribute_ == nullptr) return;
    for (CUlaunchAttributeID id : kAttributes) {
        CUlaunchAttribute attribute{};
        attribute.id = id;
        if (api.cuGraphKernelNodeGetAttribute_(node.node, id, &attribute.value) != CUDA_SUCCESS) continue;
        const CUlaunchAttributeValue zero{};
        const auto& value = attribute.value;
        const bool special = id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ? value.cooperative != 0
                             : id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
                                 ? value.clusterDim.x * value.clusterDim.y * value.clusterDim.z > 1
                             : id == CU_LAUNCH_ATTRIBUTE_PRIORITY ? value.priority != 0
                             : id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
                                 ? value.accessPolicyWindow.num_bytes != 0
                                 : std::memcmp(&value, &zero, sizeof(int)) != 0;
        if (special) node.attributes.push_back(attribute);
    }
}

struct Reader {
    RuntimeState& state;
    GraphWork& work;

    void unreadable() { work.unread = work.opaque = true; }

    void read(CUgraph graph) {
        const DriverApi& api = state.api;
        std::size_t count = 0;
        if (api.cuGraphGetNodes_ == nullptr || api.cuGraphGetNodes_(graph, nullptr, &count) != CUDA_SUCCESS)
            return unreadable();
        std::vector<CUgraphNode> nodes(count);
        if (count != 0) api.cuGraphGetNodes_(graph, nodes.data(), &count);
        nodes.resize(count);
        for (CUgraphNode node : in_order(nodes)) read_node(node);
    }

    // Depth first from the nodes that nothing depends on: what comes out depends on the edges, not on the order in which the
    // nodes were added.
    std::vector<CUgraphNode> in_order(const std::vector<CUgraphNode>& nodes) {
        std::unordered_map<CUgraphNode, std::vector<CUgraphNode>> before;
        std::unordered_map<CUgraphNode, int> dependents;
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
            for (CUgraphNode other : all) ++dependents[other];
            before[node] = std::move(all);
        }
        std::vector<CUgraphNode> ordered;
        std::unordered_map<CUgraphNode, int> seen;
        std::vector<std::pair<CUgraphNode, bool>> stack;
        for (CUgraphNode first : nodes) {
            if (dependents[first] != 0) continue;
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
        if (api.cuGraphNodeGetType_(handle, &node.type) != CUDA_SUCCESS) return unreadable();
        if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) return read_child(handle);
        if (!read_parameters(node)) unreadable();
        note_uses(state, work, node);
        work.gated |= is_gate(node);
        work.nodes.push_back(std::move(node));
    }

    void read_child(CUgraphNode handle) {
        CUgraph child = nullptr;
        if (state.api.cuGraphChildGraphNodeGetGraph_(handle, &child) != CUDA_SUCCESS) return unreadable();
        const std::size_t first = work.nodes.size(), at = work.children.size();
        work.children.push_back({handle, first, 0});
        read(child);
        work.children[at].count = work.nodes.size() - first;
    }

    /// False: what it touches is unknown.
    bool read_parameters(GraphNode& node) {
        const DriverApi& api = state.api;
        const CUgraphNode handle = node.node;
        switch (node.type) {
            case CU_GRAPH_NODE_TYPE_EMPTY:
                return true;
            case CU_GRAPH_NODE_TYPE_KERNEL:
                return read_kernel(node);
            case CU_GRAPH_NODE_TYPE_MEMCPY:
                return api.cuGraphMemcpyNodeGetParams_(handle, &node.copy) == CUDA_SUCCESS;
            case CU_GRAPH_NODE_TYPE_MEMSET:
                return api.cuGraphMemsetNodeGetParams_(handle, &node.fill) == CUDA_SUCCESS;
            // These touch no memory of the program's buffers; where they cannot be read the graph goes in one piece.
            case CU_GRAPH_NODE_TYPE_HOST:
                if (api.cuGraphHostNodeGetParams_ == nullptr || api.cuLaunchHostFunc_ == nullptr ||
                    api.cuGraphHostNodeGetParams_(handle, &node.host) != CUDA_SUCCESS)
                    work.opaque = true;
                return true;
            case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
                if (api.cuGraphEventRecordNodeGetEvent_ == nullptr ||
                    api.cuGraphEventRecordNodeGetEvent_(handle, &node.event) != CUDA_SUCCESS)
                    work.opaque = true;
                return true;
            case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
                if (api.cuGraphEventWaitNodeGetEvent_ == nullptr ||
                    api.cuGraphEventWaitNodeGetEvent_(handle, &node.event) != CUDA_SUCCESS)
                    work.opaque = true;
                return true;
            case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
                return read_memory_operations(node);
            case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
            case CU_GRAPH_NODE_TYPE_MEM_FREE:
            case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
            case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
                work.opaque = true;  // the memory is the graph's own
                return true;
            default:
                return false;
        }
    }

    bool read_kernel(GraphNode& node) {
        CUDA_KERNEL_NODE_PARAMS params{};
        if (state.api.cuGraphKernelNodeGetParams_(node.node, &params) != CUDA_SUCCESS) return false;
        KernelLaunch launch;
        launch.function = params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
        launch.grid[0] = params.gridDimX;
        launch.grid[1] = params.gridDimY;
        launch.grid[2] = params.gridDimZ;
        launch.block[0] = params.blockDimX;
        launch.block[1] = params.blockDimY;
        launch.block[2] = params.blockDimZ;
        launch.shared_bytes = params.sharedMemBytes;
        launch.params = params.kernelParams;
        launch.extra = params.extra;
        read_attributes(state.api, node);
        if (!node.attributes.empty() && state.api.cuLaunchKernelEx_ == nullptr) work.opaque = true;
        return keep_launch(*state.functions, node, launch);
    }

    bool read_memory_operations(GraphNode& node) {
        const DriverApi& api = state.api;
        CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
        if (api.cuGraphBatchMemOpNodeGetParams_ == nullptr || api.cuStreamBatchMemOp_ == nullptr ||
            api.cuGraphBatchMemOpNodeGetParams_(node.node, &params) != CUDA_SUCCESS)
            return false;
        node.memory_operations.assign(params.paramArray, params.paramArray + params.count);
        return true;
    }
};

}  // namespace

void read_graph(RuntimeState& state, GraphWork& work, CUgraph graph) {
    Reader{state, work}.read(graph);
}

void note_uses(RuntimeState& state, GraphWork& work, GraphNode& node) {
    std::vector<Buffer*> former;
    former.swap(node.uses);
    const auto add = [&](Buffer* buffer) {
        if (buffer != nullptr && std::find(node.uses.begin(), node.uses.end(), buffer) == node.uses.end())
            node.uses.push_back(buffer);
    };
    const auto use = [&](std::uint64_t address) { add(address != 0 ? state.find(address) : nullptr); };
    if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
        NodeArguments arguments(node);
        state.named_by(state.functions->info(node.launch.function), arguments.params_form,
                       arguments.extra_form, add);
    } else if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
        use(device_side(node.copy.dstMemoryType, node.copy.dstDevice));
        use(device_side(node.copy.srcMemoryType, node.copy.srcDevice));
    } else if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) {
        use(node.fill.dst);
    } else if (node.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
        for (const CUstreamBatchMemOpParams& operation : node.memory_operations)
            use(operation.waitValue.address);
    }
    for (Buffer* buffer : node.uses) work.name(buffer);
    for (Buffer* buffer : former) work.unname(buffer);
}

void change_kernel(RuntimeState& state, GraphWork& work, GraphNode& node, const KernelLaunch& launch) {
    if (!keep_launch(*state.functions, node, launch)) work.unread = work.opaque = true;
    note_uses(state, work, node);
}

bool take_parameters(GraphWork& work, std::size_t first, std::size_t count, GraphWork& from) {
    if (from.nodes.size() != count || first + count > work.nodes.size()) return false;
    for (std::size_t i = 0; i < count; ++i)
        if (from.nodes[i].type != work.nodes[first + i].type) return false;
    work.opaque |= from.opaque;
    work.unread |= from.unread;
    for (std::size_t i = 0; i < count; ++i) {
        GraphNode& node = work.nodes[first + i];
        GraphNode fresh = std::move(from.nodes[i]);
        for (Buffer* buffer : fresh.uses) work.name(buffer);
        for (Buffer* buffer : node.uses) work.unname(buffer);
        fresh.node = node.node;
        fresh.enabled = node.enabled;
        node = std::move(fresh);
    }
    from.drop_uses();
    return true;
}

}  // namespace swapadvisor
