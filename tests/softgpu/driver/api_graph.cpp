// Graphs: making, inspecting and taking them apart.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/graph_api.h"
#include "tests/softgpu/driver/launch.h"

namespace softgpu {

CUgraph_st* make_graph_handle(std::shared_ptr<Graph> graph) {
    auto* handle = new CUgraph_st{std::move(graph), true};
    driver().alive[handle] = Kind::graph;
    return handle;
}

void drop_graph_handle(CUgraph_st* handle) {
    driver().alive.erase(handle);
    delete handle;
}

bool valid_graph(CUgraph graph) {
    return driver().kind(graph) == Kind::graph;
}
bool valid_node(CUgraphNode node) {
    return driver().kind(node) == Kind::node;
}

CUresult add_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                  Work work, const CUgraphEdgeData* edges) {
    if (!out || !valid_graph(graph) || (count && !dependencies)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode_st*> after;
    for (std::size_t i = 0; i < count; ++i) {
        CUgraphNode_st* node = dependencies[i];
        if (!valid_node(node) || node->graph != graph->graph.get()) return CUDA_ERROR_INVALID_VALUE;
        if (std::find(after.begin(), after.end(), node) != after.end()) return CUDA_ERROR_INVALID_VALUE;
        after.push_back(node);
    }
    CUgraphNode_st* node = graph->graph->add(std::move(work), after);
    if (edges) node->edges.assign(edges, edges + count);
    *out = node;
    return CUDA_SUCCESS;
}

}  // namespace softgpu

using namespace softgpu;

namespace {

/// The usual way of giving out a list: count alone, or up to *count entries with NULL for the rest.
CUresult give(const std::vector<CUgraphNode_st*>& from, CUgraphNode* to, std::size_t* count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    if (to) {
        for (std::size_t i = 0; i < *count; ++i) to[i] = i < from.size() ? from[i] : nullptr;
        *count = std::min(*count, from.size());
    } else {
        *count = from.size();
    }
    return CUDA_SUCCESS;
}

CUresult edges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, std::size_t* count) {
    if (!valid_graph(graph) || !count || (!from) != (!to)) return CUDA_ERROR_INVALID_VALUE;
    std::size_t n = 0;
    for (const auto& node : graph->graph->nodes)
        for (std::size_t i = 0; i < node->dependencies.size(); ++i, ++n) {
            if (!from || n >= *count) continue;
            from[n] = node->dependencies[i];
            to[n] = node.get();
            if (data) data[n] = node->edges[i];
        }
    for (std::size_t i = n; from && i < *count; ++i) from[i] = to[i] = nullptr;
    *count = from ? std::min(*count, n) : n;
    return CUDA_SUCCESS;
}

CUresult add_edges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                   std::size_t count) {
    if (!valid_graph(graph) || (count && (!from || !to))) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
        if (!valid_node(from[i]) || !valid_node(to[i]) || from[i] == to[i]) return CUDA_ERROR_INVALID_VALUE;
        if (from[i]->graph != graph->graph.get() || to[i]->graph != graph->graph.get())
            return CUDA_ERROR_INVALID_VALUE;
        const auto& have = to[i]->dependencies;
        if (std::find(have.begin(), have.end(), from[i]) != have.end()) return CUDA_ERROR_INVALID_VALUE;
    }
    for (std::size_t i = 0; i < count; ++i) {
        to[i]->dependencies.push_back(from[i]);
        to[i]->edges.push_back(data ? data[i] : CUgraphEdgeData{});
        from[i]->dependents.push_back(to[i]);
    }
    return CUDA_SUCCESS;
}

CUresult remove_edges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, std::size_t count) {
    if (!valid_graph(graph) || (count && (!from || !to))) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
        if (!valid_node(from[i]) || !valid_node(to[i])) return CUDA_ERROR_INVALID_VALUE;
        const auto it = std::find(to[i]->dependencies.begin(), to[i]->dependencies.end(), from[i]);
        if (it == to[i]->dependencies.end()) return CUDA_ERROR_INVALID_VALUE;
        to[i]->edges.erase(to[i]->edges.begin() + (it - to[i]->dependencies.begin()));
        to[i]->dependencies.erase(it);
        std::erase(from[i]->dependents, to[i]);
    }
    return CUDA_SUCCESS;
}

CUresult dependencies(CUgraphNode node, CUgraphNode* list, CUgraphEdgeData* data, std::size_t* count) {
    if (!valid_node(node) || !count) return CUDA_ERROR_INVALID_VALUE;
    if (list && data)
        for (std::size_t i = 0; i < std::min(*count, node->edges.size()); ++i) data[i] = node->edges[i];
    return give(node->dependencies, list, count);
}

