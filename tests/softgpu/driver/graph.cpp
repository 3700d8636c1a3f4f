#include "tests/softgpu/driver/graph.h"

#include <algorithm>

namespace softgpu {

namespace {
std::uint64_t g_ids = 0;  // guarded by the driver's lock

CUgraphNodeType type_of(const Work& work) {
    struct {
        CUgraphNodeType operator()(const EmptyWork&) { return CU_GRAPH_NODE_TYPE_EMPTY; }
        CUgraphNodeType operator()(const KernelWork&) { return CU_GRAPH_NODE_TYPE_KERNEL; }
        CUgraphNodeType operator()(const CopyWork&) { return CU_GRAPH_NODE_TYPE_MEMCPY; }
        CUgraphNodeType operator()(const MemsetWork&) { return CU_GRAPH_NODE_TYPE_MEMSET; }
        CUgraphNodeType operator()(const HostWork&) { return CU_GRAPH_NODE_TYPE_HOST; }
        CUgraphNodeType operator()(const RecordWork&) { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
        CUgraphNodeType operator()(const WaitWork&) { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
        CUgraphNodeType operator()(const BatchWork&) { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
        CUgraphNodeType operator()(const ChildWork&) { return CU_GRAPH_NODE_TYPE_GRAPH; }
        CUgraphNodeType operator()(const AllocWork&) { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
        CUgraphNodeType operator()(const FreeWork&) { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
    } visitor;
    return std::visit(visitor, work);
}
}  // namespace

Graph::Graph() : id(++g_ids) {}

Graph::~Graph() {
    if (const auto it = driver().child_handles.find(this); it != driver().child_handles.end()) {
        driver().alive.erase(it->second);
        delete it->second;
        driver().child_handles.erase(it);
    }
    for (const auto& node : nodes) driver().alive.erase(node.get());
    for (const auto& [object, count] : user_objects) {
        object->references -= std::min(object->references, count);
        if (object->references > 0) continue;
        driver().alive.erase(object);
        driver().deferred.push_back([object = object] {
            object->destroy(object->user);
            delete object;
        });
    }
}

CUgraphNode_st* Graph::add(Work work, const std::vector<CUgraphNode_st*>& after) {
    auto node = std::make_unique<CUgraphNode_st>();
    node->graph = this;
    node->type = type_of(work);
    node->work = std::move(work);
    if (auto* copy = std::get_if<CopyWork>(&node->work); copy && !copy->sides)
        copy->sides = {on_device(copy->from.address), on_device(copy->to.address)};
    node->id = node->origin = ++g_ids;
    node->dependencies = after;
    node->edges.resize(after.size());
    for (CUgraphNode_st* before : after) before->dependents.push_back(node.get());
    driver().alive[node.get()] = Kind::node;
    nodes.push_back(std::move(node));
    return nodes.back().get();
}

void Graph::remove(CUgraphNode_st* node) {
    for (CUgraphNode_st* before : node->dependencies) std::erase(before->dependents, node);
    for (CUgraphNode_st* later : node->dependents) {
        for (std::size_t i = later->dependencies.size(); i-- > 0;)
            if (later->dependencies[i] == node) {
                later->dependencies.erase(later->dependencies.begin() + static_cast<std::ptrdiff_t>(i));
                later->edges.erase(later->edges.begin() + static_cast<std::ptrdiff_t>(i));
            }
    }
    driver().alive.erase(node);
    nodes.remove_if([&](const auto& n) { return n.get() == node; });
}

std::shared_ptr<Graph> Graph::clone(std::map<const CUgraphNode_st*, CUgraphNode_st*>* map) const {
    auto copy = std::make_shared<Graph>();
    std::map<const CUgraphNode_st*, CUgraphNode_st*> local;
    if (!map) map = &local;
    for (const auto& node : nodes) {
        Work work = node->work;
        if (auto* nested = std::get_if<ChildWork>(&work)) {
            nested->graph = nested->graph->clone();
            nested->graph->child = true;
        }
        CUgraphNode_st* made = copy->add(std::move(work), {});
        made->origin = node->id;
        made->enabled = node->enabled;
        (*map)[node.get()] = made;
    }
    for (const auto& node : nodes) {
        CUgraphNode_st* made = (*map)[node.get()];
        made->edges = node->edges;
        for (const CUgraphNode_st* before : node->dependencies) {
            made->dependencies.push_back((*map)[before]);
            (*map)[before]->dependents.push_back(made);
        }
    }
    for (const auto& [object, count] : user_objects) {
        object->references += count;
        copy->user_objects[object] = count;
    }
    return copy;
}

std::vector<CUgraphNode_st*> Graph::sorted() const {
    std::vector<CUgraphNode_st*> order;
    std::map<const CUgraphNode_st*, std::size_t> waiting;
    for (const auto& node : nodes) {
        waiting[node.get()] = node->dependencies.size();
        if (node->dependencies.empty()) order.push_back(node.get());
    }
    for (std::size_t i = 0; i < order.size(); ++i)
        for (CUgraphNode_st* next : order[i]->dependents)
            if (--waiting[next] == 0) order.push_back(next);
    if (order.size() != nodes.size()) order.clear();
    return order;
}

}  // namespace softgpu
