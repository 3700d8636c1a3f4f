// Parameters of graph nodes, converted to the driver's.
#include <cstring>

#include "copy.h"

namespace cudart {

namespace {

using Nodes = const cudaGraphNode_t*;

cudaError_t current_context(const Driver& cu, CUcontext* context) {
    return to_error(cu.cuCtxGetCurrent(context));
}

template <class In, class Out>
cudaError_t kernel_parameters(const In& in, Out* out) {
    CUkernel kernel = nullptr;
    CUDART_TRY(find_kernel(in.func, &kernel));
    *out = {};
    CUfunction function = nullptr;
    CUDART_TRY(find_function(in.func, &function));
    out->func = function;
    out->gridDimX = in.gridDim.x, out->gridDimY = in.gridDim.y, out->gridDimZ = in.gridDim.z;
    out->blockDimX = in.blockDim.x, out->blockDimY = in.blockDim.y, out->blockDimZ = in.blockDim.z;
    out->sharedMemBytes = in.sharedMemBytes;
    out->kernelParams = in.kernelParams;
    out->extra = in.extra;
    return cudaSuccess;
}

static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS));
static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS));
static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams));

CUDA_MEMSET_NODE_PARAMS memset_parameters(const cudaMemsetParams& in) {
    return convert<CUDA_MEMSET_NODE_PARAMS>(in);
}

// Only kernels and copies differ in layout from the driver's parameters.
cudaError_t node_parameters(const Driver& cu, const cudaGraphNodeParams& in, CUgraphNodeParams* out) {
    std::memcpy(static_cast<void*>(out), &in, sizeof *out);
    switch (in.type) {
        case cudaGraphNodeTypeKernel:
            return kernel_parameters(in.kernel, &out->kernel);
        case cudaGraphNodeTypeMemcpy:
            out->memcpy = {};
            CUDART_TRY(current_context(cu, &out->memcpy.copyCtx));
            return driver_copy(in.memcpy.copyParams, &out->memcpy.copyParams);
        case cudaGraphNodeTypeMemset: {
            // The driver's parameters end with a context.
            static_assert(offsetof(CUDA_MEMSET_NODE_PARAMS_v2, ctx) >= sizeof(cudaMemsetParamsV2));
            return current_context(cu, &out->memset.ctx);
        }
        default:
            return cudaSuccess;
    }
}

}  // namespace

}  // namespace cudart

using namespace cudart;

// --- any node
// -----------------------------------------------------------------------------------------------------------
CUDART_API(cudaGraphAddNode,
           (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, const cudaGraphEdgeData* edges,
            size_t count, cudaGraphNodeParams* parameters),
           (node, graph, dependencies, edges, count, parameters)) {
    if (!parameters) return cudaErrorInvalidValue;
    CUgraphNodeParams p;
    CUDART_TRY(node_parameters(cu, *parameters, &p));
    CUDART_TRY(forward(cu.cuGraphAddNode, node, graph, dependencies, edges, count, &p));
    // Outputs: the address of an allocation, the graphs of a conditional node.
    if (parameters->type == cudaGraphNodeTypeMemAlloc)
        parameters->alloc.dptr = reinterpret_cast<void*>(static_cast<std::uintptr_t>(p.alloc.dptr));
    if (parameters->type == cudaGraphNodeTypeConditional)
        parameters->conditional.phGraph_out = reinterpret_cast<cudaGraph_t*>(p.conditional.phGraph_out);
    return cudaSuccess;
}
CUDART_API(cudaGraphNodeSetParams, (cudaGraphNode_t node, cudaGraphNodeParams* parameters),
           (node, parameters)) {
    if (!parameters) return cudaErrorInvalidValue;
    CUgraphNodeParams p;
    CUDART_TRY(node_parameters(cu, *parameters, &p));
    return to_error(cu.cuGraphNodeSetParams(node, &p));
}
CUDART_API(cudaGraphExecNodeSetParams,
           (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeParams* parameters),
           (exec, node, parameters)) {
    if (!parameters) return cudaErrorInvalidValue;
    CUgraphNodeParams p;
    CUDART_TRY(node_parameters(cu, *parameters, &p));
    return to_error(cu.cuGraphExecNodeSetParams(exec, node, &p));
}