CUresult dependents(CUgraphNode node, CUgraphNode* list, CUgraphEdgeData* data, std::size_t* count) {
    if (!valid_node(node) || !count) return CUDA_ERROR_INVALID_VALUE;
    if (list && data)
        for (std::size_t i = 0; i < std::min(*count, node->dependents.size()); ++i) {
            const CUgraphNode_st* later = node->dependents[i];
            const auto at = std::find(later->dependencies.begin(), later->dependencies.end(), node);
            data[i] = later->edges[static_cast<std::size_t>(at - later->dependencies.begin())];
        }
    return give(node->dependents, list, count);
}

const char* type_name(CUgraphNodeType type) {
    static const char* const names[] = {"KERNEL",         "MEMCPY",       "MEMSET",     "HOST",
                                        "GRAPH",          "EMPTY",        "WAIT_EVENT", "EVENT_RECORD",
                                        "EXT_SEM_SIGNAL", "EXT_SEM_WAIT", "MEM_ALLOC",  "MEM_FREE",
                                        "BATCH_MEM_OP",   "CONDITIONAL"};
    return names[type];
}

void print_dot(std::FILE* file, const Graph& graph) {
    std::fprintf(file, "subgraph cluster_%llu {\nlabel=\"graph_%llu\";\n",
                 static_cast<unsigned long long>(graph.id), static_cast<unsigned long long>(graph.id));
    for (const auto& node : graph.nodes) {
        const auto* kernel = std::get_if<KernelWork>(&node->work);
        std::fprintf(file, "\"node_%llu\"[shape=\"record\" label=\"{%s|%s}\"];\n",
                     static_cast<unsigned long long>(node->id), type_name(node->type),
                     kernel ? kernel->resolved->name->c_str() : "");
        for (const CUgraphNode_st* before : node->dependencies)
            std::fprintf(file, "\"node_%llu\" -> \"node_%llu\";\n",
                         static_cast<unsigned long long>(before->id),
                         static_cast<unsigned long long>(node->id));
        if (const auto* child = std::get_if<ChildWork>(&node->work)) print_dot(file, *child->graph);
    }
    std::fprintf(file, "}\n");
}

void drop_object(CUuserObject object, unsigned count) {
    object->references -= std::min(object->references, count);
    if (object->references) return;
    driver().alive.erase(object);
    driver().deferred.push_back([object] {
        object->destroy(object->user);
        delete object;
    });
}

}  // namespace

SOFTCU cuGraphCreate(CUgraph* graph, unsigned flags) {
    SOFTGPU_CALL(kPlain);
    if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
    *graph = make_graph_handle(std::make_shared<Graph>());
    return CUDA_SUCCESS;
}

SOFTCU cuGraphDestroy(CUgraph graph) {
    SOFTGPU_CALL(kPlain);
    if (!valid_graph(graph) || !graph->owned) return CUDA_ERROR_INVALID_VALUE;
    drop_graph_handle(graph);
    return CUDA_SUCCESS;
}

SOFTCU cuGraphClone(CUgraph* clone, CUgraph graph) {
    SOFTGPU_CALL(kPlain);
    if (!clone || !valid_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    *clone = make_graph_handle(graph->graph->clone());
    return CUDA_SUCCESS;
}

SOFTCU cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode node, CUgraph clone) {
    SOFTGPU_CALL(kPlain);
    if (!out || !valid_node(node) || !valid_graph(clone)) return CUDA_ERROR_INVALID_VALUE;
    for (const auto& n : clone->graph->nodes)
        if (n->origin == node->id) {
            *out = n.get();
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

SOFTCU cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
    SOFTGPU_CALL(kPlain);
    if (!type || !valid_node(node)) return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

SOFTCU cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    SOFTGPU_CALL(kPlain);
    if (!valid_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode_st*> all;
    for (const auto& node : graph->graph->nodes) all.push_back(node.get());
    return give(all, nodes, count);
}

SOFTCU cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    SOFTGPU_CALL(kPlain);
    if (!valid_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode_st*> roots;
    for (const auto& node : graph->graph->nodes)
        if (node->dependencies.empty()) roots.push_back(node.get());
    return give(roots, nodes, count);
}

SOFTCU cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                          size_t* count) {
    SOFTGPU_CALL(kPlain);
    return edges(graph, from, to, data, count);
}

SOFTCU cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* list, CUgraphEdgeData* data,
                                     size_t* count) {
    SOFTGPU_CALL(kPlain);
    return dependencies(node, list, data, count);
}

