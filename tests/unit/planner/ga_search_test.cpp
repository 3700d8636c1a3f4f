// The search: optimal on tiny graphs, the same on any number of threads, stoppable.
#include <tbb/global_control.h>

#include <catch2/catch.hpp>

#include "exhaustive.h"
#include "planner/bound/bound.h"
#include "planner/machine/checker.h"
#include "planner/planner.h"
#include "planner/search/chromosome.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

namespace {

Graph tiny_graph(Rng& rng) {
    GraphShape shape;
    shape.least_ops = 2;
    shape.most_ops = 5;
    shape.least_tensors = 2;
    shape.most_tensors = 4;

    shape.zeros = false;
    Graph graph = random_graph(rng, shape);
    graph.device.transfer_latency_ns = 0;
    for (Tensor& t : graph.tensors) t.bytes = 1024;
    graph.device.h2d_bytes_per_s = graph.device.d2h_bytes_per_s = 1024LL * 1'000'000;  // 1000 ns each
    graph.device.duplex_bytes_per_s = 2 * graph.device.h2d_bytes_per_s;
    return graph;
}

}  // namespace

TEST_CASE("on tiny graphs the search finds the optimum of all orders, choices and places", "[ga]") {
    int compared = 0, swapped = 0, reordered = 0;
    for (const std::uint64_t seed : {22, 24, 28}) {  // those that take the enumeration least time
        Rng rng(seed);
        for (int i = 0; i < 120; ++i) {
            Graph graph = tiny_graph(rng);
            const auto least = static_cast<int>((least_memory_bytes(graph) + 1023) / 1024);
            if (least == 0) continue;
            const int chunks = least + static_cast<int>(pick(rng, 0, 1));
            graph.device.memory_bytes = 1024LL * chunks;
            const bool reorder = chance(rng, 50);
            const auto best = best_of_all(graph, chunks, reorder);
            if (!best) continue;
            PlanOptions options;
            options.limit_bytes = graph.device.memory_bytes;
            options.chunk_bytes = 1024;
            options.generations = 12;
            options.threads = 1;
            options.reorder = reorder;
            const Plan plan = make_plan(graph, options);
            const CheckResult result = check_plan(graph, plan);
            INFO("seed " << seed << " case " << i << "\n"
                         << to_json(graph) << to_json(best->plan) << to_json(plan));
            REQUIRE(result.valid());
            CHECK(result.period_ns == best->period_ns);
            ++compared;
            swapped += result.transfers > 0;
            for (std::size_t p = 1; p < plan.schedule.size(); ++p)
                if (plan.schedule[p] < plan.schedule[p - 1]) {
                    ++reordered;
                    break;
                }
        }
    }
    CHECK(compared >= 300);
    CHECK(swapped >= 60);
    INFO(reordered << " reordered");
    CHECK(reordered >= 3);
}

