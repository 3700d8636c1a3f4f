#include <numeric>

#include "planner/planner.h"
#include "planner/problem.h"
#include "planner/simple_planners.h"

namespace swapadvisor::planner {

Plan make_plan(const Graph& graph, const PlanOptions& options) {
    const std::string& name = options.planner;
    if (name != "ga" && name != "fast" && name != "lru" && name != "belady" && name != "belady-prefetch")
        throw PlanError("unknown planner '" + name + "': choose ga, fast, lru, belady or belady-prefetch");
    const Problem problem(graph, options);
    std::vector<OpId> order(graph.ops.size());
    std::iota(order.begin(), order.end(), 0);
    const Setting setting(problem, std::move(order), Allocation(problem));
    return simple_plan(setting, name == "ga" ? "fast" : name, options.no_remaps).plan;
}

}  // namespace swapadvisor::planner
