// The fast simulator against the slow checker on plans that were changed at random.
#include <catch2/catch.hpp>

#include "planner/machine/checker.h"
#include "planner/machine/simulator.h"
#include "planner/planner.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

TEST_CASE("what the checker finds valid among spoiled plans, the simulator times alike", "[simulator]") {
    Rng rng(22);
    int valid = 0;
    for (int i = 0; i < 10'000; ++i) {
        Graph graph = random_graph(rng);
        Plan plan = random_plan(rng, graph);
        spoil(rng, graph, plan);
        const CheckResult slow = check_plan(graph, plan);
        if (!slow.valid()) continue;
        ++valid;
        const SimResult fast = simulate(graph, plan);
        INFO("plan " << i << ": " << fast.error << "\n" << to_json(graph) << to_json(plan));
        REQUIRE(fast.ok);
        REQUIRE(slow.period_ns == fast.period_ns);
    }
    CHECK(valid > 500);
}
