// The fast simulator against the slow checker: the same figures to the nanosecond.
#include <catch2/catch.hpp>

#include "planner/machine/checker.h"
#include "planner/machine/simulator.h"
#include "planner/planner.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

TEST_CASE("simulator equals checker on 10,000 random graphs and plans", "[sim]") {
    Rng rng(7);
    int moved = 0, remapped = 0;
    for (int i = 0; i < 10000; ++i) {
        Graph graph =
            i % 4 == 0 ? random_training_graph(rng, static_cast<int>(pick(rng, 1, 6))) : random_graph(rng);
        const Plan plan = random_plan(rng, graph);
        const CheckResult slow = check_plan(graph, plan);
        const SimResult fast = simulate(graph, plan, i % 2 == 0);
        INFO("case " << i << "\n" << to_json(graph) << to_json(plan) << fast.error);
        REQUIRE(slow.valid());
        REQUIRE(fast.ok);
        REQUIRE(fast.period_ns == slow.period_ns);
        REQUIRE(fast.compute_ns == slow.compute_ns);
        REQUIRE(fast.in_bytes == slow.in_bytes);
        REQUIRE(fast.out_bytes == slow.out_bytes);
        REQUIRE(fast.remaps == slow.remaps);
        moved += fast.in_bytes > 0;
        remapped += fast.remaps > 0;
    }
    CHECK(moved > 3000);
    CHECK(remapped > 500);
}

TEST_CASE("simulator never crashes on spoiled plans", "[sim]") {
    Rng rng(8);
    for (int i = 0; i < 5000; ++i) {
        Graph graph = random_graph(rng);
        Plan plan = random_plan(rng, graph);
        for (int k = static_cast<int>(pick(rng, 1, 3)); k > 0; --k) spoil(rng, graph, plan);
        const CheckResult slow = check_plan(graph, plan);
        const SimResult fast = simulate(graph, plan);
        INFO("case " << i << "\n" << to_json(graph) << to_json(plan) << fast.error);
        if (slow.valid()) {
            REQUIRE(fast.ok);
            REQUIRE(fast.period_ns == slow.period_ns);
        }
    }
}

TEST_CASE("stalls explain the period", "[sim]") {
    Rng rng(9);
    for (int i = 0; i < 500; ++i) {
        Graph graph = random_training_graph(rng, static_cast<int>(pick(rng, 1, 8)));
        const Plan plan = random_plan(rng, graph);
        const SimResult fast = simulate(graph, plan, true);
        REQUIRE(fast.ok);
        std::int64_t sum = fast.compute_ns;
        for (const std::int64_t stall : fast.op_stall) {
            REQUIRE(stall >= 0);
            sum += stall;
        }
        // One iteration of the steady state; a state that repeats every few iterations averages over them.
        if (fast.op_start.size() == graph.ops.size() && sum != fast.period_ns)
            CHECK(std::abs(static_cast<double>(sum - fast.period_ns)) <
                  0.6 * static_cast<double>(fast.period_ns));
    }
}
