#include "planner/search/simple_planners.h"

#include <algorithm>
#include <numeric>

namespace swapadvisor::planner {

namespace {

std::vector<std::uint32_t> least_wanted_last(const Priorities& priorities) {
    std::vector<std::uint32_t> order(priorities.tail.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::min(priorities.tail[a], priorities.head[a]) <
               std::min(priorities.tail[b], priorities.head[b]);
    });
    return order;
}

/// The swaps of one rank.
struct Ranked {
    Choices choice;
    std::vector<std::int32_t> release_at;
    BuildOptions options;
    std::int64_t estimate_ns = INT64_MAX;  ///< if places did not matter

    /// False when they cannot be made to fit.
    bool find(const Setting& setting, Rank by, bool on_demand, bool prefetch, bool no_remaps) {
        const Priorities priorities = rank(setting, by);
        choice.assign(setting.problem.use_count(), GapChoice::keep);
        release_at.assign(on_demand ? setting.problem.use_count() : 0, -1);
        if (!cover(setting, priorities, choice, on_demand ? &release_at : nullptr)) return false;
        if (!on_demand) restore(setting, least_wanted_last(priorities), choice);
        options.swap.prefetch = prefetch;
        options.swap.early_save = !on_demand;
        options.swap.release_at = release_at;
        options.place.allow_remaps = !no_remaps;
        // A first plan soon; the search places its best again.
        options.place.attempts = on_demand ? 3 : 1;
        options.place.ejections = 3;
        options.place.polish = false;
        std::vector<Stay> residencies;
        stays(setting, choice, options.swap, residencies);
        Dispatch dispatch;
        Dispatcher().run(setting, residencies, options.swap, options.passes, dispatch);
        if (dispatch.ok) estimate_ns = dispatch.period_ns;
        return dispatch.ok;
    }
};

}  // namespace

std::optional<Built> last_resort(const Setting& setting, bool no_remaps) {
    const Problem& problem = setting.problem;
    Choices choice(problem.use_count(), GapChoice::keep);
    for (const Gap& g : setting.gaps) choice[g.use] = GapChoice::evict;
    for (std::size_t t = 0; t < problem.size.size();
         ++t)  // nothing crosses the boundary: places always exist
        if (problem.size[t] > 0 && problem.graph.tensors[t].persistent)
            choice[problem.first_use(static_cast<TensorId>(t) + 1) - 1] = GapChoice::evict;
    BuildOptions options;
    options.place.allow_remaps = !no_remaps;
    return build(setting, choice, options);
}

Built simple_plan(const Setting& full, const std::string& planner, bool no_remaps, bool quick) {
    Setting setting = full;
    const bool on_demand = planner != "fast";
    const bool prefetch = planner == "fast" || planner == "belady-prefetch";
    std::vector<Rank> ranks{planner == "lru" ? Rank::least_recent : Rank::farthest_next};
    if (planner == "fast") ranks = {Rank::farthest_next, Rank::longest_gap, Rank::largest_gap};
    // Places may fail at the full pool: then leave some of it free, as little as it takes.
    std::optional<Built> best;
    for (const double spare : {0.0, 0.05, 0.15, 0.3, 0.5, 0.75, 1.0}) {
        setting.spare = spare;
        std::vector<Ranked> found;
        for (const Rank by : ranks) {
            Ranked ranked;
            if (ranked.find(setting, by, on_demand, prefetch, no_remaps)) found.push_back(std::move(ranked));
        }
        std::stable_sort(found.begin(), found.end(),
                         [](const Ranked& a, const Ranked& b) { return a.estimate_ns < b.estimate_ns; });
        for (Ranked& r : found) {
            if (quick) r.options.place.ejections = 0;
            if (best && (quick || best->sim.period_ns <= r.estimate_ns)) break;
            auto built = build(setting, r.choice, r.options);
            if (built && (!best || better(*built, *best))) best = std::move(built);
        }
        if (best) break;
    }
    if (!best) best = last_resort(setting, no_remaps);
    if (!best)
        throw PlanError("no plan found within " + std::to_string(setting.problem.limit_bytes) + " bytes" +
                        (no_remaps ? " that keeps every tensor in one place: allow remaps or raise the limit"
                                   : ": raise the limit"));
    return std::move(*best);
}

}  // namespace swapadvisor::planner
