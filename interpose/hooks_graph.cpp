// Graphs: the runtime learns what an executable graph touches when it is made and when it is changed.
#include "interpose/copy_spans.h"
#include "interpose/memory_operations.h"
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

template <class Call>
CUresult instantiate(Entry entry, CUgraphExec* exec, CUgraph graph, Call call) {
    const CUresult result = call();
    if (result == CUDA_SUCCESS && exec && *exec) {
        if (Runtime* runtime = runtime_for(entry)) runtime->graph_instantiated(*exec, graph);
    }
    return result;
}

/// `tell(runtime)` once the driver has accepted a change.
template <class Tell>
CUresult changed(Entry entry, CUresult result, Tell tell) {
    Runtime* runtime = result == CUDA_SUCCESS ? runtime_for(entry) : nullptr;
    if (runtime) tell(*runtime);
    return result;
}

template <class Params>
KernelLaunch launch_of(const Params& params) {
    return {params.func,
            {params.gridDimX, params.gridDimY, params.gridDimZ},
            {params.blockDimX, params.blockDimY, params.blockDimZ},
            params.sharedMemBytes,
            nullptr,
            params.kernelParams,
            params.extra};
}

template <class MemsetParams>
CopySpan span_of(const MemsetParams& set) {
    return set_span(set.dst, set.pitch, set.elementSize, set.width, set.height);
}

// What a node is to touch gets a mapping first. A value: the answer to the program, there is no memory for
// it. `params` may be null, which is the driver's to refuse.
std::optional<CUresult> map_for(Entry entry, const CUDA_MEMCPY3D* params) {
    Runtime* runtime = params ? runtime_for(entry) : nullptr;
    if (!runtime) return std::nullopt;
    return runtime->map_for_node(destination_of(*params), source_of(*params));
}
template <class MemsetParams>
std::optional<CUresult> map_for(Entry entry, const MemsetParams* params) {
    Runtime* runtime = params ? runtime_for(entry) : nullptr;
    return runtime ? runtime->map_for_node(span_of(*params), {}) : std::nullopt;
}
std::optional<CUresult> map_for(Entry entry, CUgraphNodeParams* params) {
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        return map_for(entry, &params->memcpy.copyParams);
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEMSET) return map_for(entry, &params->memset);
    if (params && params->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
        const CUresult result = keep_batch(entry, params->memOp.paramArray, params->memOp.count);
        if (result != CUDA_SUCCESS) return result;
    }
    return std::nullopt;
}

}  // namespace

CUresult hook_cuGraphAddMemcpyNode(Entry entry, Fn_cuGraphAddMemcpyNode real, CUgraphNode* node,
                                   CUgraph graph, const CUgraphNode* after, size_t count,
                                   const CUDA_MEMCPY3D* params, CUcontext context) {
    if (const auto refused = map_for(entry, params)) return *refused;
    return real(node, graph, after, count, params, context);
}

CUresult hook_cuGraphAddMemsetNode(Entry entry, Fn_cuGraphAddMemsetNode real, CUgraphNode* node,
                                   CUgraph graph, const CUgraphNode* after, size_t count,
                                   const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
    if (const auto refused = map_for(entry, params)) return *refused;
    return real(node, graph, after, count, params, context);
}

CUresult hook_cuGraphAddNode(Entry entry, Fn_cuGraphAddNode real, CUgraphNode* node, CUgraph graph,
                             const CUgraphNode* after, size_t count, CUgraphNodeParams* params) {
    if (const auto refused = map_for(entry, params)) return *refused;
    return real(node, graph, after, count, params);
}

CUresult hook_cuGraphAddNode_v2(Entry entry, Fn_cuGraphAddNode_v2 real, CUgraphNode* node, CUgraph graph,
                                const CUgraphNode* after, const CUgraphEdgeData* edges, size_t count,
                                CUgraphNodeParams* params) {
    if (const auto refused = map_for(entry, params)) return *refused;
    return real(node, graph, after, edges, count, params);
}

CUresult hook_cuGraphMemcpyNodeSetParams(Entry entry, Fn_cuGraphMemcpyNodeSetParams real, CUgraphNode node,
                                         const CUDA_MEMCPY3D* params) {
    if (const auto refused = map_for(entry, params)) return *refused;
    return real(node, params);
}

