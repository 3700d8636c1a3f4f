// What a launch window allows: groups that keep their order, host waits that no op crosses, times of issue.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "planner/machine/checker.h"
#include "planner/machine/simulator.h"
#include "planner/model/dependencies.h"
#include "planner/planner.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

namespace {

/// Ops with these durations; op i touches tensor i alone.
Graph apart(std::initializer_list<std::int64_t> durations) {
    Graph graph;
    graph.name = "apart";
    graph.device = {1 << 20, 1'000'000'000, 1'000'000'000, 2'000'000'000, 0};
    for (const std::int64_t ns : durations) {
        Op op;
        op.duration_ns = ns;
        op.writes = {static_cast<TensorId>(graph.tensors.size())};
        graph.tensors.push_back({512, false, "", ""});
        graph.ops.push_back(op);
    }
    return graph;
}

/// Everything resident in an arena, in this order.
Plan resident(const Graph& graph, std::vector<OpId> order) {
    Plan plan;
    plan.graph = graph.name;
    plan.limit_bytes = graph.device.memory_bytes;
    plan.schedule = std::move(order);
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) plan.arena.push_back(static_cast<TensorId>(t));
    plan.arena_bytes = 512 * static_cast<std::int64_t>(graph.tensors.size());
    return plan;
}

std::int64_t period(const Graph& graph, const std::vector<OpId>& order) {
    const Plan plan = resident(graph, order);
    const CheckResult slow = check_plan(graph, plan);
    INFO(to_json(graph));
    REQUIRE(slow.violations == std::vector<std::string>{});
    REQUIRE(simulate(graph, plan).period_ns == slow.period_ns);
    return slow.period_ns;
}

void random_window(Rng& rng, Graph& graph, int per_cent_waits) {
    for (Op& op : graph.ops) {
        if (chance(rng, 30)) op.keeps_order = pick(rng, 0, 2);
        if (chance(rng, 50)) op.issue_ns = pick(rng, 0, 4000);
        op.host_waits = chance(rng, per_cent_waits);
    }
}

}  // namespace

TEST_CASE("an op waits until the host has issued it", "[window]") {
    Graph graph = apart({100, 100, 100});
    CHECK(period(graph, {0, 1, 2}) == 300);
    graph.ops[1].issue_ns = 1000;
    CHECK(period(graph, {0, 1, 2}) == 300);  // the host never waits: it is always ahead
    graph.ops[0].host_waits = true;
    CHECK(period(graph, {0, 1, 2}) == 1200);
    CHECK(period(graph, {0, 2, 1}) == 1100);  // something else meanwhile
    graph.ops[0].issue_ns = 50;
    CHECK(period(graph, {0, 2, 1}) == 1100);
    CHECK(period(graph, {2, 0, 1}) == 1100);
    graph.ops[0].host_waits = false;
    graph.ops[2].host_waits = true;  // what is before it counts from the wait of the iteration before
    CHECK(period(graph, {0, 1, 2}) == 1000 + 100);
    graph.ops[2].issue_ns = 70;
    CHECK(period(graph, {0, 1, 2}) == 1000 + 100);  // from one wait to the next
}

TEST_CASE("no op crosses a host wait, and groups keep their order", "[window]") {
    Graph graph = apart({10, 10, 10, 10});
    graph.ops[2].host_waits = true;
    const auto allowed = [&](const std::vector<OpId>& order) {
        const bool fast = Dependencies(graph).allows(order);
        CHECK(check_plan(graph, resident(graph, order)).valid() == fast);
        return fast;
    };
    CHECK(allowed({1, 0, 3, 2}));
    CHECK_FALSE(allowed({0, 2, 1, 3}));
    CHECK_FALSE(allowed({2, 0, 1, 3}));
    CHECK_FALSE(allowed({0, 3, 1, 2}));
    graph.ops[2].host_waits = false;
    CHECK(allowed({3, 2, 1, 0}));
    graph.ops[0].keeps_order = graph.ops[2].keeps_order = 7;
    graph.ops[1].keeps_order = graph.ops[3].keeps_order = 8;
    CHECK(allowed({1, 3, 0, 2}));
    CHECK_FALSE(allowed({2, 1, 0, 3}));
    CHECK_FALSE(allowed({0, 2, 3, 1}));
}

