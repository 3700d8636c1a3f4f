// A graph launch becomes simulated operations: a marker behind the stream, the nodes by their edges, a marker
// at the end.
#include <algorithm>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/capture.h"
#include "tests/softgpu/driver/graph_api.h"
#include "tests/softgpu/driver/launch.h"

namespace softgpu {
namespace {

struct Launch {
    StreamRef stream;
    std::vector<unsigned> slots;  ///< taken for branches
};

OpRef quiet_op(const StreamRef& stream, const char* name) {
    OpRef op = new_op(stream, name);
    op->quiet = true;
    return op;
}

/// Places the nodes of `graph` behind `first`; returns an operation behind all of them.
OpRef place_graph(Launch& launch, const Graph& graph, const OpRef& first) {
    Driver& d = driver();
    std::map<const CUgraphNode_st*, OpRef> placed;
    std::unordered_set<const Op*> continued;  // whose slot a later node has taken over
    std::vector<OpRef> leaves;
    std::vector<const VectorClock*> leaf_clocks;
    for (CUgraphNode_st* node : graph.sorted()) {
        std::vector<OpRef> after;
        for (const CUgraphNode_st* before : node->dependencies) after.push_back(placed[before]);
        if (after.empty()) after.push_back(first);
        std::vector<const VectorClock*> clocks;
        for (const OpRef& op : after) clocks.push_back(&op->clock);
        OpRef op;
        if (const auto* child = std::get_if<ChildWork>(&node->work); child && node->enabled) {
            // A marker of its own slot's continuation, then the nested nodes.
            OpRef entry = quiet_op(launch.stream, "child graph");
            entry->slot = after[0]->slot;
            place(entry, after, clocks);
            op = place_graph(launch, *child->graph, entry);
        } else {
            Work work = node->enabled ? node->work : Work{EmptyWork{}};
            op = make_op(launch.stream, work);
            if (const auto* kernel = std::get_if<KernelWork>(&work)) {
                op->context = kernel->resolved->module->context;
                op->device = op->context->device;
            }
            if (const auto* release = std::get_if<FreeWork>(&work)) {
                const std::uint64_t address = release->address;
                if (Span* span = d.memory.find(address)) ++span->graph_frees;
                op->on_end = [address](Op&) {
                    if (Span* span = driver().memory.find(address)) --span->graph_frees;
                    release_graph_memory(address);
                };
            }
            if (const auto* wait = std::get_if<WaitWork>(&work); wait && wait->event->record) {
                after.push_back(wait->event->record);
                clocks.push_back(&wait->event->record->clock);
            }
            // Branches get slots of their own, so that they do not count as ordered.
            if (continued.insert(after[0].get()).second) {
                op->slot = after[0]->slot;
            } else {
                op->slot = d.take_slot();
                launch.slots.push_back(op->slot);
            }
            place(op, after, clocks);
            note_work(op, work);
            if (auto* record = std::get_if<RecordWork>(&work)) {
                record->event->record = op;
            }
        }
        placed[node] = op;
    }
    for (const auto& node : graph.nodes)
        if (node->dependents.empty()) leaves.push_back(placed[node.get()]);
    if (leaves.empty()) leaves.push_back(first);
    for (const OpRef& op : leaves) leaf_clocks.push_back(&op->clock);
    OpRef last = quiet_op(launch.stream, "graph end");
    last->slot = first->slot;
    place(last, leaves, leaf_clocks);
    return last;
}

bool claim(const Graph& graph, CUctx_st* context, bool auto_free, CUresult* error) {
    for (const auto& node : graph.nodes) {
        if (const auto* child = std::get_if<ChildWork>(&node->work)) {
            if (!claim(*child->graph, context, auto_free, error)) return false;
        } else if (const auto* alloc = std::get_if<AllocWork>(&node->work)) {
            bool still = false;
            if (!claim_graph_memory(*alloc, context, &still)) {
                *error = CUDA_ERROR_OUT_OF_MEMORY;
                return false;
            }
            if (still) {
                // Allocated by an earlier launch and not freed since.
                release_graph_memory(alloc->params.dptr);
                if (!auto_free) {
                    *error = CUDA_ERROR_INVALID_VALUE;
                    return false;
                }
            }
        }
    }
    return true;
}

}  // namespace

CUresult launch_graph(Call& call, CUgraphExec_st* exec, const StreamRef& stream) {
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->context->error != CUDA_SUCCESS) return stream->context->error;
    if (stream->capture) return submit(call, stream, ChildWork{exec->graph->clone()});
    if (const CUresult r = refuse_implicit(stream); r != CUDA_SUCCESS) return r;
    CUresult error = CUDA_SUCCESS;
    if (!claim(*exec->graph, stream->context, exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
               &error))
        return error;
    Launch launch{stream, {}};
    OpRef first = quiet_op(stream, "graph start");
    std::vector<const VectorClock*> known;
    if (exec->last) known.push_back(&exec->last->clock);
    enqueue(stream, first, {exec->last}, known);
    OpRef last = place_graph(launch, *exec->graph, first);
    // The stream goes on behind the end marker; slots of branches and the graph itself live until then.
    OpRef end = quiet_op(stream, "graph done");
    end->on_end = [slots = launch.slots, graph = exec->graph](Op&) {
        for (const unsigned slot : slots) driver().release_slot(slot);
    };
    enqueue(stream, end, {last}, {&last->clock});
    exec->last = end;
    bound_queue(call);
    return CUDA_SUCCESS;
}

}  // namespace softgpu