CUresult hook_cuGraphMemsetNodeSetParams(Entry entry, Fn_cuGraphMemsetNodeSetParams real, CUgraphNode node,
                                         const CUDA_MEMSET_NODE_PARAMS* params) {
    if (const auto refused = map_for(entry, params)) return *refused;
    return real(node, params);
}

CUresult hook_cuGraphNodeSetParams(Entry entry, Fn_cuGraphNodeSetParams real, CUgraphNode node,
                                   CUgraphNodeParams* params) {
    if (const auto refused = map_for(entry, params)) return *refused;
    return real(node, params);
}

CUresult hook_cuGraphInstantiate(Entry entry, Fn_cuGraphInstantiate real, CUgraphExec* exec, CUgraph graph,
                                 CUgraphNode* error_node, char* log, size_t log_bytes) {
    return instantiate(entry, exec, graph, [&] { return real(exec, graph, error_node, log, log_bytes); });
}

CUresult hook_cuGraphInstantiateWithFlags(Entry entry, Fn_cuGraphInstantiateWithFlags real, CUgraphExec* exec,
                                          CUgraph graph, unsigned long long flags) {
    return instantiate(entry, exec, graph, [&] { return real(exec, graph, flags); });
}

CUresult hook_cuGraphInstantiateWithParams(Entry entry, Fn_cuGraphInstantiateWithParams real,
                                           CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
    return instantiate(entry, exec, graph, [&] { return real(exec, graph, params); });
}

CUresult hook_cuGraphExecDestroy(Entry entry, Fn_cuGraphExecDestroy real, CUgraphExec exec) {
    const CUresult result = real(exec);
    if (result == CUDA_SUCCESS) {
        if (Runtime* runtime = runtime_for(entry)) runtime->graph_exec_destroyed(exec);
    }
    return result;
}

CUresult hook_cuGraphLaunch(Entry entry, Fn_cuGraphLaunch real, CUgraphExec exec, CUstream stream) {
    return run_op(
        entry, [&](Runtime& runtime) { return runtime.begin_graph_launch(exec, stream, entry.stream); },
        [&] { return real(exec, stream); });
}

CUresult hook_cuGraphExecUpdate(Entry entry, Fn_cuGraphExecUpdate real, CUgraphExec exec, CUgraph graph,
                                CUgraphNode* error_node, CUgraphExecUpdateResult* update) {
    return changed(entry, real(exec, graph, error_node, update),
                   [&](Runtime& r) { r.graph_exec_updated(exec, graph); });
}

CUresult hook_cuGraphExecUpdate_v2(Entry entry, Fn_cuGraphExecUpdate_v2 real, CUgraphExec exec, CUgraph graph,
                                   CUgraphExecUpdateResultInfo* info) {
    return changed(entry, real(exec, graph, info), [&](Runtime& r) { r.graph_exec_updated(exec, graph); });
}

CUresult hook_cuGraphExecChildGraphNodeSetParams(Entry entry, Fn_cuGraphExecChildGraphNodeSetParams real,
                                                 CUgraphExec exec, CUgraphNode node, CUgraph child) {
    return changed(entry, real(exec, node, child),
                   [&](Runtime& r) { r.graph_exec_child_changed(exec, node, child); });
}

CUresult hook_cuGraphExecKernelNodeSetParams(Entry entry, Fn_cuGraphExecKernelNodeSetParams real,
                                             CUgraphExec exec, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v1* params) {
    const CUresult result = real(exec, node, params);
    Runtime* runtime = result == CUDA_SUCCESS && params ? runtime_for(entry) : nullptr;
    if (runtime) runtime->graph_exec_kernel_changed(exec, node, launch_of(*params));
    return result;
}

CUresult hook_cuGraphExecKernelNodeSetParams_v2(Entry entry, Fn_cuGraphExecKernelNodeSetParams_v2 real,
                                                CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v2* params) {
    const CUresult result = real(exec, node, params);
    Runtime* runtime = result == CUDA_SUCCESS && params ? runtime_for(entry) : nullptr;
    if (runtime) {
        KernelLaunch launch = launch_of(*params);
        if (!launch.function) launch.function = reinterpret_cast<CUfunction>(params->kern);
        runtime->graph_exec_kernel_changed(exec, node, launch);
    }
    return result;
}