TEST_CASE("a tensor leaves although nothing forces it out, so as to come back elsewhere", "[ga]") {
    // Two chunks. Tensor 0 has to move while 1 is away, else 1 cannot come back early to where it was: by
    // count everything fits, but there are no places.
    Graph graph;
    graph.name = "move";
    graph.device = {2048, 1'024'000'000, 1'024'000'000, 2'048'000'000, 0};
    graph.tensors = {{1024, false, "", ""}, {1024, true, "", ""}, {1024, false, "", ""}};
    graph.ops.resize(5);
    const std::int64_t durations[] = {2584, 2809, 2319, 2098, 2233};
    for (std::size_t p = 0; p < 5; ++p) graph.ops[p].duration_ns = durations[p];
    graph.ops[0].reads = {1};
    graph.ops[0].writes = {0};
    graph.ops[1].reads = {0};
    graph.ops[2].writes = {2};
    graph.ops[3].reads = {2};
    graph.ops[3].writes = {0};
    graph.ops[4].writes = {2};
    PlanOptions options;
    options.limit_bytes = 2048;
    options.chunk_bytes = 1024;
    options.seconds = 100;  // it knows that nothing is faster, and stops
    options.reorder = false;
    const CheckResult result = check_plan(graph, make_plan(graph, options));
    REQUIRE(result.valid());
    CHECK(result.period_ns == 12043);
    CHECK(result.remaps > 0);
    options.no_remaps = true;
    CHECK(check_plan(graph, make_plan(graph, options)).period_ns == 13043);
}

TEST_CASE("same seed, same plan, whatever the threads", "[ga]") {
    Rng rng(22);
    Graph graph = random_training_graph(rng, 16);
    PlanOptions options;
    options.limit_bytes = (least_memory_bytes(graph) * 2 + peak_memory_bytes(graph)) / 3;
    graph.device.memory_bytes = std::max(graph.device.memory_bytes, options.limit_bytes);
    options.generations = 12;
    options.seed = 5;
    options.threads = 1;
    const std::string one = to_json(make_plan(graph, options));
    options.threads = 4;
    CHECK(to_json(make_plan(graph, options)) == one);
    options.threads = 2;
    CHECK(to_json(make_plan(graph, options)) == one);
}

TEST_CASE("the search improves on the fast planner and reports in order", "[ga]") {
    Rng rng(23);
    double fast = 0, searched = 0;
    for (int i = 0; i < 6; ++i) {
        Graph graph = random_training_graph(rng, 12);
        PlanOptions options;
        options.limit_bytes = (least_memory_bytes(graph) + peak_memory_bytes(graph)) / 2;
        graph.device.memory_bytes = std::max(graph.device.memory_bytes, options.limit_bytes);
        options.planner = "fast";
        const Plan first = make_plan(graph, options);
        options.planner = "ga";
        options.generations = 8;
        std::vector<std::int64_t> reported;
        options.on_better = [&](const Plan& plan, Spent) { reported.push_back(plan.predicted_ns); };
        const Plan best = make_plan(graph, options);
        CHECK(best.predicted_ns <= first.predicted_ns);
        REQUIRE(!reported.empty());
        CHECK(reported.back() == best.predicted_ns);
        fast += static_cast<double>(first.predicted_ns);
        searched += static_cast<double>(best.predicted_ns);
    }
    CHECK(searched < fast);
}

TEST_CASE("a cancelled search hands over its best so far", "[ga]") {
    Rng rng(24);
    Graph graph = random_training_graph(rng, 24);
    PlanOptions options;
    options.limit_bytes = (least_memory_bytes(graph) * 3 + peak_memory_bytes(graph)) / 4;
    graph.device.memory_bytes = std::max(graph.device.memory_bytes, options.limit_bytes);
    std::atomic<bool> cancel{false};
    options.cancel = &cancel;
    options.seconds = 1000;
    options.on_better = [&](const Plan&, Spent) { cancel = true; };
    CHECK(check_plan(graph, make_plan(graph, options)).valid());
}

TEST_CASE("strict classes and every part of the search alone give valid plans", "[ga]") {
    Rng rng(25);
    int strict = 0;
    for (int i = 0; i < 40; ++i) {
        Graph graph = random_training_graph(rng, static_cast<int>(pick(rng, 2, 10)));
        PlanOptions options;
        options.limit_bytes = (least_memory_bytes(graph) + 2 * peak_memory_bytes(graph)) / 3;
        graph.device.memory_bytes = std::max(graph.device.memory_bytes, options.limit_bytes);
        options.generations = 2;
        options.seed = static_cast<std::uint64_t>(i);
        options.reorder = i % 4 == 0 || i % 4 == 3;
        options.vary_allocation = i % 4 == 1 || i % 4 == 3;
        options.vary_swaps = i % 4 == 2 || i % 4 == 3;
        options.genetic = i % 2 == 0;
        const CheckResult ours = check_plan(graph, make_plan(graph, options));
        if (!ours.valid()) FAIL(ours.violations[0]);
        options.classes = "paper";
        try {
            const CheckResult paper = check_plan(graph, make_plan(graph, options));
            if (!paper.valid()) FAIL(paper.violations[0]);
            ++strict;
        } catch (const PlanError&) {  // strict classes may not fit
        }
    }
    CHECK(strict > 5);
}

TEST_CASE("what strict classes need at least is said, and is enough", "[ga]") {
    // One op needs a tensor of 2 chunks, the other two of 1: shared memory of 2 chunks would do, but neither
    // two classes nor one can do with less than 4.
    Graph graph;
    graph.device = {8192, 1'000'000'000, 1'000'000'000, 2'000'000'000, 0};
    graph.tensors = {{2048, false, "", ""}, {1024, false, "", ""}, {1024, false, "", ""}};
    graph.ops.resize(2);
    graph.ops[0].duration_ns = graph.ops[1].duration_ns = 100;
    graph.ops[0].writes = {0};
    graph.ops[1].writes = {1, 2};
    PlanOptions options;
    options.chunk_bytes = 1024;
    options.generations = 1;
    options.classes = "paper";
    options.limit_bytes = 3072;
    CHECK_THROWS_WITH(make_plan(graph, options), Catch::Contains("at least 4096 bytes") &&
                                                     Catch::Contains("limit of 3072 bytes") &&
                                                     Catch::Contains("--classes ours"));
    options.limit_bytes = 4096;
    CHECK(check_plan(graph, make_plan(graph, options)).valid());
    options.limit_bytes = graph.device.memory_bytes = 3072;
    CHECK_THROWS_WITH(make_plan(graph, options), Catch::Contains("more than the device has"));
}

TEST_CASE("order operators keep orders topological", "[ga]") {
    Rng rng(26);
    Random random(1);
    for (int i = 0; i < 100; ++i) {
        Graph graph = random_graph(rng);
        graph.device.memory_bytes = std::int64_t{1} << 40;
        PlanOptions options;
        options.limit_bytes = graph.device.memory_bytes;
        const Problem problem(graph, options);
        std::vector<OpId> a(graph.ops.size()), b;
        for (std::size_t k = 0; k < a.size(); ++k) a[k] = static_cast<OpId>(k);
        b = frugal_order(problem);
        REQUIRE(problem.dependencies.allows(a));
        REQUIRE(problem.dependencies.allows(b));
        for (int k = 0; k < 20; ++k) {
            mutate_order(problem, a, random);
            mutate_order(problem, b, random);
            REQUIRE(problem.dependencies.allows(a));
            REQUIRE(problem.dependencies.allows(b));
            REQUIRE(problem.dependencies.allows(cross_orders(a, b, random.below(a.size() + 1))));
        }
    }
}
