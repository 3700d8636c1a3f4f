// Executable graphs: instantiation, updates, launches.
#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/graph_api.h"
#include "tests/softgpu/driver/launch.h"

using namespace softgpu;

namespace {

bool valid_exec(CUgraphExec exec) {
    return driver().kind(exec) == Kind::exec;
}

CUresult instantiate(Call& call, CUgraphExec* out, CUgraph graph, unsigned long long flags,
                     CUgraphInstantiateResult* result) {
    if (result) *result = CUDA_GRAPH_INSTANTIATE_ERROR;
    constexpr unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                         CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                         CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    if (!out || !valid_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    if (flags & ~known) return CUDA_ERROR_NOT_SUPPORTED;  // device launch
    if (graph->graph->sorted().size() != graph->graph->nodes.size()) {
        if (result) *result = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
        return CUDA_ERROR_INVALID_VALUE;
    }
    auto* exec = new CUgraphExec_st;
    exec->graph = graph->graph->clone();
    exec->context = call.context();
    exec->flags = flags;
    driver().alive[exec] = Kind::exec;
    *out = exec;
    if (result) *result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return CUDA_SUCCESS;
}

/// The executable's own copy of a node of the graph it was made from.
CUgraphNode_st* own(Graph& graph, const CUgraphNode_st* node) {
    for (const auto& n : graph.nodes) {
        if (n->origin == node->id) return n.get();
        if (auto* child = std::get_if<ChildWork>(&n->work))
            if (CUgraphNode_st* found = own(*child->graph, node)) return found;
    }
    return nullptr;
}

CUgraphNode_st* own(CUgraphExec exec, CUgraphNode node) {
    return valid_exec(exec) && valid_node(node) ? own(*exec->graph, node) : nullptr;
}

/// What an executable may not change: kinds of memory of a copy or memset, the shape of child graphs.
CUgraphExecUpdateResult compatible(const Work& from, const Work& to) {
    if (const auto* a = std::get_if<CopyWork>(&from)) {
        const auto& b = std::get<CopyWork>(to);
        if (a->sides != b.sides) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    } else if (const auto* k = std::get_if<KernelWork>(&from)) {
        const auto& b = std::get<KernelWork>(to);
        if (k->resolved->module->context != b.resolved->module->context)
            return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
        if (k->cooperative != b.cooperative) return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
    } else if (std::holds_alternative<AllocWork>(from) || std::holds_alternative<FreeWork>(from)) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUgraphExecUpdateResultInfo update(Graph& exec, const Graph& graph, bool apply) {
    if (exec.nodes.size() != graph.nodes.size())
        return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, nullptr};
    std::map<const CUgraphNode_st*, const CUgraphNode_st*> pair;
    auto mine = exec.nodes.begin();
    for (auto theirs = graph.nodes.begin(); theirs != graph.nodes.end(); ++mine, ++theirs)
        pair[theirs->get()] = mine->get();
    mine = exec.nodes.begin();
    for (auto theirs = graph.nodes.begin(); theirs != graph.nodes.end(); ++mine, ++theirs) {
        CUgraphNode_st &old = **mine, &fresh = **theirs;
        if (old.dependencies.size() != fresh.dependencies.size())
            return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &fresh, nullptr};
        for (const CUgraphNode_st* before : fresh.dependencies) {
            const auto& have = old.dependencies;
            if (std::find(have.begin(), have.end(), pair[before]) == have.end())
                return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &fresh, const_cast<CUgraphNode>(before)};
        }
        if (old.type != fresh.type) return {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, &fresh, nullptr};
        if (const auto* child = std::get_if<ChildWork>(&fresh.work)) {
            const auto inner = update(*std::get<ChildWork>(old.work).graph, *child->graph, apply);
            if (inner.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return inner;
            continue;
        }
        if (const auto r = compatible(old.work, fresh.work); r != CU_GRAPH_EXEC_UPDATE_SUCCESS)
            return {r, &fresh, nullptr};
        if (!apply) continue;
        old.work = fresh.work;
        old.origin = fresh.id;
    }
    return {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
}

CUresult exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
    if (!valid_exec(exec) || !valid_graph(graph) || !info) return CUDA_ERROR_INVALID_VALUE;
    // A failed update leaves the executable as it was. Launches in flight keep the work they were made with.
    *info = update(*exec->graph, *graph->graph, false);
    if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    *info = update(*exec->graph, *graph->graph, true);
    return CUDA_SUCCESS;
}

CUresult replace(CUgraphNode_st* node, Work work) {
    if (node->work.index() != work.index()) return CUDA_ERROR_INVALID_VALUE;
    if (compatible(node->work, work) != CU_GRAPH_EXEC_UPDATE_SUCCESS &&
        !std::holds_alternative<KernelWork>(work))
        return CUDA_ERROR_INVALID_VALUE;
    return replace_work(node, std::move(work));
}

CUresult set_kernel(Call& call, CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2& p) {
    CUgraphNode_st* mine = own(exec, node);
    Work work;
    if (!mine) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = kernel_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return replace(mine, std::move(work));
}

}  // namespace

// ---- instantiation ----

SOFTCU cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
    SOFTGPU_CALL(kContext);
    return instantiate(call, exec, graph, flags, nullptr);
}

SOFTCU cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    p->hErrNode_out = nullptr;
    return instantiate(call, exec, graph, p->flags, &p->result_out);
}

#undef cuGraphInstantiate
SOFTCU cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error, char* log, size_t room) {
    SOFTGPU_CALL(kContext);
    if (error) *error = nullptr;
    if (log && room) *log = '\0';
    return instantiate(call, exec, graph, 0, nullptr);
}

