// Graph nodes that are memory operations; those that come by cuGraphAddNode: hooks_graph.cpp.
#include "interpose/memory_operations.h"

namespace swapadvisor {

CUresult hook_cuGraphAddBatchMemOpNode(Entry entry, Fn_cuGraphAddBatchMemOpNode real, CUgraphNode* node,
                                       CUgraph graph, const CUgraphNode* after, size_t count,
                                       const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    const CUresult result = params ? keep_batch(entry, params->paramArray, params->count) : CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? real(node, graph, after, count, params) : result;
}

CUresult hook_cuGraphBatchMemOpNodeSetParams(Entry entry, Fn_cuGraphBatchMemOpNodeSetParams real,
                                             CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    const CUresult result = params ? keep_batch(entry, params->paramArray, params->count) : CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? real(node, params) : result;
}

CUresult hook_cuGraphExecBatchMemOpNodeSetParams(Entry entry, Fn_cuGraphExecBatchMemOpNodeSetParams real,
                                                 CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    const CUresult result = params ? keep_batch(entry, params->paramArray, params->count) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) return result;
    const CUresult set = real(exec, node, params);
    Runtime* runtime = set == CUDA_SUCCESS && params ? runtime_for(entry) : nullptr;
    if (runtime) runtime->graph_exec_memory_operations_changed(exec, node, *params);
    return set;
}

}  // namespace swapadvisor
