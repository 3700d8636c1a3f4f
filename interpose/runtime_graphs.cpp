// Executable graphs: their life, and how they are launched: in one piece where all that they name fits, else node by node.
#include "interpose/runtime_graphs.h"

#include <algorithm>

#include "interpose/log.h"
#include "interpose/runtime_plan.h"

namespace swapadvisor {

void GraphWork::name(Buffer* buffer) {
    if (named[buffer]++ != 0) return;
    uses.push_back(buffer);
    ++buffer->graphs;
}

void GraphWork::unname(Buffer* buffer) {
    const auto found = named.find(buffer);
    if (found == named.end() || --found->second != 0) return;
    named.erase(found);
    std::erase(uses, buffer);
    --buffer->graphs;
}

void GraphWork::drop_uses() {
    for (Buffer* buffer : uses) --buffer->graphs;
    uses.clear();
    named.clear();
}

void forget_graphs_of(RuntimeState& state, const Residency& residency) {
    state.forget_captures_of(residency);
    for (auto& [exec, work] : state.graphs) {
        std::erase_if(work->uses, [&](Buffer* b) { return b->owner == &residency; });
        std::erase_if(work->named, [&](const auto& entry) { return entry.first->owner == &residency; });
        for (GraphNode& node : work->nodes)
            std::erase_if(node.uses, [&](Buffer* b) { return b->owner == &residency; });
    }
}

void Runtime::graph_instantiated(CUgraphExec exec, CUgraph graph) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    if (state.contexts.empty()) return;
    auto work = std::make_unique<GraphWork>();
    read_graph(state, *work, graph);
    if (auto& old = state.graphs[exec]) old->drop_uses();
    state.graphs[exec] = std::move(work);
    state.forget_captured_graph(graph);
    state.finish_deferred_frees();
}

// Changes `work` by `change(work)`; what no node names any more, and the program has freed, can go then.
template <class Change>
void RuntimeState::change_graph(CUgraphExec exec, Change change) {
    std::lock_guard lock(mutex);
    const auto found = graphs.find(exec);
    if (found == graphs.end()) return;
    change(*found->second);
    finish_deferred_frees();
}

template <class Change>
void RuntimeState::change_node(CUgraphExec exec, CUgraphNode handle, Change change) {
    change_graph(exec, [&](GraphWork& work) {
        for (GraphNode& node : work.nodes)
            if (node.node == handle) change(work, node);
    });
}

// The same for parameters that name other memory.
template <class Set>
void RuntimeState::readdress_node(CUgraphExec exec, CUgraphNode handle, Set set) {
    change_node(exec, handle, [&](GraphWork& work, GraphNode& node) {
        set(node);
        note_uses(*this, work, node);
    });
}

void Runtime::graph_exec_updated(CUgraphExec exec, CUgraph graph) {
    RuntimeState& state = RuntimeState::of(this);
    state.change_graph(exec, [&](GraphWork& work) {
        GraphWork fresh;
        read_graph(state, fresh, graph);
        if (take_parameters(work, 0, work.nodes.size(), fresh)) return;
        fresh.drop_uses();
        work.unread = work.opaque = true;  // the driver sees a likeness that was not found here
    });
}

void Runtime::graph_exec_child_changed(CUgraphExec exec, CUgraphNode handle, CUgraph child) {
    RuntimeState& state = RuntimeState::of(this);
    state.change_graph(exec, [&](GraphWork& work) {
        GraphWork fresh;
        read_graph(state, fresh, child);
        for (const ChildGraph& c : work.children)
            if (c.node == handle && take_parameters(work, c.first, c.count, fresh)) return;
        fresh.drop_uses();
        work.unread = work.opaque = true;
    });
}

void Runtime::graph_exec_kernel_changed(CUgraphExec exec, CUgraphNode handle, const KernelLaunch& launch) {
    RuntimeState& state = RuntimeState::of(this);
    state.change_node(exec, handle,
                      [&](GraphWork& work, GraphNode& node) { change_kernel(state, work, node, launch); });
}

void Runtime::graph_exec_copy_changed(CUgraphExec exec, CUgraphNode handle, const CUDA_MEMCPY3D& copy) {
    RuntimeState::of(this).readdress_node(exec, handle, [&](GraphNode& node) { node.copy = copy; });
}

void Runtime::graph_exec_memset_changed(CUgraphExec exec, CUgraphNode handle,
                                        const CUDA_MEMSET_NODE_PARAMS& fill) {
    RuntimeState::of(this).readdress_node(exec, handle, [&](GraphNode& node) { node.fill = fill; });
}

void Runtime::graph_exec_host_changed(CUgraphExec exec, CUgraphNode handle,
                                      const CUDA_HOST_NODE_PARAMS& host) {
    RuntimeState::of(this).change_node(exec, handle, [&](GraphWork&, GraphNode& node) { node.host = host; });
}

void Runtime::graph_exec_event_changed(CUgraphExec exec, CUgraphNode handle, CUevent event) {
    RuntimeState::of(this).change_node(exec, handle,
                                       [&](GraphWork&, GraphNode& node) { node.event = event; });
}