// --- kernels
// ------------------------------------------------------------------------------------------------------------
CUDART_API(cudaGraphAddKernelNode,
           (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count,
            const cudaKernelNodeParams* parameters),
           (node, graph, dependencies, count, parameters)) {
    if (!parameters) return cudaErrorInvalidValue;
    CUDA_KERNEL_NODE_PARAMS p;
    CUDART_TRY(kernel_parameters(*parameters, &p));
    return to_error(cu.cuGraphAddKernelNode(node, graph, dependencies, count, &p));
}
CUDART_API(cudaGraphKernelNodeGetParams, (cudaGraphNode_t node, cudaKernelNodeParams* parameters),
           (node, parameters)) {
    if (!parameters) return cudaErrorInvalidValue;
    CUDA_KERNEL_NODE_PARAMS p{};
    CUDART_TRY(to_error(cu.cuGraphKernelNodeGetParams(node, &p)));
    *parameters = {};
    parameters->func = p.func ? static_cast<void*>(p.func) : static_cast<void*>(p.kern);
    parameters->gridDim = dim3(p.gridDimX, p.gridDimY, p.gridDimZ);
    parameters->blockDim = dim3(p.blockDimX, p.blockDimY, p.blockDimZ);
    parameters->sharedMemBytes = p.sharedMemBytes;
    parameters->kernelParams = p.kernelParams;
    parameters->extra = p.extra;
    return cudaSuccess;
}
CUDART_API(cudaGraphKernelNodeSetParams, (cudaGraphNode_t node, const cudaKernelNodeParams* parameters),
           (node, parameters)) {
    if (!parameters) return cudaErrorInvalidValue;
    CUDA_KERNEL_NODE_PARAMS p;
    CUDART_TRY(kernel_parameters(*parameters, &p));
    return to_error(cu.cuGraphKernelNodeSetParams(node, &p));
}
CUDART_API(cudaGraphExecKernelNodeSetParams,
           (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams* parameters),
           (exec, node, parameters)) {
    if (!parameters) return cudaErrorInvalidValue;
    CUDA_KERNEL_NODE_PARAMS p;
    CUDART_TRY(kernel_parameters(*parameters, &p));
    return to_error(cu.cuGraphExecKernelNodeSetParams(exec, node, &p));
}
CUDART_FORWARD(cudaGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes,
               (cudaGraphNode_t to, cudaGraphNode_t from), (to, from))
CUDART_FORWARD(cudaGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute,
               (cudaGraphNode_t node, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue* value),
               (node, attribute, value))
CUDART_FORWARD(cudaGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute,
               (cudaGraphNode_t node, cudaLaunchAttributeID attribute, const cudaLaunchAttributeValue* value),
               (node, attribute, value))

// --- copies
// -------------------------------------------------------------------------------------------------------------
namespace {

cudaError_t add_copy(const Driver& cu, cudaGraphNode_t* node, cudaGraph_t graph, Nodes dependencies,
                     size_t count, const CUDA_MEMCPY3D& copy) {
    CUcontext context = nullptr;
    CUDART_TRY(current_context(cu, &context));
    return to_error(cu.cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy, context));
}
cudaError_t set_exec_copy(const Driver& cu, cudaGraphExec_t exec, cudaGraphNode_t node,
                          const CUDA_MEMCPY3D& copy) {
    CUcontext context = nullptr;
    CUDART_TRY(current_context(cu, &context));
    return to_error(cu.cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context));
}
cudaError_t to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                      CUDA_MEMCPY3D* copy) {
    void* to = nullptr;
    CUDART_TRY(symbol_part(symbol, offset, bytes, &to));
    return linear_copy(to, from, bytes, kind, copy);
}
cudaError_t from_symbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                        CUDA_MEMCPY3D* copy) {
    void* from = nullptr;
    CUDART_TRY(symbol_part(symbol, offset, bytes, &from));
    return linear_copy(to, from, bytes, kind, copy);
}

}  // namespace

