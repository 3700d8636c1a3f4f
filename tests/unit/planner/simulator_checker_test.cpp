// The fast simulator against the slow checker, to the nanosecond.
#include <catch2/catch.hpp>

#include "planner/checker.h"
#include "planner/planner.h"
#include "planner/simulator.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

TEST_CASE("simulator and checker agree on 10,000 random plans", "[simulator]") {
    Rng rng(21);
    for (int i = 0; i < 10'000; ++i) {
        Graph graph =
            i % 4 == 0 ? random_training_graph(rng, static_cast<int>(pick(rng, 1, 5))) : random_graph(rng);
        const Plan plan = random_plan(rng, graph);
        const CheckResult slow = check_plan(graph, plan);
        const SimResult fast = simulate(graph, plan);
        if (slow.valid() && fast.ok && slow.period_ns == fast.period_ns && slow.in_bytes == fast.in_bytes &&
            slow.out_bytes == fast.out_bytes && slow.remaps == fast.remaps)
            continue;
        INFO("plan " << i << ": checker " << (slow.valid() ? "valid" : slow.violations[0]) << " "
                     << slow.period_ns << " ns, simulator " << (fast.ok ? "ok" : fast.error) << " "
                     << fast.period_ns << " ns\n"
                     << to_json(graph) << to_json(plan));
        REQUIRE(slow.valid());
        REQUIRE(fast.ok);
        REQUIRE(slow.period_ns == fast.period_ns);
        REQUIRE(slow.in_bytes == fast.in_bytes);
        REQUIRE(slow.out_bytes == fast.out_bytes);
        REQUIRE(slow.remaps == fast.remaps);
    }
}

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
