// Executable graphs: what they touch, and how to issue them node by node when their buffers together would
// not fit. Files: runtime_graphs.cpp (life and launches), graph_reader.cpp (reading what the driver knows, and changes),
// graph_issue.cpp (one node as a call on a stream).
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "interpose/runtime_state.h"

namespace swapadvisor {

struct GraphNode {
    CUgraphNode node = nullptr;  ///< of the graph that was instantiated: later changes name it
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    bool enabled = true;
    KernelLaunch launch;  ///< params/extra point into `storage`
    std::vector<std::byte> storage;
    std::vector<std::size_t>
        offsets;          ///< of each parameter in `storage`; empty: `storage` is an `extra` buffer
    bool packed = false;  ///< `storage` is an `extra` buffer
    std::vector<CUlaunchAttribute> attributes;  ///< of the launch: cooperative, clusters, ...
    CUDA_MEMCPY3D copy{};
    CUDA_MEMSET_NODE_PARAMS fill{};
    CUDA_HOST_NODE_PARAMS host{};
    CUevent event = nullptr;  ///< recorded or waited for
    std::vector<CUstreamBatchMemOpParams> memory_operations;
    std::vector<Buffer*> uses;
};

/// The nodes of a child graph: so many from `first` on. Children of children lie within.
struct ChildGraph {
    CUgraphNode node = nullptr;
    std::size_t first = 0, count = 0;
};

struct GraphWork {
    std::vector<GraphNode> nodes;  ///< in an order that keeps all dependencies
    std::vector<ChildGraph> children;
    bool opaque = false;                               ///< has nodes that cannot be issued one by one
    bool unread = false;                               ///< could not even be read
    bool gated = false;                                ///< has nodes that the program itself lets go on
    std::vector<Buffer*> uses;                         ///< each counted once in Buffer::graphs
    std::unordered_map<Buffer*, std::uint32_t> named;  ///< by how many nodes
    Mark last;  ///< its newest launch: the next one comes after it, whatever the stream

    void name(Buffer* buffer);
    void unname(Buffer* buffer);
    void drop_uses();
};

/// Reads what the driver tells of `graph` into `work`. The order of nodes depends on the edges and their order alone, so that
/// graphs which an executable graph can be updated with come out in the same order.
void read_graph(RuntimeState& state, GraphWork& work, CUgraph graph);
/// Takes over the parameters of `from`, node by node, into `count` nodes from `first` on. False: they are not alike.
bool take_parameters(GraphWork& work, std::size_t first, std::size_t count, GraphWork& from);
/// New parameters of single nodes.
void change_kernel(RuntimeState& state, GraphWork& work, GraphNode& node, const KernelLaunch& launch);
void note_uses(RuntimeState& state, GraphWork& work, GraphNode& node);

inline bool is_gate(const GraphNode& node) {
    return node.type == CU_GRAPH_NODE_TYPE_HOST || node.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP ||
           node.type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
}
/// What an op of this node is for the recorder.
struct NodeOp {
    OpKind kind = OpKind::memset;
    std::uint64_t function = 0;
    unsigned geometry[6] = {};
    const char* what = "a graph's memset";
};
NodeOp node_op(RuntimeState& state, const GraphNode& node);
/// The node as a call on a stream.
CUresult issue_node(RuntimeState& state, GraphNode& node, CUstream stream);
/// Device address of one side of a copy, or 0.
inline CUdeviceptr device_side(CUmemorytype type, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? device : 0;
}
/// Argument pointers into a node's storage, in the form that the launch had.
struct NodeArguments {
    explicit NodeArguments(GraphNode& node);
    NodeArguments(const NodeArguments&) = delete;
    NodeArguments& operator=(const NodeArguments&) = delete;
    std::vector<void*> pointers;
    std::size_t bytes;
    void* extra[5] = {CU_LAUNCH_PARAM_BUFFER_POINTER, nullptr, CU_LAUNCH_PARAM_BUFFER_SIZE, nullptr,
                      CU_LAUNCH_PARAM_END};
    void** params_form;
    void** extra_form;
};

/// The buffers of a context are gone: no graph names them any more.
void forget_graphs_of(RuntimeState& state, const Residency& residency);

}  // namespace swapadvisor
