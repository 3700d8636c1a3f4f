#include <catch2/catch.hpp>

#include "planner/machine/checker.h"
#include "planner/planner.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

TEST_CASE("random plans keep every rule", "[checker]") {
    Rng rng(1);
    int with_swaps = 0;
    for (int i = 0; i < 3000; ++i) {
        Graph graph =
            i % 4 == 0 ? random_training_graph(rng, static_cast<int>(pick(rng, 1, 6))) : random_graph(rng);
        const Plan plan = random_plan(rng, graph);
        const CheckResult result = check_plan(graph, plan);
        INFO("graph " << i << "\n" << to_json(graph) << to_json(plan));
        if (!result.valid()) FAIL(result.violations[0]);
        REQUIRE(result.period_ns >= result.compute_ns);
        with_swaps += result.transfers > 0;
        // Both survive their text form.
        if (i % 50 == 0) {
            const CheckResult again = check_plan(parse_graph(to_json(graph)), parse_plan(to_json(plan)));
            REQUIRE(again.period_ns == result.period_ns);
        }
    }
    CHECK(with_swaps > 2000);
}

TEST_CASE("spoiled plans are refused or run, never more", "[checker]") {
    Rng rng(2);
    int refused = 0;
    for (int i = 0; i < 3000; ++i) {
        Graph graph = random_graph(rng);
        Plan plan = random_plan(rng, graph);
        for (int k = static_cast<int>(pick(rng, 1, 3)); k > 0; --k) spoil(rng, graph, plan);
        const CheckResult result = check_plan(graph, plan);
        refused += !result.valid();
        for (const std::string& line : result.violations) REQUIRE(line.find('\n') == std::string::npos);
        if (result.valid()) REQUIRE(result.period_ns >= result.compute_ns);
    }
    CHECK(refused > 1500);
}
