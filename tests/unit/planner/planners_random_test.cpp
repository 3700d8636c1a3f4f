// Every plan of every planner against the checker, and the search against exhaustive enumeration.
#include <catch2/catch.hpp>

#include "exhaustive.h"
#include "planner/bound.h"
#include "planner/checker.h"
#include "planner/planner.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

namespace {

// A plan that passes the checker, or nothing if the planner says that the limit is too small.
std::optional<CheckResult> try_planner(const Graph& graph, const PlanOptions& options) {
    Plan plan;
    try {
        plan = make_plan(graph, options);
    } catch (const PlanError& error) {
        const std::string line = error.what();
        INFO(line << "\n" << to_json(graph));
        REQUIRE(line.find("limit") != std::string::npos);
        return std::nullopt;
    }
    const CheckResult result = check_plan(graph, plan);
    if (!result.valid()) {
        INFO(options.planner << " within " << options.limit_bytes << "\n" << to_json(graph) << to_json(plan));
        FAIL(result.violations[0]);
    }
    REQUIRE(plan.limit_bytes <= options.limit_bytes);
    REQUIRE(plan.predicted_ns == result.period_ns);
    return result;
}

}  // namespace

TEST_CASE("plans of every planner on random graphs are valid", "[planners]") {
    Rng rng(31);
    int planned = 0, refused = 0;
    for (int i = 0; i < 2000; ++i) {
        Graph graph =
            i % 3 == 0 ? random_training_graph(rng, static_cast<int>(pick(rng, 1, 6))) : random_graph(rng);
        const std::int64_t least = least_memory_bytes(graph), peak = peak_memory_bytes(graph);
        PlanOptions options;
        options.limit_bytes = pick(rng, least, peak + peak / 4);
        options.threads = 1;
        options.seed = static_cast<std::uint64_t>(i);
        for (const char* name : {"fast", "lru", "belady", "belady-prefetch"}) {
            options.planner = name;
            if (i % 5 == 0) options.chunk_bytes = 256;
            try_planner(graph, options) ? ++planned : ++refused;
        }
        if (i % 20 != 0) continue;
        options.planner = "ga";
        options.generations = 3;
        options.seconds = 20;
        options.classes = i % 40 == 0 ? "paper" : "ours";
        try_planner(graph, options) ? ++planned : ++refused;
    }
    INFO(planned << " planned, " << refused << " refused");
    CHECK(planned > 6000);
}

TEST_CASE("the search finds the optimum of tiny graphs", "[planners]") {
    Rng rng(32);
    int found = 0, compared = 0;
    for (int i = 0; i < 40; ++i) {
        Graph graph;
        graph.name = "tiny";
        graph.device = {1 << 20, 1'000'000'000, 1'000'000'000, 2'000'000'000, 20};
        const int tensors = static_cast<int>(pick(rng, 2, 4)), ops = static_cast<int>(pick(rng, 3, 5));
        for (int t = 0; t < tensors; ++t) graph.tensors.push_back({512, chance(rng, 50), "", ""});
        for (int k = 0; k < ops; ++k) {
            Op op;
            op.duration_ns = pick(rng, 0, 4) * 200;
            op.reads.push_back(static_cast<TensorId>(pick(rng, 0, tensors - 1)));
            if (chance(rng, 60)) op.writes.push_back(static_cast<TensorId>(pick(rng, 0, tensors - 1)));
            graph.ops.push_back(op);
        }
        const auto chunks = static_cast<int>(least_memory_bytes(graph) / 512);
        if (chunks > 2) continue;
        const auto best = best_of_all(graph, chunks, true);
        if (!best) continue;
        PlanOptions options;
        options.limit_bytes = chunks * 512;
        options.chunk_bytes = 512;
        options.generations = 20;
        options.seconds = 20;
        options.threads = 1;
        const auto result = try_planner(graph, options);
        if (!result) continue;
        ++compared;
        INFO("graph " << i << " found " << result->period_ns << " best " << best->period_ns << "\n"
                      << to_json(graph) << to_json(best->plan));
        CHECK(result->period_ns >= best->period_ns);
        found += result->period_ns == best->period_ns;
    }
    INFO(found << " of " << compared);
    CHECK(compared > 20);
    CHECK(found * 10 >= compared * 9);
}
