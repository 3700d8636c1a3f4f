// Places by ejection and queues made for them: valid, without remaps, as quick as promised.
#include <catch2/catch.hpp>
#include <numeric>

#include "planner/bound/bound.h"
#include "planner/format/format.h"
#include "planner/machine/checker.h"
#include "planner/place/placement_parts.h"
#include "planner/place/retime.h"
#include "planner/search/builder.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

namespace {

/// A graph with swaps chosen and timed, as far as places are not looked at.
struct Case {
    Graph graph;
    std::optional<Problem> problem;
    std::optional<Setting> setting;
    std::vector<Stay> residencies;
    Dispatch dispatch;

    /// False when the limit is too small for the swaps that the rank chooses.
    bool make(Rng& rng, Rank by) {
        graph = chance(rng, 30) ? random_graph(rng)
                                : random_training_graph(rng, static_cast<int>(pick(rng, 2, 12)));
        PlanOptions options;
        const std::int64_t least = least_memory_bytes(graph), peak = peak_memory_bytes(graph);
        options.limit_bytes = std::max<std::int64_t>(1, pick(rng, least, std::max(least, peak)));
        graph.device.memory_bytes = std::max(graph.device.memory_bytes, options.limit_bytes);
        try {
            problem.emplace(graph, options);
        } catch (const PlanError&) {
            return false;
        }
        std::vector<OpId> order(graph.ops.size());
        std::iota(order.begin(), order.end(), 0);
        setting.emplace(*problem, order, Allocation(*problem));
        Choices choice(problem->use_count(), GapChoice::keep);
        if (!cover(*setting, rank(*setting, by), choice)) return false;
        for (const Gap& g : setting->gaps)  // all ways to cross the boundary
            if (g.wrap && choice[g.use] == GapChoice::evict && chance(rng, 30)) {
                choice[g.use] = GapChoice::evict_tail;
                if (!cover(*setting, rank(*setting, by), choice)) return false;
            }
        stays(*setting, choice, {}, residencies);
        Dispatcher().run(*setting, residencies, {}, 3, dispatch);
        return dispatch.ok;
    }
};

}  // namespace

TEST_CASE("places by ejection are valid, and queues made for them never lock up", "[places]") {
    Rng rng(31);
    int placed = 0, moved = 0, retimed = 0, quicker = 0;
    for (int i = 0; i < 1500; ++i) {
        Case c;
        if (!c.make(rng, i % 2 == 0 ? Rank::farthest_next : Rank::largest_gap)) continue;
        const Spans spans = spans_of(*c.problem, c.residencies, c.dispatch, c.setting->ops);
        EjectOptions options;
        options.allow_remaps = chance(rng, 30);
        options.polish = true;
        options.budget = 20 * static_cast<std::int64_t>(c.residencies.size());
        place_by_ejection(*c.setting, c.residencies, spans, options, [&](const Places& places) {
            ++placed;
            if (!options.allow_remaps) REQUIRE(places.remaps == 0);
            Plan plan = write_plan(*c.setting, c.residencies, c.dispatch, places);
            plan.predicted_ns = 1;
            const CheckResult plain = check_plan(c.graph, plan);
            INFO("case " << i << "\n" << to_json(c.graph) << to_json(plan));
            if (!plain.valid()) FAIL(plain.violations[0]);
            REQUIRE(plain.remaps == places.remaps);
            moved += plain.transfers > 0;
            Dispatch again = c.dispatch;
            REQUIRE(retime(*c.setting, c.residencies, places, {}, again));
            plan = write_plan(*c.setting, c.residencies, again, places);
            const CheckResult result = check_plan(c.graph, plan);
            if (!result.valid()) FAIL(result.violations[0]);
            retimed += result.period_ns != plain.period_ns;
            quicker += result.period_ns < plain.period_ns;
            return false;
        });
    }
    CHECK(placed > 1000);
    CHECK(moved > 500);
    CHECK(retimed > 100);
    CHECK(2 * quicker > retimed);
}

TEST_CASE("a residency over the boundary holds its chunks from the start of the iteration", "[places]") {
    Rng rng(32);
    int crossing = 0;
    for (int i = 0; i < 200; ++i) {
        Case c;
        if (!c.make(rng, Rank::longest_gap)) continue;
        for (const Stay& s : c.residencies)
            if (s.initial) {
                REQUIRE(s.begin == 0);
                ++crossing;
            }
    }
    CHECK(crossing > 100);
}
