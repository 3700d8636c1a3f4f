#include "planner/simple_planners.h"

#include <algorithm>
#include <numeric>

namespace swapadvisor::planner {

namespace {

std::vector<std::uint32_t> least_wanted_last(std::span<const Gap> gaps, const Priorities& priorities) {
    std::vector<std::uint32_t> order(gaps.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::min(priorities.tail[a], priorities.head[a]) <
               std::min(priorities.tail[b], priorities.head[b]);
    });
    return order;
}

std::optional<Built> try_rank(const Problem& problem, const Sequence& sequence, std::span<const Gap> gaps,
                              Rank by, bool on_demand, bool prefetch, std::int32_t capacity, bool no_remaps) {
    const Priorities priorities = rank(problem, sequence, gaps, by);
    std::vector<GapChoice> choice(problem.use_count(), GapChoice::keep);
    std::vector<std::int32_t> release_at(on_demand ? problem.use_count() : 0, -1);
    if (!cover(problem, sequence, gaps, priorities, capacity, choice, on_demand ? &release_at : nullptr))
        return {};
    if (!on_demand) restore(problem, sequence, gaps, least_wanted_last(gaps, priorities), capacity, choice);
    BuildOptions options;
    options.swap.prefetch = prefetch;
    options.swap.early_save = !on_demand;
    options.swap.release_at = release_at;
    options.place.allow_remaps = !no_remaps;
    return build(problem, sequence, choice, options);
}

}  // namespace

std::optional<Built> last_resort(const Problem& problem, const Sequence& sequence, bool no_remaps) {
    const auto gaps = gaps_of(problem, sequence);
    std::vector<GapChoice> choice(problem.use_count(), GapChoice::keep);
    for (const Gap& g : gaps) choice[g.use] = GapChoice::evict;
    for (std::size_t t = 0; t < problem.size.size(); ++t)  // nothing crosses the boundary: places always exist
        if (problem.size[t] > 0 && problem.graph.tensors[t].persistent)
            choice[problem.first_use(static_cast<TensorId>(t) + 1) - 1] = GapChoice::evict;
    BuildOptions options;
    options.place.allow_remaps = !no_remaps;
    return build(problem, sequence, choice, options);
}

Built simple_plan(const Problem& problem, const Sequence& sequence, const std::string& planner,
                  bool no_remaps) {
    const bool on_demand = planner != "fast";
    const bool prefetch = planner == "fast" || planner == "belady-prefetch";
    std::vector<Rank> ranks{planner == "lru" ? Rank::least_recent : Rank::farthest_next};
    if (planner == "fast") ranks = {Rank::farthest_next, Rank::longest_gap, Rank::largest_gap};
    const auto gaps = gaps_of(problem, sequence);
    // Places may fail at the full pool: then leave some of it free, as little as it takes.
    std::int32_t least = 0;
    for (std::size_t i = 0; i < problem.graph.ops.size(); ++i) {
        std::int32_t sum = 0;
        for (const auto& u : problem.uses(static_cast<OpId>(i))) sum += problem.size[u.tensor];
        least = std::max(least, sum);
    }
    std::optional<Built> best;
    for (int step = 0; step <= 8 && !best; ++step) {
        const auto capacity = static_cast<std::int32_t>(
            problem.chunks - static_cast<std::int64_t>(problem.chunks - least) * step / 8);
        for (const Rank by : ranks) {
            auto built = try_rank(problem, sequence, gaps, by, on_demand, prefetch, capacity, no_remaps);
            if (built && (!best || built->sim.period_ns < best->sim.period_ns)) best = std::move(built);
        }
    }
    if (!best) best = last_resort(problem, sequence, no_remaps);
    if (!best)
        throw PlanError(std::string("no plan found within ") + std::to_string(problem.limit_bytes) +
                        " bytes" +
                        (no_remaps ? " that keeps every tensor in one place: allow remaps or raise the limit"
                                   : ": raise the limit"));
    return std::move(*best);
}

}  // namespace swapadvisor::planner