TEST_CASE("the order that dependencies allow is the one the checker allows", "[window]") {
    Rng rng(31);
    int good = 0, bad = 0;
    for (int i = 0; i < 3000; ++i) {
        Graph graph = random_graph(rng);
        random_window(rng, graph, 10);
        std::vector<OpId> order(graph.ops.size());
        std::iota(order.begin(), order.end(), 0);
        for (std::int64_t swaps = pick(rng, 0, 3); swaps > 0; --swaps) {
            const auto a =
                static_cast<std::size_t>(pick(rng, 0, static_cast<std::int64_t>(order.size()) - 1));
            if (a + 1 < order.size()) std::swap(order[a], order[a + 1]);
        }
        const CheckResult slow = check_plan(graph, resident(graph, order));
        const bool complains =
            std::any_of(slow.violations.begin(), slow.violations.end(),
                        [](const std::string& v) { return v.starts_with("schedule: op"); });
        INFO(to_json(graph));
        REQUIRE(Dependencies(graph).allows(order) == !complains);
        (complains ? bad : good) += 1;
    }
    CHECK(good > 300);
    CHECK(bad > 300);
}

TEST_CASE("simulator equals checker where the host waits", "[window]") {
    Rng rng(32);
    int slower = 0;
    for (int i = 0; i < 4000; ++i) {
        Graph graph =
            i % 4 == 0 ? random_training_graph(rng, static_cast<int>(pick(rng, 1, 6))) : random_graph(rng);
        const Plan plan = random_plan(rng, graph);
        const std::int64_t before = simulate(graph, plan).period_ns;
        // Waits wherever the plan's order has one part after the other.
        OpId most = -1;
        for (std::size_t p = 0; p < plan.schedule.size(); ++p) {
            graph.ops[p].host_waits = most < static_cast<OpId>(p) && chance(rng, 40);
            most = std::max(most, plan.schedule[p]);
            if (chance(rng, 50)) graph.ops[p].issue_ns = pick(rng, 0, 6000);
        }
        const CheckResult slow = check_plan(graph, plan);
        const SimResult fast = simulate(graph, plan, i % 2 == 0);
        INFO("case " << i << "\n" << to_json(graph) << to_json(plan) << fast.error);
        REQUIRE(slow.violations == std::vector<std::string>{});
        REQUIRE(fast.ok);
        REQUIRE(fast.period_ns == slow.period_ns);
        slower += slow.period_ns > before;
    }
    CHECK(slower > 1000);
}

TEST_CASE("searched plans keep to the window, and their times are the machine's", "[window]") {
    Rng rng(33);
    for (int i = 0; i < 12; ++i) {
        Graph graph = random_training_graph(rng, static_cast<int>(pick(rng, 2, 12)));
        random_window(rng, graph, 5);
        graph.ops[0].host_waits = true;
        PlanOptions options;
        options.limit_bytes = (least_limit_bytes(graph, options) + graph.device.memory_bytes) / 2;
        options.generations = 4;
        options.threads = 1;
        options.no_remaps = i % 2 == 0;
        const Plan plan = make_plan(graph, options);
        const CheckResult result = check_plan(graph, plan);
        INFO(to_json(graph) << to_json(plan));
        REQUIRE(result.violations == std::vector<std::string>{});
        CHECK(result.period_ns == plan.predicted_ns);
    }
}

TEST_CASE("the window's fields come back from JSON", "[window]") {
    Graph graph = apart({1, 2});
    graph.ops[1].keeps_order = 3;
    graph.ops[1].issue_ns = 4;
    graph.ops[1].host_waits = true;
    graph.may_reorder = true;
    const std::string text = to_json(graph);
    const Graph again = parse_graph(text);
    CHECK(to_json(again) == text);
    CHECK(again.ops[1].keeps_order == 3);
    CHECK(again.ops[1].issue_ns == 4);
    CHECK(again.ops[1].host_waits);
    CHECK(again.may_reorder == true);
    CHECK(again.ops[0].keeps_order == -1);
    CHECK_FALSE(parse_graph(to_json(apart({1}))).may_reorder.has_value());
}
