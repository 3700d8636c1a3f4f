// What the graph entry points share.
#pragma once

#include "tests/softgpu/driver/graph.h"

namespace softgpu {

CUgraph_st* make_graph_handle(std::shared_ptr<Graph> graph);
void drop_graph_handle(CUgraph_st* handle);

bool valid_graph(CUgraph graph);
bool valid_node(CUgraphNode node);

/// A node of `graph` behind `dependencies`, after checking them.
CUresult add_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                  Work work, const CUgraphEdgeData* edges = nullptr);

// Work from the callers' descriptions, checked.
CUresult kernel_work(CUctx_st* context, const CUDA_KERNEL_NODE_PARAMS_v2& params, Work* work);
CUresult copy_work(CUctx_st* context, const CUDA_MEMCPY3D* params, Work* work);
CUresult memset_work(CUctx_st* context, const CUDA_MEMSET_NODE_PARAMS_v1* params, Work* work);
CUresult event_work(CUevent event, bool record, Work* work);
CUresult batch_work(unsigned count, const CUstreamBatchMemOpParams* list, Work* work);
CUresult generic_work(CUctx_st* context, CUgraphNodeParams* params, Work* work);
/// Puts new work of the same kind into a node; kernel attributes stay.
CUresult replace_work(CUgraphNode_st* node, Work work);

/// Reserves the node's address and writes it to params.dptr.
CUresult allocation_work(int device, CUDA_MEM_ALLOC_NODE_PARAMS* params, Work* work);
/// Backs a graph's allocation with memory for one more launch; false when there is none.
bool claim_graph_memory(const AllocWork& work, CUctx_st* context, bool* still_allocated);
/// One launch is done with it; unmaps with the last.
void release_graph_memory(std::uint64_t address);

CUresult launch_graph(Call& call, CUgraphExec_st* exec, const StreamRef& stream);

}  // namespace softgpu
