// Nodes of graphs by kind: adding them, and getting and setting their parameters.
#include <cstring>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/graph_api.h"
#include "tests/softgpu/driver/launch.h"

using namespace softgpu;

namespace {

CUDA_KERNEL_NODE_PARAMS_v2 widen(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
    return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
            p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    nullptr,     nullptr};
}

template <class T>
T* work_of(CUgraphNode node) {
    return valid_node(node) ? std::get_if<T>(&node->work) : nullptr;
}

CUresult kernel_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* out) {
    auto* w = work_of<KernelWork>(node);
    if (!w || !out) return CUDA_ERROR_INVALID_VALUE;
    const auto& params = w->resolved->function->info().params;
    w->param_pointers.clear();
    for (const ptx::Param& p : params) w->param_pointers.push_back(w->params.data() + p.offset);
    const bool kernel = driver().kind(w->function) == Kind::kernel;
    *out = {kernel ? nullptr : w->function,
            w->grid[0],
            w->grid[1],
            w->grid[2],
            w->block[0],
            w->block[1],
            w->block[2],
            w->shared_bytes,
            w->param_pointers.empty() ? nullptr : w->param_pointers.data(),
            nullptr,
            kernel ? reinterpret_cast<CUkernel>(w->function) : nullptr,
            kernel ? w->resolved->module->context : nullptr};
    return CUDA_SUCCESS;
}

CUresult add_kernel(Call& call, CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                    const CUDA_KERNEL_NODE_PARAMS_v2& p) {
    Work work;
    if (const CUresult r = kernel_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return add_node(out, graph, after, count, std::move(work));
}

CUresult set_kernel(Call& call, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2& p) {
    if (!valid_node(node)) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    if (const CUresult r = kernel_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return replace_work(node, std::move(work));
}

CUctx_st* context_or(CUcontext given, Call& call) {
    return driver().kind(given) == Kind::context ? given : call.context();
}

}  // namespace

// ---- kernels ----

SOFTCU cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                               const CUDA_KERNEL_NODE_PARAMS_v2* p) {
    SOFTGPU_CALL(kContext);
    return p ? add_kernel(call, node, graph, after, count, *p) : CUDA_ERROR_INVALID_VALUE;
}

SOFTCU cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* p) {
    SOFTGPU_CALL(kContext);
    return kernel_params(node, p);
}

SOFTCU cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* p) {
    SOFTGPU_CALL(kContext);
    return p ? set_kernel(call, node, *p) : CUDA_ERROR_INVALID_VALUE;
}

#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
SOFTCU cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                            const CUDA_KERNEL_NODE_PARAMS_v1* p) {
    SOFTGPU_CALL(kContext);
    return p ? add_kernel(call, node, graph, after, count, widen(*p)) : CUDA_ERROR_INVALID_VALUE;
}

SOFTCU cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* p) {
    SOFTGPU_CALL(kContext);
    CUDA_KERNEL_NODE_PARAMS_v2 wide;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = kernel_params(node, &wide); r != CUDA_SUCCESS) return r;
    if (!wide.func) wide.func = work_of<KernelWork>(node)->resolved;
    *p = {wide.func,      wide.gridDimX,  wide.gridDimY,       wide.gridDimZ,     wide.blockDimX,
          wide.blockDimY, wide.blockDimZ, wide.sharedMemBytes, wide.kernelParams, nullptr};
    return CUDA_SUCCESS;
}

SOFTCU cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* p) {
    SOFTGPU_CALL(kContext);
    return p ? set_kernel(call, node, widen(*p)) : CUDA_ERROR_INVALID_VALUE;
}

SOFTCU cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
    SOFTGPU_CALL(kContext);
    auto *target = work_of<KernelWork>(to), *source = work_of<KernelWork>(from);
    if (!target || !source) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(target->attributes, source->attributes, sizeof target->attributes);
    target->cooperative = source->cooperative;
    return CUDA_SUCCESS;
}

