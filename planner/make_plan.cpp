#include <chrono>
#include <numeric>

#include "planner/genetic.h"
#include "planner/planner.h"
#include "planner/problem.h"
#include "planner/simple_planners.h"

namespace swapadvisor::planner {

Plan make_plan(const Graph& graph, const PlanOptions& options) {
    const auto begin = std::chrono::steady_clock::now();
    const std::function<double()> elapsed = [begin] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    const std::string& name = options.planner;
    if (name != "ga" && name != "fast" && name != "lru" && name != "belady" && name != "belady-prefetch")
        throw PlanError("unknown planner '" + name + "': choose ga, fast, lru, belady or belady-prefetch");
    if (options.classes != "ours" && options.classes != "paper")
        throw PlanError("unknown classes '" + options.classes + "': choose ours or paper");
    const Problem problem(graph, options);
    std::optional<Built> first;
    if (name != "ga" || options.classes == "ours") {
        std::vector<OpId> order(graph.ops.size());
        std::iota(order.begin(), order.end(), 0);
        const Setting setting(problem, std::move(order), Allocation(problem));
        if (name != "ga") return simple_plan(setting, name, options.no_remaps).plan;
        try {
            first = simple_plan(setting, "fast", options.no_remaps);
        } catch (const PlanError&) {  // the search may still find one
        }
        if (first && options.on_better) options.on_better(first->plan, elapsed());
    }
    return search(problem, options, std::move(first), elapsed).plan;
}

}  // namespace swapadvisor::planner