void Runtime::graph_exec_memory_operations_changed(CUgraphExec exec, CUgraphNode handle,
                                                   const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
    RuntimeState::of(this).readdress_node(exec, handle, [&](GraphNode& node) {
        node.memory_operations.assign(params.paramArray, params.paramArray + params.count);
    });
}

void Runtime::graph_node_enabled(CUgraphExec exec, CUgraphNode handle, bool enabled) {
    RuntimeState::of(this).change_node(exec, handle,
                                       [&](GraphWork&, GraphNode& node) { node.enabled = enabled; });
}

void Runtime::graph_exec_destroyed(CUgraphExec exec) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    auto found = state.graphs.find(exec);
    if (found == state.graphs.end()) return;
    found->second->drop_uses();
    state.graphs.erase(found);
    state.finish_deferred_frees();
}

OpToken Runtime::begin_graph_launch(CUgraphExec exec, CUstream stream, DefaultStream default_stream) {
    RuntimeState& state = RuntimeState::of(this);
    PendingOp* const opened = state.open(false);
    if (opened == nullptr) return {};
    PendingOp& op = *opened;
    auto found = state.graphs.find(exec);
    // A launch into a capture becomes a child node: the outer graph's launch is the op.
    const bool counts = found != state.graphs.end() && !state.is_capturing(stream, default_stream);
    if (counts) {
        if (const CUresult result = state.look_through_copies(*found->second); result != CUDA_SUCCESS)
            return state.fail(op, result, "a graph's copy");
    }
    if (!counts || (found->second->uses.empty() && !found->second->unread)) {
        state.unknown_to_timeline = state.unknown_to_timeline || !state.is_capturing(stream, default_stream);
        op.busy = false;
        state.mutex.unlock();
        return {};
    }
    GraphWork& work = *found->second;
    bool over = false;
    for (Buffer* buffer : work.uses) over = over || buffer->owner->over_limit();
    if (!over || work.opaque) {
        for (Buffer* buffer : work.uses) op.uses.push_back({buffer, Access::read_write, false});
        if (work.unread)  // it may use anything
            for (auto& m : state.contexts)
                if (m->residency)
                    m->residency->for_each_large(
                        [&](Buffer& b) { state.add_use(op, &b, Access::read_write); });
        const unsigned geometry[6] = {static_cast<unsigned>(work.nodes.size()), 0, 0, 0, 0, 0};
        op.graph = &work;
        op.host_sees = true;
        return state.begin(op, OpKind::graph, work.nodes.size() + 1, geometry, stream, default_stream,
                           "a graph");
    }
    return state.launch_node_by_node(op, work, stream, default_stream);
}

// Only what one node touches has to be resident at once, and plans can look inside. Entered with the lock held, left without.
OpToken RuntimeState::launch_node_by_node(PendingOp& op, GraphWork& work, CUstream stream,
                                          DefaultStream default_stream) {
    ++unrolled_graphs;
    CUstream target = stream;
    if (target == nullptr)
        target = default_stream == DefaultStream::per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    OpToken token;
    token.fail = CUDA_SUCCESS;
    CUcontext context = nullptr;
    if (const CUresult result = api.cuCtxGetCurrent_(&context); result != CUDA_SUCCESS)
        return fail(op, result, "a graph");
    const QueueId queue = queue_for(context, stream, default_stream);
    // Launches of one executable graph come one after another, whatever their streams.
    if (const CUresult result = timeline->order(queue, work.last); result != CUDA_SUCCESS)
        return fail(op, result, "a graph");
    for (GraphNode& node : work.nodes) {
        if (!node.enabled || node.type == CU_GRAPH_NODE_TYPE_EMPTY) continue;
        op.busy = true;
        op.graph = nullptr;
        op.uses.clear();
        const NodeOp what = node_op(*this, node);
        for (Buffer* buffer : node.uses) op.uses.push_back({buffer, Access::read_write, false});
        OpToken inner = begin(op, what.kind, what.function, what.geometry, stream, default_stream, what.what);
        if (inner.fail) {  // unlocked
            note_graph_launch(work, queue);
            return inner;
        }
        if (inner.state == nullptr) mutex.lock();  // touches nothing managed
        op.busy = true;
        const CUresult result = issue_node(*this, node, target);
        if (inner.state != nullptr) end(op, result);
        if (result != CUDA_SUCCESS) {
            token.fail = result;
            break;
        }
        note_gates(node, queue);
    }
    work.last = timeline->issued(queue);
    op.busy = false;
    mutex.unlock();
    return token;
}

// What the program itself opens: nothing of ours may wait behind it (replayer/timeline.h).
void RuntimeState::note_gates(const GraphNode& node, QueueId queue) {
    if (node.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) timeline->event_recorded(node.event, queue);
    if (node.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) timeline->event_waited(queue, node.event);
    if (is_gate(node)) gate(queue);
}

void RuntimeState::note_graph_launch(GraphWork& work, QueueId queue) {
    std::lock_guard lock(mutex);
    work.last = timeline->issued(queue);
}

}  // namespace swapadvisor
