#include "planner/bound.h"

#include <algorithm>

#include "planner/bound_model.h"
#include "planner/planner.h"

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

    bounds::ModelOptions coarse;
    coarse.limit_bytes = options.limit_bytes;
    const bounds::Model model = bounds::build_model(graph, coarse);
    double in_bytes = 0, out_bytes = 0;
    const auto prices = bounds::traffic_prices(model, options.seconds, in_bytes, out_bytes);
    result.in_bytes = static_cast<std::int64_t>(in_bytes);
    result.out_bytes = static_cast<std::int64_t>(out_bytes);
    const auto whole = [](long double ns) {
        return static_cast<std::int64_t>(std::max(0.0L, ns * (1 - 1e-12L) - 1));
    };
    result.traffic_ns = whole(bounds::proved_ns(model, prices));
    if (!options.timed) return result;
    long double best = 0;
    bounds::timed_prices(model, prices, options.seconds, best, result.note);
    result.timed_ns = whole(best);
    return result;
}

}  // namespace swapadvisor::planner
