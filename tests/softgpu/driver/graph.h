// Graphs: nodes with work and edges, executables, launches.
#pragma once

#include <list>

#include "tests/softgpu/driver/work.h"

struct CUuserObject_st {
    CUhostFn destroy = nullptr;
    void* user = nullptr;
    unsigned references = 0;
};

struct CUgraphNode_st {
    softgpu::Graph* graph = nullptr;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    softgpu::Work work;
    std::vector<CUgraphNode_st*> dependencies, dependents;
    std::vector<CUgraphEdgeData> edges;  ///< by dependency
    std::uint64_t origin = 0;            ///< id of the node this is a clone of, for FindInClone and updates
    std::uint64_t id = 0;
    bool enabled = true;
    CUDA_KERNEL_NODE_PARAMS kernel_view{};
};

namespace softgpu {

struct Graph {
    std::uint64_t id = 0;
    std::list<std::unique_ptr<CUgraphNode_st>> nodes;
    std::map<CUuserObject_st*, unsigned> user_objects;
    unsigned handles = 1;
    bool child = false;  ///< owned by a child-graph node

    Graph();
    ~Graph();
    CUgraphNode_st* add(Work work, const std::vector<CUgraphNode_st*>& after);
    void remove(CUgraphNode_st* node);
    /// Deep copy; `map`, if given, receives old -> new nodes.
    std::shared_ptr<Graph> clone(std::map<const CUgraphNode_st*, CUgraphNode_st*>* map = nullptr) const;
    /// Nodes in an order that respects edges; empty when there is a cycle.
    std::vector<CUgraphNode_st*> sorted() const;
};

}  // namespace softgpu

struct CUgraph_st {
    std::shared_ptr<softgpu::Graph> graph;
    bool owned = true;  ///< false: handle of a child graph, dies with its node
};

struct CUgraphExec_st {
    std::shared_ptr<softgpu::Graph> graph;  ///< a private copy
    CUctx_st* context = nullptr;
    unsigned long long flags = 0;
    softgpu::OpRef last;  ///< executables do not overlap themselves
};