SOFTCU cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID which,
                                     CUkernelNodeAttrValue* value) {
    SOFTGPU_CALL(kContext);
    const auto* w = work_of<KernelWork>(node);
    if (!w || !value || static_cast<unsigned>(which) >= std::size(w->attributes))
        return CUDA_ERROR_INVALID_VALUE;
    *value = w->attributes[which];
    return CUDA_SUCCESS;
}

SOFTCU cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID which,
                                     const CUkernelNodeAttrValue* value) {
    SOFTGPU_CALL(kContext);
    auto* w = work_of<KernelWork>(node);
    if (!w || !value) return CUDA_ERROR_INVALID_VALUE;
    CUlaunchAttribute a{};
    a.id = which;
    a.value = *value;
    return set_launch_attribute(w, a);
}

// ---- copies and memsets ----

SOFTCU cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                            const CUDA_MEMCPY3D* p, CUcontext context) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (const CUresult r = copy_work(context_or(context, call), p, &work); r != CUDA_SUCCESS) return r;
    return add_node(node, graph, after, count, std::move(work));
}

SOFTCU cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* p) {
    SOFTGPU_CALL(kContext);
    const auto* w = work_of<CopyWork>(node);
    if (!w || !p) return CUDA_ERROR_INVALID_VALUE;
    *p = w->original;
    return CUDA_SUCCESS;
}

SOFTCU cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* p) {
    SOFTGPU_CALL(kContext);
    if (!valid_node(node)) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    if (const CUresult r = copy_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return replace_work(node, std::move(work));
}

SOFTCU cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                            const CUDA_MEMSET_NODE_PARAMS* p, CUcontext context) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (const CUresult r = memset_work(context_or(context, call), p, &work); r != CUDA_SUCCESS) return r;
    return add_node(node, graph, after, count, std::move(work));
}

SOFTCU cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    const auto* w = work_of<MemsetWork>(node);
    if (!w || !p) return CUDA_ERROR_INVALID_VALUE;
    *p = {w->to, w->pitch, w->value, w->element, w->width, w->height};
    return CUDA_SUCCESS;
}

SOFTCU cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    if (!valid_node(node)) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    if (const CUresult r = memset_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return replace_work(node, std::move(work));
}

// ---- host functions, child graphs, empty nodes ----

SOFTCU cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                          const CUDA_HOST_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    return add_node(node, graph, after, count, HostWork{p->fn, nullptr, nullptr, p->userData});
}

SOFTCU cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    const auto* w = work_of<HostWork>(node);
    if (!w || !p) return CUDA_ERROR_INVALID_VALUE;
    *p = {w->function, w->user};
    return CUDA_SUCCESS;
}

SOFTCU cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    if (!valid_node(node) || !p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    return replace_work(node, HostWork{p->fn, nullptr, nullptr, p->userData});
}

SOFTCU cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                                CUgraph child) {
    SOFTGPU_CALL(kContext);
    if (!valid_graph(child)) return CUDA_ERROR_INVALID_VALUE;
    for (const auto& n : child->graph->nodes)
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return CUDA_ERROR_NOT_SUPPORTED;
    auto copy = child->graph->clone();
    copy->child = true;
    return add_node(node, graph, after, count, ChildWork{std::move(copy)});
}

SOFTCU cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
    SOFTGPU_CALL(kContext);
    auto* w = work_of<ChildWork>(node);
    if (!w || !graph) return CUDA_ERROR_INVALID_VALUE;
    auto& handle = driver().child_handles[w->graph.get()];
    if (!handle) {
        handle = make_graph_handle(
            std::shared_ptr<Graph>(std::shared_ptr<Graph>(), w->graph.get()));  // the node owns it
        handle->owned = false;
    }
    *graph = handle;
    return CUDA_SUCCESS;
}

SOFTCU cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count) {
    SOFTGPU_CALL(kContext);
    return add_node(node, graph, after, count, EmptyWork{});
}

