// Why the bounds are valid for every plan that the format allows, in program order.
//
// Compute. Ops run one after another, so the period is at least the sum of their durations.
//
// The relaxation of the other two. Take any valid plan in its steady state. For every tensor and every gap
// between two successive uses (for persistent tensors also from the last use over the boundary to the first),
// either the tensor stays all the while, or it is copied in again before the later use. If it leaves after a
// write, its contents must have been copied out between that write and then, once per written version however
// many gaps follow; a tensor that is never written needs no copy. When an op starts, the tensors it touches
// and those that have not left are in memory together, so their sizes add up to no more than the limit.
// Counted in favour of the plan: tensors may leave in part, chunks round nothing up, nothing is fragmented, a
// `save` may come as early as the write allows (so does every plan that saves early), the order within a
// queue is free, a tensor used by two successive ops need not be looked at, and contents never written (a
// newborn that is read first) need no copy.
//
// Traffic. Each queue carries what must move in one period: latency and bytes over rate for each transfer.
// While both directions move, both are scaled to `duplex`; with s = duplex / (h2d + d2h) < 1 the time in
// which both move can be eliminated, which leaves in + (1 - t) out <= period and its mirror image, t = max(0,
// 2 - 1/s). The least period over all choices of what leaves is a linear programme.
//
// Timed. Time is cut into slots at the starts of ops; a slot lasts as long as its ops plus a stall of unknown
// length. What leaves in a slot is gone from the next start on, what comes back must be complete by the start
// of the op that needs it and takes its memory from the slot in which it moves. Each queue has each slot's
// time once; a version born by the slot's op can be copied out only in the time after it. The period is the
// compute time plus the stalls. Where plans alternate between iterations, the average of their steady
// iterations is a solution of the same programme.
//
// Both are proved apart from the solver: bound_proof.cpp turns the programme's prices into a bound by weak
// duality. Large graphs: memory is judged at the starts of some ops only, and versions that are alike are
// merged; both only take rules away.
#include "planner/bound/bound.h"

#include <algorithm>
#include <optional>

#include "planner/base/time_left.h"
#include "planner/bound/bound_model.h"
#include "planner/model/plan_error.h"

namespace swapadvisor::planner {

std::int64_t Bounds::best_ns() const {
    return std::max({compute_ns, traffic_ns, timed_ns});
}

const char* Bounds::best_name() const {
    if (timed_ns > std::max(compute_ns, traffic_ns)) return "timed";
    return traffic_ns > compute_ns ? "traffic" : "compute";
}

std::int64_t least_memory_bytes(const Graph& graph) {
    std::int64_t least = 0;
    std::vector<OpId> seen(graph.tensors.size(), -1);
    for (OpId i = 0; i < static_cast<OpId>(graph.ops.size()); ++i) {
        std::int64_t used = 0;
        for (const auto* list : {&graph.ops[i].reads, &graph.ops[i].writes})
            for (TensorId t : *list) {
                if (seen[t] == i) continue;
                seen[t] = i;
                used += graph.tensors[t].bytes;
            }
        least = std::max(least, used);
    }
    return least;
}

std::int64_t peak_memory_bytes(const Graph& graph) {
    const std::size_t n = graph.ops.size();
    std::vector<std::int64_t> change(n + 1);
    std::vector<std::pair<int, int>> life(graph.tensors.size(), {-1, -1});
    for (int i = 0; i < static_cast<int>(n); ++i)
        for (const auto* list : {&graph.ops[i].reads, &graph.ops[i].writes})
            for (TensorId t : *list) {
                if (life[t].first < 0) life[t].first = i;
                life[t].second = i;
            }
    std::int64_t persistent = 0, peak = 0, live = 0;
    for (std::size_t t = 0; t < life.size(); ++t) {
        if (life[t].first < 0) continue;
        if (graph.tensors[t].persistent) {
            persistent += graph.tensors[t].bytes;
            continue;
        }
        change[life[t].first] += graph.tensors[t].bytes;
        change[life[t].second + 1] -= graph.tensors[t].bytes;
    }
    for (std::size_t i = 0; i < n; ++i) peak = std::max(peak, live += change[i]);
    return peak + persistent;
}

Bounds bound(const Graph& graph, const BoundOptions& options) {
    Bounds result;
    for (const Op& op : graph.ops) result.compute_ns += op.duration_ns;
    const std::int64_t least = least_memory_bytes(graph);
    if (least > options.limit_bytes)
        throw PlanError("the graph cannot run in " + std::to_string(options.limit_bytes) +
                        " bytes: one op alone uses " + std::to_string(least) + "; give it at least that");
    if (graph.ops.empty()) return result;

    const TimeLeft left(options.seconds);
    const auto whole = [](long double ns) {
        return static_cast<std::int64_t>(std::max(0.0L, ns * (1 - 1e-12L) - 1));
    };
    // Few slots first: their prices are a good start for more.
    bounds::ModelOptions shape;
    shape.limit_bytes = options.limit_bytes;
    // Beyond this size a programme with a row for every op takes minutes.
    if (graph.ops.size() > 4000) shape.most_slots = 600;
    const bounds::Model model = bounds::build_model(graph, shape);
    double in_bytes = 0, out_bytes = 0;
    auto prices = bounds::traffic_prices(model, std::max(1.0, left() / 2), in_bytes, out_bytes);
    result.in_bytes = static_cast<std::int64_t>(in_bytes);
    result.out_bytes = static_cast<std::int64_t>(out_bytes);
    result.traffic_ns = whole(bounds::proved_ns(model, prices));
    if (model.ignored_bytes > 0 || model.slots < static_cast<int>(graph.ops.size()))
        result.note = "a large graph: memory is judged at " + std::to_string(model.slots) + " of its ops";
    if (!options.timed) return result;

    bool finished = true;
    const auto refine = [&](const bounds::Model& at, const bounds::Prices& start, int samples,
                            double seconds) {
        long double best = 0;
        auto found = bounds::timed_prices(at, start, samples, seconds, best, finished);
        result.timed_ns = std::max(result.timed_ns, whole(best));
        return found;
    };
    std::optional<bounds::Model> before;
    for (const int slots : {160, 480}) {
        if (slots * 3 / 2 > model.slots) break;
        shape.most_slots = slots;
        bounds::Model at = bounds::build_model(graph, shape);
        prices =
            refine(at, bounds::refined(prices, before ? *before : model, at), before ? 4 : 8, left() / 2);
        before = std::move(at);
    }
    if (before) prices = bounds::refined(prices, *before, model);
    refine(model, prices, 4, left());
    if (!finished)
        result.note +=
            std::string(result.note.empty() ? "" : "; ") + "the timed bound was cut short and may be loose";
    return result;
}

}  // namespace swapadvisor::planner