CUresult hook_cuGraphExecMemcpyNodeSetParams(Entry entry, Fn_cuGraphExecMemcpyNodeSetParams real,
                                             CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                             CUcontext context) {
    if (const auto refused = map_for(entry, params)) return *refused;
    const CUresult result = real(exec, node, params, context);
    Runtime* runtime = result == CUDA_SUCCESS && params ? runtime_for(entry) : nullptr;
    if (runtime) runtime->graph_exec_copy_changed(exec, node, *params);
    return result;
}

CUresult hook_cuGraphExecMemsetNodeSetParams(Entry entry, Fn_cuGraphExecMemsetNodeSetParams real,
                                             CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
    if (const auto refused = map_for(entry, params)) return *refused;
    const CUresult result = real(exec, node, params, context);
    Runtime* runtime = result == CUDA_SUCCESS && params ? runtime_for(entry) : nullptr;
    if (runtime) runtime->graph_exec_memset_changed(exec, node, *params);
    return result;
}

CUresult hook_cuGraphExecNodeSetParams(Entry entry, Fn_cuGraphExecNodeSetParams real, CUgraphExec exec,
                                       CUgraphNode node, CUgraphNodeParams* params) {
    if (const auto refused = map_for(entry, params)) return *refused;
    const CUresult result = real(exec, node, params);
    Runtime* runtime = result == CUDA_SUCCESS && params ? runtime_for(entry) : nullptr;
    if (!runtime) return result;
    switch (params->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            KernelLaunch launch = launch_of(params->kernel);
            if (!launch.function) launch.function = reinterpret_cast<CUfunction>(params->kernel.kern);
            runtime->graph_exec_kernel_changed(exec, node, launch);
            break;
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            runtime->graph_exec_copy_changed(exec, node, params->memcpy.copyParams);
            break;
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const CUDA_MEMSET_NODE_PARAMS_v2& set = params->memset;
            runtime->graph_exec_memset_changed(
                exec, node, {set.dst, set.pitch, set.value, set.elementSize, set.width, set.height});
            break;
        }
        case CU_GRAPH_NODE_TYPE_GRAPH:
            runtime->graph_exec_child_changed(exec, node, params->graph.graph);
            break;
        case CU_GRAPH_NODE_TYPE_HOST:
            runtime->graph_exec_host_changed(exec, node, {params->host.fn, params->host.userData});
            break;
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            runtime->graph_exec_event_changed(exec, node, params->eventRecord.event);
            break;
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            runtime->graph_exec_event_changed(exec, node, params->eventWait.event);
            break;
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
            runtime->graph_exec_memory_operations_changed(
                exec, node,
                {params->memOp.ctx, params->memOp.count, params->memOp.paramArray, params->memOp.flags});
            break;
        default:
            break;
    }
    return result;
}

CUresult hook_cuGraphExecHostNodeSetParams(Entry entry, Fn_cuGraphExecHostNodeSetParams real,
                                           CUgraphExec exec, CUgraphNode node,
                                           const CUDA_HOST_NODE_PARAMS* params) {
    return changed(entry, real(exec, node, params),
                   [&](Runtime& r) { r.graph_exec_host_changed(exec, node, *params); });
}

CUresult hook_cuGraphExecEventRecordNodeSetEvent(Entry entry, Fn_cuGraphExecEventRecordNodeSetEvent real,
                                                 CUgraphExec exec, CUgraphNode node, CUevent event) {
    return changed(entry, real(exec, node, event),
                   [&](Runtime& r) { r.graph_exec_event_changed(exec, node, event); });
}

CUresult hook_cuGraphExecEventWaitNodeSetEvent(Entry entry, Fn_cuGraphExecEventWaitNodeSetEvent real,
                                               CUgraphExec exec, CUgraphNode node, CUevent event) {
    return changed(entry, real(exec, node, event),
                   [&](Runtime& r) { r.graph_exec_event_changed(exec, node, event); });
}

CUresult hook_cuGraphNodeSetEnabled(Entry entry, Fn_cuGraphNodeSetEnabled real, CUgraphExec exec,
                                    CUgraphNode node, unsigned enabled) {
    return changed(entry, real(exec, node, enabled),
                   [&](Runtime& r) { r.graph_node_enabled(exec, node, enabled != 0); });
}

}  // namespace swapadvisor
