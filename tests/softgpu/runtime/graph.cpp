// Graphs: building, inspecting, instantiating, launching. Node parameters are in graph_nodes.cpp.
#include "api.h"

using namespace cudart;

CUDART_FORWARD(cudaGraphCreate, cuGraphCreate, (cudaGraph_t * graph, unsigned flags), (graph, flags))
CUDART_FORWARD(cudaGraphDestroy, cuGraphDestroy, (cudaGraph_t graph), (graph))
CUDART_FORWARD(cudaGraphClone, cuGraphClone, (cudaGraph_t * clone, cudaGraph_t graph), (clone, graph))
CUDART_FORWARD(cudaGraphDestroyNode, cuGraphDestroyNode, (cudaGraphNode_t node), (node))
CUDART_FORWARD(cudaGraphNodeFindInClone, cuGraphNodeFindInClone,
               (cudaGraphNode_t * node, cudaGraphNode_t original, cudaGraph_t clone), (node, original, clone))
CUDART_FORWARD(cudaGraphNodeGetType, cuGraphNodeGetType, (cudaGraphNode_t node, cudaGraphNodeType* type),
               (node, type))
CUDART_FORWARD(cudaGraphGetNodes, cuGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
               (graph, nodes, count))
CUDART_FORWARD(cudaGraphGetRootNodes, cuGraphGetRootNodes,
               (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count), (graph, nodes, count))
CUDART_FORWARD(cudaGraphGetEdges, cuGraphGetEdges,
               (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data,
                size_t* count),
               (graph, from, to, data, count))
CUDART_FORWARD(cudaGraphNodeGetDependencies, cuGraphNodeGetDependencies,
               (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data, size_t* count),
               (node, nodes, data, count))
CUDART_FORWARD(cudaGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes,
               (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data, size_t* count),
               (node, nodes, data, count))
CUDART_FORWARD(cudaGraphAddDependencies, cuGraphAddDependencies,
               (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                const cudaGraphEdgeData* data, size_t count),
               (graph, from, to, data, count))
CUDART_FORWARD(cudaGraphRemoveDependencies, cuGraphRemoveDependencies,
               (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                const cudaGraphEdgeData* data, size_t count),
               (graph, from, to, data, count))
CUDART_FORWARD(cudaGraphDebugDotPrint, cuGraphDebugDotPrint,
               (cudaGraph_t graph, const char* path, unsigned flags), (graph, path, flags))
CUDART_API(cudaGraphConditionalHandleCreate,
           (cudaGraphConditionalHandle * handle, cudaGraph_t graph, unsigned value, unsigned flags),
           (handle, graph, value, flags)) {
    CUcontext context = nullptr;
    CUDART_TRY(to_error(cu.cuCtxGetCurrent(&context)));
    return forward(cu.cuGraphConditionalHandleCreate, handle, graph, context, value, flags);
}

// --- executables
// --------------------------------------------------------------------------------------------------------
CUDART_FORWARD(cudaGraphInstantiate, cuGraphInstantiateWithFlags,
               (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags), (exec, graph, flags))
CUDART_FORWARD(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,
               (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags), (exec, graph, flags))
CUDART_FORWARD_TWIN(cudaGraphInstantiateWithParams, _ptsz, cuGraphInstantiateWithParams,
                    (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams* parameters),
                    (exec, graph, parameters))
CUDART_FORWARD(cudaGraphExecGetFlags, cuGraphExecGetFlags, (cudaGraphExec_t exec, unsigned long long* flags),
               (exec, flags))
CUDART_FORWARD(cudaGraphExecUpdate, cuGraphExecUpdate,
               (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result),
               (exec, graph, result))
CUDART_FORWARD_TWIN(cudaGraphUpload, _ptsz, cuGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream),
                    (exec, stream))
CUDART_FORWARD_TWIN(cudaGraphLaunch, _ptsz, cuGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream),
                    (exec, stream))
CUDART_FORWARD(cudaGraphExecDestroy, cuGraphExecDestroy, (cudaGraphExec_t exec), (exec))
CUDART_FORWARD(cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled,
               (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled), (exec, node, enabled))
CUDART_FORWARD(cudaGraphNodeGetEnabled, cuGraphNodeGetEnabled,
               (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled), (exec, node, enabled))

// --- memory of graphs, user objects
// -------------------------------------------------------------------------------------
CUDART_FORWARD(cudaDeviceGraphMemTrim, cuDeviceGraphMemTrim, (int device), (device))
CUDART_FORWARD(cudaDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute,
               (int device, cudaGraphMemAttributeType attribute, void* value), (device, attribute, value))
CUDART_FORWARD(cudaDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute,
               (int device, cudaGraphMemAttributeType attribute, void* value), (device, attribute, value))
CUDART_FORWARD(cudaUserObjectCreate, cuUserObjectCreate,
               (cudaUserObject_t * object, void* data, cudaHostFn_t destroy, unsigned count, unsigned flags),
               (object, data, destroy, count, flags))
CUDART_FORWARD(cudaUserObjectRetain, cuUserObjectRetain, (cudaUserObject_t object, unsigned count),
               (object, count))
CUDART_FORWARD(cudaUserObjectRelease, cuUserObjectRelease, (cudaUserObject_t object, unsigned count),
               (object, count))
CUDART_FORWARD(cudaGraphRetainUserObject, cuGraphRetainUserObject,
               (cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags),
               (graph, object, count, flags))
CUDART_FORWARD(cudaGraphReleaseUserObject, cuGraphReleaseUserObject,
               (cudaGraph_t graph, cudaUserObject_t object, unsigned count), (graph, object, count))
