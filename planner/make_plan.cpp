#include <numeric>

#include "planner/planner.h"
#include "planner/problem/problem.h"
#include "planner/search/exact.h"
#include "planner/search/genetic.h"
#include "planner/search/simple_planners.h"

namespace swapadvisor::planner {

namespace {

/// Small enough to look at every plan, and nothing is ruled out that could be best.
bool may_search_all(const Problem& problem, const PlanOptions& options) {
    return options.classes == "ours" && options.vary_allocation && options.vary_swaps && options.guided &&
           options.genetic && !problem.graph.ops.empty() && problem.graph.ops.size() <= most_exact_ops;
}

/// The optimum of a tiny graph: a short search finds what to beat, then every plan is looked at. Where the
/// budget is not enough for that, the better of both and of the whole search.
Built search_tiny(const Problem& problem, const PlanOptions& options, std::optional<Built> first,
                  Effort& effort) {
    constexpr int short_search = 12;  // generations
    std::optional<Built> best = first;
    PlanOptions some = options;
    some.on_better = [&](const Plan& plan, Spent spent) {
        if (options.on_better && (!best || plan.predicted_ns < best->sim.period_ns))
            options.on_better(plan, spent);
    };
    const auto take = [&](Built found) {
        if (!best || found.sim.period_ns < best->sim.period_ns) best = std::move(found);
    };
    some.generations = options.generations > 0 ? std::min(options.generations, short_search) : short_search;
    try {
        take(search(problem, some, first, effort));
    } catch (const PlanError&) {  // there may be one all the same
    }
    const std::int64_t before = best ? best->sim.period_ns : INT64_MAX;
    Exact exact = search_all(problem, options, best, [&] {
        return options.over(effort.spent(), 0.5);  // the rest is the search's
    });
    if (exact.best && exact.best->sim.period_ns < before && options.on_better)
        options.on_better(exact.best->plan, effort.spent());
    best = std::move(exact.best);
    if (exact.complete || (best && options.generations > 0 && options.generations <= short_search))
        return std::move(*best);
    some.generations = options.generations;
    try {
        take(search(problem, some, std::move(first), effort));
    } catch (const PlanError&) {
        if (!best) throw;
    }
    return std::move(*best);
}

}  // namespace

Plan make_plan(const Graph& graph, const PlanOptions& options) {
    Effort effort;
    return make_plan(graph, options, effort);
}

Plan make_plan(const Graph& graph, const PlanOptions& options, Effort& effort) {
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
            first = simple_plan(setting, "fast", options.no_remaps, true);
        } catch (const PlanError&) {  // the search may still find one
        }
        if (first && options.on_better) options.on_better(first->plan, effort.spent());
    }
    if (may_search_all(problem, options)) return search_tiny(problem, options, std::move(first), effort).plan;
    return search(problem, options, std::move(first), effort).plan;
}

}  // namespace swapadvisor::planner