extern "C" CUresult cuGraphInstantiate_v2(CUgraphExec*, CUgraph, CUgraphNode*, char*, size_t);
SOFTCU cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error, char* log, size_t room) {
    SOFTGPU_CALL(kContext);
    if (error) *error = nullptr;
    if (log && room) *log = '\0';
    return instantiate(call, exec, graph, 0, nullptr);
}

SOFTCU cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
    SOFTGPU_CALL(kPlain);
    if (!valid_exec(exec) || !flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

SOFTCU cuGraphExecDestroy(CUgraphExec exec) {
    SOFTGPU_CALL(kPlain);
    if (!valid_exec(exec)) return CUDA_ERROR_INVALID_VALUE;
    driver().alive.erase(exec);
    delete exec;  // launches in flight hold the graph
    return CUDA_SUCCESS;
}

// ---- launches ----

SOFTCU cuGraphUpload(CUgraphExec exec, CUstream stream) {
    SOFTGPU_CALL(kContext);
    if (!valid_exec(exec)) return CUDA_ERROR_INVALID_VALUE;
    return submit(call, resolve_stream(stream), EmptyWork{});
}

SOFTCU cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    SOFTGPU_CALL(kContext);
    if (!valid_exec(exec)) return CUDA_ERROR_INVALID_VALUE;
    return launch_graph(call, exec, resolve_stream(stream));
}

// ---- updates ----

SOFTCU cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
    SOFTGPU_CALL(kContext);
    return exec_update(exec, graph, info);
}

#undef cuGraphExecUpdate
SOFTCU cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* node,
                         CUgraphExecUpdateResult* result) {
    SOFTGPU_CALL(kContext);
    CUgraphExecUpdateResultInfo info{};
    const CUresult r = exec_update(exec, graph, &info);
    if (node) *node = info.errorNode;
    if (result) *result = info.result;
    return r;
}

SOFTCU cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                         const CUDA_KERNEL_NODE_PARAMS_v2* p) {
    SOFTGPU_CALL(kContext);
    return p ? set_kernel(call, exec, node, *p) : CUDA_ERROR_INVALID_VALUE;
}

#undef cuGraphExecKernelNodeSetParams
SOFTCU cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_KERNEL_NODE_PARAMS_v1* p) {
    SOFTGPU_CALL(kContext);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return set_kernel(call, exec, node,
                      {p->func, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY,
                       p->blockDimZ, p->sharedMemBytes, p->kernelParams, p->extra, nullptr, nullptr});
}

SOFTCU cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* p, CUcontext) {
    SOFTGPU_CALL(kContext);
    CUgraphNode_st* mine = own(exec, node);
    Work work;
    if (!mine) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = copy_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return replace(mine, std::move(work));
}

SOFTCU cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p,
                                      CUcontext) {
    SOFTGPU_CALL(kContext);
    CUgraphNode_st* mine = own(exec, node);
    Work work;
    if (!mine) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = memset_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return replace(mine, std::move(work));
}

SOFTCU cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    CUgraphNode_st* mine = own(exec, node);
    if (!mine || !p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    return replace(mine, HostWork{p->fn, nullptr, nullptr, p->userData});
}

SOFTCU cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph graph) {
    SOFTGPU_CALL(kContext);
    CUgraphNode_st* mine = own(exec, node);
    if (!mine || !valid_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    auto* child = std::get_if<ChildWork>(&mine->work);
    if (!child) return CUDA_ERROR_INVALID_VALUE;
    if (update(*child->graph, *graph->graph, false).result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    update(*child->graph, *graph->graph, true);
    return CUDA_SUCCESS;
}

SOFTCU cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
    SOFTGPU_CALL(kContext);
    CUgraphNode_st* mine = own(exec, node);
    Work work;
    if (!mine) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = event_work(event, true, &work); r != CUDA_SUCCESS) return r;
    return replace(mine, std::move(work));
}

SOFTCU cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
    SOFTGPU_CALL(kContext);
    CUgraphNode_st* mine = own(exec, node);
    Work work;
    if (!mine) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = event_work(event, false, &work); r != CUDA_SUCCESS) return r;
    return replace(mine, std::move(work));
}

SOFTCU cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                          const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    CUgraphNode_st* mine = own(exec, node);
    Work work;
    if (!mine || !p) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = batch_work(p->count, p->paramArray, &work); r != CUDA_SUCCESS) return r;
    return replace(mine, std::move(work));
}

SOFTCU cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* p) {
    SOFTGPU_CALL(kContext);
    CUgraphNode_st* mine = own(exec, node);
    Work work;
    if (!mine || !p || p->type != mine->type) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = generic_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return replace(mine, std::move(work));
}

SOFTCU cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
    SOFTGPU_CALL(kContext);
    CUgraphNode_st* mine = own(exec, node);
    if (!mine) return CUDA_ERROR_INVALID_VALUE;
    const bool can = std::holds_alternative<KernelWork>(mine->work) ||
                     std::holds_alternative<CopyWork>(mine->work) ||
                     std::holds_alternative<MemsetWork>(mine->work);
    if (!can) return CUDA_ERROR_INVALID_VALUE;
    mine->enabled = enabled != 0;
    return CUDA_SUCCESS;
}

SOFTCU cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
    SOFTGPU_CALL(kContext);
    CUgraphNode_st* mine = own(exec, node);
    if (!mine || !enabled) return CUDA_ERROR_INVALID_VALUE;
    *enabled = mine->enabled;
    return CUDA_SUCCESS;
}