SOFTCU cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* list, CUgraphEdgeData* data,
                                       size_t* count) {
    SOFTGPU_CALL(kPlain);
    return dependents(node, list, data, count);
}

SOFTCU cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                 const CUgraphEdgeData* data, size_t count) {
    SOFTGPU_CALL(kPlain);
    return add_edges(graph, from, to, data, count);
}

SOFTCU cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                    const CUgraphEdgeData*, size_t count) {
    SOFTGPU_CALL(kPlain);
    return remove_edges(graph, from, to, count);
}

#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
SOFTCU cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
    SOFTGPU_CALL(kPlain);
    return edges(graph, from, to, nullptr, count);
}

SOFTCU cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* list, size_t* count) {
    SOFTGPU_CALL(kPlain);
    return dependencies(node, list, nullptr, count);
}

SOFTCU cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* list, size_t* count) {
    SOFTGPU_CALL(kPlain);
    return dependents(node, list, nullptr, count);
}

SOFTCU cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
    SOFTGPU_CALL(kPlain);
    return add_edges(graph, from, to, nullptr, count);
}

SOFTCU cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                 size_t count) {
    SOFTGPU_CALL(kPlain);
    return remove_edges(graph, from, to, count);
}

SOFTCU cuGraphDestroyNode(CUgraphNode node) {
    SOFTGPU_CALL(kPlain);
    if (!valid_node(node)) return CUDA_ERROR_INVALID_VALUE;
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_NOT_SUPPORTED;
    node->graph->remove(node);
    return CUDA_SUCCESS;
}

SOFTCU cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned) {
    SOFTGPU_CALL(kPlain);
    if (!path || !valid_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    std::FILE* file = std::fopen(path, "w");
    if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
    std::fprintf(file, "digraph dot {\n");
    print_dot(file, *graph->graph);
    std::fprintf(file, "}\n");
    return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

// ---- user objects ----

SOFTCU cuUserObjectCreate(CUuserObject* object, void* user, CUhostFn destroy, unsigned count,
                          unsigned flags) {
    SOFTGPU_CALL(kPlain);
    if (!object || !destroy || count == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    *object = new CUuserObject_st{destroy, user, count};
    driver().alive[*object] = Kind::user_object;
    return CUDA_SUCCESS;
}

SOFTCU cuUserObjectRetain(CUuserObject object, unsigned count) {
    SOFTGPU_CALL(kPlain);
    if (driver().kind(object) != Kind::user_object || count == 0) return CUDA_ERROR_INVALID_VALUE;
    object->references += count;
    return CUDA_SUCCESS;
}

SOFTCU cuUserObjectRelease(CUuserObject object, unsigned count) {
    SOFTGPU_CALL(kPlain);
    if (driver().kind(object) != Kind::user_object || count == 0) return CUDA_ERROR_INVALID_VALUE;
    drop_object(object, count);
    return CUDA_SUCCESS;
}

SOFTCU cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
    SOFTGPU_CALL(kPlain);
    if (!valid_graph(graph) || driver().kind(object) != Kind::user_object || count == 0 ||
        (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}))
        return CUDA_ERROR_INVALID_VALUE;
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) object->references += count;
    graph->graph->user_objects[object] += count;
    return CUDA_SUCCESS;
}

SOFTCU cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
    SOFTGPU_CALL(kPlain);
    if (!valid_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    auto& held = graph->graph->user_objects;
    const auto it = held.find(object);
    if (it == held.end() || it->second < count) return CUDA_ERROR_INVALID_VALUE;
    it->second -= count;
    if (it->second == 0) held.erase(it);
    drop_object(object, count);
    return CUDA_SUCCESS;
}

// ---- memory held by graphs ----

SOFTCU cuDeviceGraphMemTrim(CUdevice device) {
    SOFTGPU_CALL(kPlain);
    return device >= 0 && device < options().devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

SOFTCU cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void* value) {
    SOFTGPU_CALL(kPlain);
    if (device < 0 || device >= options().devices) return CUDA_ERROR_INVALID_DEVICE;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    const Device& d = driver().devices[static_cast<std::size_t>(device)];
    const bool high =
        which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    *static_cast<cuuint64_t*>(value) = high ? d.graph_memory_peak : d.graph_memory;
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void* value) {
    SOFTGPU_CALL(kPlain);
    if (device < 0 || device >= options().devices) return CUDA_ERROR_INVALID_DEVICE;
    const bool high =
        which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    if (!value || !high || *static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
    Device& d = driver().devices[static_cast<std::size_t>(device)];
    d.graph_memory_peak = d.graph_memory;
    return CUDA_SUCCESS;
}