CUDART_API(cudaGraphAddMemcpyNode,
           (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count,
            const cudaMemcpy3DParms* p),
           (node, graph, dependencies, count, p)) {
    if (!p) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D c;
    CUDART_TRY(driver_copy(*p, &c));
    return add_copy(cu, node, graph, dependencies, count, c);
}
CUDART_API(cudaGraphAddMemcpyNode1D,
           (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count, void* to,
            const void* from, size_t bytes, cudaMemcpyKind kind),
           (node, graph, dependencies, count, to, from, bytes, kind)) {
    CUDA_MEMCPY3D c;
    CUDART_TRY(linear_copy(to, from, bytes, kind, &c));
    return add_copy(cu, node, graph, dependencies, count, c);
}
CUDART_API(cudaGraphAddMemcpyNodeToSymbol,
           (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count, const void* symbol,
            const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind),
           (node, graph, dependencies, count, symbol, from, bytes, offset, kind)) {
    CUDA_MEMCPY3D c;
    CUDART_TRY(to_symbol(symbol, from, bytes, offset, kind, &c));
    return add_copy(cu, node, graph, dependencies, count, c);
}
CUDART_API(cudaGraphAddMemcpyNodeFromSymbol,
           (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count, void* to,
            const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
           (node, graph, dependencies, count, to, symbol, bytes, offset, kind)) {
    CUDA_MEMCPY3D c;
    CUDART_TRY(from_symbol(to, symbol, bytes, offset, kind, &c));
    return add_copy(cu, node, graph, dependencies, count, c);
}
CUDART_API(cudaGraphMemcpyNodeGetParams, (cudaGraphNode_t node, cudaMemcpy3DParms* p), (node, p)) {
    if (!p) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D c{};
    CUDART_TRY(to_error(cu.cuGraphMemcpyNodeGetParams(node, &c)));
    runtime_copy(c, p);
    return cudaSuccess;
}
CUDART_API(cudaGraphMemcpyNodeSetParams, (cudaGraphNode_t node, const cudaMemcpy3DParms* p), (node, p)) {
    if (!p) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D c;
    CUDART_TRY(driver_copy(*p, &c));
    return to_error(cu.cuGraphMemcpyNodeSetParams(node, &c));
}
CUDART_API(cudaGraphMemcpyNodeSetParams1D,
           (cudaGraphNode_t node, void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
           (node, to, from, bytes, kind)) {
    CUDA_MEMCPY3D c;
    CUDART_TRY(linear_copy(to, from, bytes, kind, &c));
    return to_error(cu.cuGraphMemcpyNodeSetParams(node, &c));
}
CUDART_API(cudaGraphMemcpyNodeSetParamsToSymbol,
           (cudaGraphNode_t node, const void* symbol, const void* from, size_t bytes, size_t offset,
            cudaMemcpyKind kind),
           (node, symbol, from, bytes, offset, kind)) {
    CUDA_MEMCPY3D c;
    CUDART_TRY(to_symbol(symbol, from, bytes, offset, kind, &c));
    return to_error(cu.cuGraphMemcpyNodeSetParams(node, &c));
}
CUDART_API(cudaGraphMemcpyNodeSetParamsFromSymbol,
           (cudaGraphNode_t node, void* to, const void* symbol, size_t bytes, size_t offset,
            cudaMemcpyKind kind),
           (node, to, symbol, bytes, offset, kind)) {
    CUDA_MEMCPY3D c;
    CUDART_TRY(from_symbol(to, symbol, bytes, offset, kind, &c));
    return to_error(cu.cuGraphMemcpyNodeSetParams(node, &c));
}
CUDART_API(cudaGraphExecMemcpyNodeSetParams,
           (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms* p), (exec, node, p)) {
    if (!p) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D c;
    CUDART_TRY(driver_copy(*p, &c));
    return set_exec_copy(cu, exec, node, c);
}
CUDART_API(cudaGraphExecMemcpyNodeSetParams1D,
           (cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* from, size_t bytes,
            cudaMemcpyKind kind),
           (exec, node, to, from, bytes, kind)) {
    CUDA_MEMCPY3D c;
    CUDART_TRY(linear_copy(to, from, bytes, kind, &c));
    return set_exec_copy(cu, exec, node, c);
}
CUDART_API(cudaGraphExecMemcpyNodeSetParamsToSymbol,
           (cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol, const void* from, size_t bytes,
            size_t offset, cudaMemcpyKind kind),
           (exec, node, symbol, from, bytes, offset, kind)) {
    CUDA_MEMCPY3D c;
    CUDART_TRY(to_symbol(symbol, from, bytes, offset, kind, &c));
    return set_exec_copy(cu, exec, node, c);
}
CUDART_API(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
           (cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* symbol, size_t bytes,
            size_t offset, cudaMemcpyKind kind),
           (exec, node, to, symbol, bytes, offset, kind)) {
    CUDA_MEMCPY3D c;
    CUDART_TRY(from_symbol(to, symbol, bytes, offset, kind, &c));
    return set_exec_copy(cu, exec, node, c);
}

// --- memsets and host functions
// ---------------------------------------------------------------------------------------------
CUDART_API(cudaGraphAddMemsetNode,
           (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count,
            const cudaMemsetParams* p),
           (node, graph, dependencies, count, p)) {
    if (!p) return cudaErrorInvalidValue;
    CUcontext context = nullptr;
    CUDART_TRY(current_context(cu, &context));
    const auto d = memset_parameters(*p);
    return to_error(cu.cuGraphAddMemsetNode(node, graph, dependencies, count, &d, context));
}
CUDART_API(cudaGraphExecMemsetNodeSetParams,
           (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemsetParams* p), (exec, node, p)) {
    if (!p) return cudaErrorInvalidValue;
    CUcontext context = nullptr;
    CUDART_TRY(current_context(cu, &context));
    const auto d = memset_parameters(*p);
    return to_error(cu.cuGraphExecMemsetNodeSetParams(exec, node, &d, context));
}
CUDART_FORWARD(cudaGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams,
               (cudaGraphNode_t node, cudaMemsetParams* p), (node, p))
CUDART_FORWARD(cudaGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams,
               (cudaGraphNode_t node, const cudaMemsetParams* p), (node, p))
CUDART_FORWARD(cudaGraphAddHostNode, cuGraphAddHostNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count,
                const cudaHostNodeParams* p),
               (node, graph, dependencies, count, p))
CUDART_FORWARD(cudaGraphHostNodeGetParams, cuGraphHostNodeGetParams,
               (cudaGraphNode_t node, cudaHostNodeParams* p), (node, p))
CUDART_FORWARD(cudaGraphHostNodeSetParams, cuGraphHostNodeSetParams,
               (cudaGraphNode_t node, const cudaHostNodeParams* p), (node, p))
CUDART_FORWARD(cudaGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams,
               (cudaGraphExec_t exec, cudaGraphNode_t node, const cudaHostNodeParams* p), (exec, node, p))

// --- the rest
// -----------------------------------------------------------------------------------------------------------
CUDART_FORWARD(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count,
                cudaGraph_t child),
               (node, graph, dependencies, count, child))
