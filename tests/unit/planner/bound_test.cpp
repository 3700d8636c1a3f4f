#include "planner/bound/bound.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "exhaustive.h"
#include "planner/bound/bound_advice.h"
#include "planner/bound/bound_model.h"
#include "planner/machine/checker.h"
#include "planner/planner.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

namespace {

// Tensors of one size, as the enumeration wants them.
Graph tiny_graph(Rng& rng) {
    Graph graph;
    graph.name = "tiny";
    graph.device = {1 << 20, 1'000'000'000, 1'000'000'000, 2'000'000'000, chance(rng, 50) ? 0 : 20};
    if (chance(rng, 30)) graph.device.h2d_bytes_per_s = graph.device.duplex_bytes_per_s = 3'000'000'000;
    if (chance(rng, 30)) graph.device.duplex_bytes_per_s = 4'000'000'000;
    const int tensors = static_cast<int>(pick(rng, 2, 4)), ops = static_cast<int>(pick(rng, 3, 5));
    for (int t = 0; t < tensors; ++t) graph.tensors.push_back({100, chance(rng, 50), "", ""});
    for (int i = 0; i < ops; ++i) {
        Op op;
        op.duration_ns = pick(rng, 0, 4) * 40;
        op.reads.push_back(static_cast<TensorId>(pick(rng, 0, tensors - 1)));
        if (chance(rng, 60)) op.writes.push_back(static_cast<TensorId>(pick(rng, 0, tensors - 1)));
        graph.ops.push_back(op);
    }
    return graph;
}

BoundOptions within(std::int64_t limit) {
    BoundOptions options;
    options.limit_bytes = limit;
    return options;
}

}  // namespace

TEST_CASE("no bound exceeds the optimum of a tiny graph", "[bound]") {
    Rng rng(11);
    int with_swaps = 0, tight = 0, compared = 0;
    for (int i = 0; i < 60; ++i) {
        Graph graph = tiny_graph(rng);
        // The enumeration is exact for independent directions only; a slower link can only be slower.
        graph.device.duplex_bytes_per_s = graph.device.h2d_bytes_per_s + graph.device.d2h_bytes_per_s;
        const auto least = static_cast<int>(least_memory_bytes(graph) / 100);
        for (int chunks = least; chunks <= std::min(3, least + 1); ++chunks) {
            const auto best = best_of_all(graph, chunks, false);
            if (!best) continue;
            const Bounds bounds = bound(graph, within(chunks * 100));
            INFO("graph " << i << ", " << chunks << " chunks\n" << to_json(graph) << to_json(best->plan));
            CHECK(bounds.compute_ns <= best->period_ns);
            CHECK(bounds.traffic_ns <= best->period_ns);
            CHECK(bounds.timed_ns <= best->period_ns);
            const CheckResult result = check_plan(graph, best->plan);
            with_swaps += result.transfers > 0;
            tight += bounds.best_ns() * 20 >= best->period_ns * 19;
            ++compared;
        }
    }
    INFO(compared << " compared, " << with_swaps << " with swaps, bound within 5 % for " << tight);
    CHECK(compared > 60);
    CHECK(with_swaps > 20);
    CHECK(tight * 2 > compared);
}

TEST_CASE("no bound exceeds the period of any valid plan in program order", "[bound]") {
    Rng rng(12);
    int compared = 0;
    for (int i = 0; i < 300; ++i) {
        Graph graph =
            i % 2 == 0 ? random_training_graph(rng, static_cast<int>(pick(rng, 1, 5))) : random_graph(rng);
        const Plan plan = random_plan(rng, graph);
        bool in_order = true;
        for (std::size_t p = 0; p < plan.schedule.size(); ++p)
            in_order &= plan.schedule[p] == static_cast<OpId>(p);
        if (!in_order) continue;
        ++compared;
        const CheckResult result = check_plan(graph, plan);
        REQUIRE(result.valid());
        INFO("graph " << i << "\n" << to_json(graph) << to_json(plan));
        const Bounds bounds = bound(graph, within(plan.limit_bytes));
        CHECK(bounds.best_ns() <= result.period_ns);
    }
    CHECK(compared > 100);
}

TEST_CASE("advice: two stages for any order, each with a bound that plans in that order keep to", "[bound]") {
    Rng rng(21);
    int advised = 0, reordered = 0, two_stages = 0;
    for (int i = 0; i < 40; ++i) {
        Graph graph = random_training_graph(rng, static_cast<int>(pick(rng, 2, i % 4 == 0 ? 45 : 12)));
        const Plan plan = random_plan(rng, graph);
        const CheckResult result = check_plan(graph, plan);
        REQUIRE(result.valid());
        std::vector<std::int64_t> bytes;
        for (const Tensor& tensor : graph.tensors) bytes.push_back(tensor.bytes);
        INFO("graph " << i << "\n" << to_json(graph) << to_json(plan));
        BoundAdvice advice(graph, plan.schedule, bytes);
        for (int stage = 0; stage < 3; ++stage) {
            const auto gaps = advice.next(plan.limit_bytes, 1e9);
            CHECK(advice.bound_ns() <= result.period_ns);
            const bool last = stage > 0 && graph.ops.size() <= 80;
            if (stage == 2 || last) CHECK(gaps.empty());
            two_stages += stage == 1 && !last;
            for (const GapAdvice& gap : gaps) {
                ++advised;
                const Op& from = graph.ops[static_cast<std::size_t>(gap.from)];
                const bool uses = std::count(from.reads.begin(), from.reads.end(), gap.tensor) +
                                      std::count(from.writes.begin(), from.writes.end(), gap.tensor) >
                                  0;
                CHECK(uses);
                CHECK((gap.left >= 0.01 && gap.left <= 1.001));
            }
        }
        reordered += !std::is_sorted(plan.schedule.begin(), plan.schedule.end());
    }
    INFO(advised << " gaps, " << reordered << " in another order, " << two_stages << " with two stages");
    CHECK((advised > 50 && reordered > 5 && two_stages > 2));
}

TEST_CASE("judging memory at a few ops, with gaps merged, stays valid", "[bound]") {
    Rng rng(14);
    int compared = 0, useful = 0;
    for (int i = 0; i < 400; ++i) {
        Graph graph =
            i % 2 == 0 ? random_training_graph(rng, static_cast<int>(pick(rng, 2, 6))) : random_graph(rng);
        // Many tensors of few sizes, so that there is something to merge.
        for (Tensor& tensor : graph.tensors) tensor.bytes = 500 * pick(rng, 1, 3);
        const Plan plan = random_plan(rng, graph);
        bool in_order = true;
        for (std::size_t p = 0; p < plan.schedule.size(); ++p)
            in_order &= plan.schedule[p] == static_cast<OpId>(p);
        if (!in_order) continue;
        const CheckResult result = check_plan(graph, plan);
        REQUIRE(result.valid());
        bounds::ModelOptions shape;
        shape.limit_bytes = plan.limit_bytes;
        shape.most_slots = static_cast<int>(pick(rng, 1, 6));
        const bounds::Model model = bounds::build_model(graph, shape);
        double in = 0, out = 0;
        const bounds::Prices start = bounds::traffic_prices(model, 10, in, out);
        long double best = 0;
        bool finished = false;
        bounds::timed_prices(model, start, 4, 10, best, finished);
        INFO("graph " << i << "\n" << to_json(graph) << to_json(plan));
        CHECK(static_cast<double>(best) <= static_cast<double>(result.period_ns) + 1e-3);
        useful += static_cast<double>(best) > 1.001 * static_cast<double>(result.compute_ns);
        ++compared;
    }
    CHECK(compared > 150);
    CHECK(useful > 5);
}

TEST_CASE("any prices prove a valid bound", "[bound]") {
    Rng rng(15);
    for (int i = 0; i < 200; ++i) {
        Graph graph = random_training_graph(rng, static_cast<int>(pick(rng, 2, 6)));
        const Plan plan = random_plan(rng, graph);
        if (!std::is_sorted(plan.schedule.begin(), plan.schedule.end())) continue;
        bounds::ModelOptions shape;
        shape.limit_bytes = plan.limit_bytes;
        const bounds::Model model = bounds::build_model(graph, shape);
        bounds::Prices prices(model.slots);
        for (auto list :
             {&prices.room, &prices.in, &prices.out, &prices.in_and_out, &prices.out_and_in, &prices.late})
            for (double& price : *list) price = static_cast<double>(pick(rng, -20, 100)) / 100;
        for (double& price : prices.room) price /= 50;
        CHECK(static_cast<double>(bounds::proved_ns(model, prices)) <=
              static_cast<double>(check_plan(graph, plan).period_ns) + 1e-3);
    }
}

TEST_CASE("bounds of a case that is easy by hand", "[bound]") {
    // Two weights, each used by its own op, room for one: both come in every iteration.
    Graph graph;
    graph.name = "two";
    graph.device = {100, 1'000'000'000, 1'000'000'000, 2'000'000'000, 10};
    graph.tensors = {{100, true, "", ""}, {100, true, "", ""}};
    graph.ops.resize(2);
    for (int i = 0; i < 2; ++i) {
        graph.ops[i].duration_ns = 50;
        graph.ops[i].reads = {i};
    }
    const Bounds bounds = bound(graph, within(100));
    CHECK(bounds.compute_ns == 100);
    CHECK(bounds.in_bytes == 200);
    CHECK(bounds.out_bytes == 0);
    CHECK(bounds.traffic_ns >= 218);  // 2 x (10 + 100)
    CHECK(bounds.traffic_ns <= 220);
    CHECK(bounds.best_ns() <= 320);
    CHECK(bound(graph, within(200)).best_ns() == 100);
    CHECK(least_memory_bytes(graph) == 100);
    CHECK(peak_memory_bytes(graph) == 200);
    CHECK_THROWS_AS(bound(graph, within(99)), PlanError);
}

TEST_CASE("more memory never raises the bound", "[bound]") {
    Rng rng(13);
    for (int i = 0; i < 10; ++i) {
        const Graph graph = random_training_graph(rng, 8);
        const std::int64_t least = least_memory_bytes(graph), peak = peak_memory_bytes(graph);
        std::int64_t before = INT64_MAX;
        for (int step = 0; step <= 4; ++step) {
            const std::int64_t ns = bound(graph, within(least + (peak - least) * step / 4)).best_ns();
            CHECK(static_cast<double>(ns) <= 1.001 * static_cast<double>(before));
            before = ns;
        }
        CHECK(before == bound(graph, within(peak)).compute_ns);
    }
}

TEST_CASE("graphs without ops or tensors have bounds too", "[bound]") {
    Graph graph;
    CHECK(bound(graph, within(0)).best_ns() == 0);
    graph.device = {100, 1, 1, 1, 0};
    graph.ops.resize(3);
    graph.ops[1].duration_ns = 7;
    CHECK(bound(graph, within(0)).best_ns() == 7);
}