// ---- events ----

SOFTCU cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                                 CUevent event) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (const CUresult r = event_work(event, true, &work); r != CUDA_SUCCESS) return r;
    return add_node(node, graph, after, count, std::move(work));
}

SOFTCU cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
    SOFTGPU_CALL(kContext);
    const auto* w = work_of<RecordWork>(node);
    if (!w || !event) return CUDA_ERROR_INVALID_VALUE;
    *event = w->event.get();
    return CUDA_SUCCESS;
}

SOFTCU cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (const CUresult r = event_work(event, true, &work); r != CUDA_SUCCESS) return r;
    return valid_node(node) ? replace_work(node, std::move(work)) : CUDA_ERROR_INVALID_VALUE;
}

SOFTCU cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                               CUevent event) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (const CUresult r = event_work(event, false, &work); r != CUDA_SUCCESS) return r;
    return add_node(node, graph, after, count, std::move(work));
}

SOFTCU cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
    SOFTGPU_CALL(kContext);
    const auto* w = work_of<WaitWork>(node);
    if (!w || !event) return CUDA_ERROR_INVALID_VALUE;
    *event = w->event.get();
    return CUDA_SUCCESS;
}

SOFTCU cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (const CUresult r = event_work(event, false, &work); r != CUDA_SUCCESS) return r;
    return valid_node(node) ? replace_work(node, std::move(work)) : CUDA_ERROR_INVALID_VALUE;
}

// ---- memory ----

SOFTCU cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                              CUDA_MEM_ALLOC_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    if (!valid_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    if (const CUresult r = allocation_work(call.context()->device, p, &work); r != CUDA_SUCCESS) return r;
    return add_node(node, graph, after, count, std::move(work));
}

SOFTCU cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    const auto* w = work_of<AllocWork>(node);
    if (!w || !p) return CUDA_ERROR_INVALID_VALUE;
    *p = w->params;
    p->accessDescs = w->access.empty() ? nullptr : w->access.data();
    return CUDA_SUCCESS;
}

SOFTCU cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                             CUdeviceptr p) {
    SOFTGPU_CALL(kContext);
    if (!driver().graph_addresses.count(p)) return CUDA_ERROR_INVALID_VALUE;
    return add_node(node, graph, after, count, FreeWork{p});
}

SOFTCU cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* p) {
    SOFTGPU_CALL(kContext);
    const auto* w = work_of<FreeWork>(node);
    if (!w || !p) return CUDA_ERROR_INVALID_VALUE;
    *p = w->address;
    return CUDA_SUCCESS;
}

SOFTCU cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                                const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = batch_work(p->count, p->paramArray, &work); r != CUDA_SUCCESS) return r;
    return add_node(node, graph, after, count, std::move(work));
}

SOFTCU cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    auto* w = work_of<BatchWork>(node);
    if (!w || !p) return CUDA_ERROR_INVALID_VALUE;
    *p = {call.context(), static_cast<unsigned>(w->ops.size()), w->ops.data(), 0};
    return CUDA_SUCCESS;
}

SOFTCU cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (!p || !valid_node(node)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = batch_work(p->count, p->paramArray, &work); r != CUDA_SUCCESS) return r;
    return replace_work(node, std::move(work));
}

// ---- any kind ----

SOFTCU cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                         const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* p) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (!valid_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = generic_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return add_node(node, graph, after, count, std::move(work), edges);
}

#undef cuGraphAddNode
SOFTCU cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                      CUgraphNodeParams* p) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (!valid_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = generic_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return add_node(node, graph, after, count, std::move(work));
}

SOFTCU cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* p) {
    SOFTGPU_CALL(kContext);
    Work work;
    if (!valid_node(node) || !p || p->type != node->type) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = generic_work(call.context(), p, &work); r != CUDA_SUCCESS) return r;
    return replace_work(node, std::move(work));
}