CUDART_FORWARD(cudaGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph,
               (cudaGraphNode_t node, cudaGraph_t* graph), (node, graph))
CUDART_FORWARD(cudaGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams,
               (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child), (exec, node, child))
CUDART_FORWARD(cudaGraphAddEmptyNode, cuGraphAddEmptyNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count),
               (node, graph, dependencies, count))
CUDART_FORWARD(cudaGraphAddEventRecordNode, cuGraphAddEventRecordNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count,
                cudaEvent_t event),
               (node, graph, dependencies, count, event))
CUDART_FORWARD(cudaGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent,
               (cudaGraphNode_t node, cudaEvent_t* event), (node, event))
CUDART_FORWARD(cudaGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent,
               (cudaGraphNode_t node, cudaEvent_t event), (node, event))
CUDART_FORWARD(cudaGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent,
               (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event), (exec, node, event))
CUDART_FORWARD(cudaGraphAddEventWaitNode, cuGraphAddEventWaitNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count,
                cudaEvent_t event),
               (node, graph, dependencies, count, event))
CUDART_FORWARD(cudaGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent,
               (cudaGraphNode_t node, cudaEvent_t* event), (node, event))
CUDART_FORWARD(cudaGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent,
               (cudaGraphNode_t node, cudaEvent_t event), (node, event))
CUDART_FORWARD(cudaGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent,
               (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event), (exec, node, event))
CUDART_FORWARD(cudaGraphAddMemAllocNode, cuGraphAddMemAllocNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count,
                cudaMemAllocNodeParams* p),
               (node, graph, dependencies, count, p))
CUDART_FORWARD(cudaGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams,
               (cudaGraphNode_t node, cudaMemAllocNodeParams* p), (node, p))
CUDART_FORWARD(cudaGraphAddMemFreeNode, cuGraphAddMemFreeNode,
               (cudaGraphNode_t * node, cudaGraph_t graph, Nodes dependencies, size_t count, void* address),
               (node, graph, dependencies, count, address))
CUDART_FORWARD(cudaGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams,
               (cudaGraphNode_t node, void* address), (node, address))
