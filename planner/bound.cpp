#include "planner/bound.h"

#include <algorithm>
#include <chrono>
#include <optional>

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

    const auto begin = std::chrono::steady_clock::now();
    const auto left = [&] {
        return options.seconds -
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
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
