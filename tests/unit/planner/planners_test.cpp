// Every planner's plans are valid, keep to their options, and refuse what cannot be.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "planner/bound/bound.h"
#include "planner/machine/checker.h"
#include "planner/machine/simulator.h"
#include "planner/planner.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

namespace {

/// A limit between the largest working set and what everything takes.
std::int64_t some_limit(Rng& rng, const Graph& graph) {
    const std::int64_t least = std::max<std::int64_t>(1, least_memory_bytes(graph));
    const std::int64_t most = std::max(least, peak_memory_bytes(graph));
    return chance(rng, 25) ? least : pick(rng, least, most);
}

}  // namespace

TEST_CASE("every plan of every planner passes the checker on 10,000 random graphs", "[planners]") {
    Rng rng(11);
    const char* const names[] = {"fast", "belady-prefetch", "belady", "lru", "ga"};
    int planned = 0, refused = 0;
    for (int i = 0; i < 10000; ++i) {
        Graph graph =
            i % 4 == 0 ? random_training_graph(rng, static_cast<int>(pick(rng, 1, 6))) : random_graph(rng);
        PlanOptions options;
        options.planner = names[i % 10 == 9 ? 4 : i % 4];
        options.limit_bytes = some_limit(rng, graph);
        options.no_remaps = chance(rng, 30);
        options.reorder = chance(rng, 50);
        options.generations = 1;
        options.threads = 1;
        options.seed = rng();
        if (chance(rng, 20)) options.chunk_bytes = pick(rng, 1, 64);
        if (chance(rng, 10)) options.arena_below_bytes = pick(rng, 1, 600);
        if (chance(rng, 5)) options.classes = "paper";
        graph.device.memory_bytes = std::max(graph.device.memory_bytes, options.limit_bytes);
        INFO("case " << i << " " << options.planner << " limit " << options.limit_bytes << " chunk "
                     << options.chunk_bytes << " arena " << options.arena_below_bytes << " no_remaps "
                     << options.no_remaps << "\n"
                     << to_json(graph));
        try {
            const Plan plan = make_plan(graph, options);
            const CheckResult result = check_plan(graph, plan);
            INFO(to_json(plan));
            if (!result.valid()) FAIL(result.violations[0]);
            REQUIRE(plan.predicted_ns == result.period_ns);
            REQUIRE(plan.limit_bytes == options.limit_bytes);
            if (options.no_remaps) REQUIRE(result.remaps == 0);
            if (!options.reorder || options.planner != "ga")
                for (std::size_t p = 0; p < plan.schedule.size(); ++p)
                    REQUIRE(plan.schedule[p] == static_cast<OpId>(p));
            ++planned;
        } catch (const PlanError& error) {
            REQUIRE(std::string(error.what()).find('\n') == std::string::npos);
            // With every byte a chunk and remaps allowed, whatever holds its working sets has a plan.
            if (options.chunk_bytes == 0 && options.arena_below_bytes == 0 && !options.no_remaps &&
                options.classes == "ours" && options.limit_bytes < 2048)
                FAIL(error.what());
            ++refused;
        }
    }
    CHECK(planned > 6000);
    CHECK(refused < 4000);
}

TEST_CASE("runtime options: 2 MiB chunks, small tensors in the arena, no remaps", "[planners]") {
    Rng rng(12);
    for (int i = 0; i < 60; ++i) {
        Graph graph = random_training_graph(rng, 8);
        for (Tensor& t : graph.tensors) t.bytes *= 4096;
        PlanOptions options;
        options.planner = "fast";
        options.chunk_bytes = std::int64_t{2} << 20;
        options.arena_below_bytes = std::int64_t{1} << 20;
        options.no_remaps = true;
        options.reorder = false;
        options.limit_bytes = least_memory_bytes(graph) + (std::int64_t{40} << 20) +
                              static_cast<std::int64_t>(graph.tensors.size()) * (std::int64_t{1} << 20);
        graph.device.memory_bytes = options.limit_bytes;
        const Plan plan = make_plan(graph, options);
        const CheckResult result = check_plan(graph, plan);
        if (!result.valid()) FAIL(result.violations[0]);
        CHECK(result.remaps == 0);
        CHECK(plan.chunk_bytes == options.chunk_bytes);
        std::vector<char> in_arena(graph.tensors.size(), 0);
        for (const TensorId t : plan.arena) in_arena[static_cast<std::size_t>(t)] = 1;
        for (std::size_t t = 0; t < graph.tensors.size(); ++t)
            if (graph.tensors[t].bytes < options.arena_below_bytes) CHECK(in_arena[t] == 1);
    }
}

TEST_CASE("a working set above the limit names the op and both sizes", "[planners]") {
    Graph graph;
    graph.name = "g";
    graph.device = {1000, 1, 1, 2, 0};
    graph.tensors = {{300, true, "", ""}, {400, false, "", ""}};
    Op op;
    op.name = "matmul";
    op.reads = {0};
    op.writes = {1};
    graph.ops = {op};
    PlanOptions options;
    options.limit_bytes = 650;
    for (const char* const name : {"ga", "fast", "lru"}) {
        options.planner = name;
        try {
            make_plan(graph, options);
            FAIL("planned the impossible");
        } catch (const PlanError& error) {
            const std::string text = error.what();
            CHECK(text.find("matmul") != std::string::npos);
            CHECK(text.find("700") != std::string::npos);
            CHECK(text.find("650") != std::string::npos);
        }
    }
    options.limit_bytes = 700;
    CHECK(check_plan(graph, make_plan(graph, options)).valid());
    options.limit_bytes = 1001;
    CHECK_THROWS_AS(make_plan(graph, options), PlanError);
    options.limit_bytes = 700;
    options.planner = "magic";
    CHECK_THROWS_AS(make_plan(graph, options), PlanError);
}

TEST_CASE("numbers that would not fit are refused with one line", "[planners]") {
    Graph graph;
    graph.name = "g";
    graph.device = {std::int64_t{1} << 60, 1, 1, 2, 0};
    graph.tensors = {{std::int64_t{1} << 50, true, "", ""}, {std::int64_t{1} << 50, true, "", ""}};
    for (const TensorId t : {0, 1}) {
        Op op;
        op.reads = op.writes = {t};
        op.duration_ns = 1;
        graph.ops.push_back(op);
    }
    PlanOptions options;
    options.processor_seconds = 0.1;
    const auto refused = [&](const char* planner, const char* why) {
        options.planner = planner;
        try {
            make_plan(graph, options);
            FAIL("planned what does not fit 64 bits");
        } catch (const PlanError& error) {
            INFO(error.what());
            CHECK(std::string(error.what()).find(why) != std::string::npos);
        }
    };
    for (const char* const planner : {"ga", "fast", "lru", "belady"}) {
        options.limit_bytes = std::int64_t{1} << 50;
        options.chunk_bytes = 0;
        graph.device.h2d_bytes_per_s = graph.device.d2h_bytes_per_s = 1;
        refused(planner, "longer than 2^56 ns");
        graph.device.h2d_bytes_per_s = graph.device.d2h_bytes_per_s = std::int64_t{1} << 50;
        graph.device.transfer_latency_ns = std::int64_t{1} << 60;
        refused(planner, "longer than 2^56 ns");
        graph.device.transfer_latency_ns = 0;
        options.limit_bytes = std::int64_t{1} << 60;
        for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{1} << 31}) {
            options.chunk_bytes = chunk;
            refused(planner, "too small");
        }
        options.chunk_bytes = INT64_MAX;
        refused(planner, "too large");
    }
}

TEST_CASE("at the least limit there is a plan, and below it the message says what it takes", "[planners]") {
    Rng rng(15);
    int above = 0;
    for (int i = 0; i < 300; ++i) {
        Graph graph =
            i % 3 == 0 ? random_graph(rng) : random_training_graph(rng, static_cast<int>(pick(rng, 1, 8)));
        for (Tensor& t : graph.tensors) t.bytes *= pick(rng, 1, 3) * (i % 2 == 0 ? 1 : 100'003);
        PlanOptions options;
        options.planner = "fast";
        if (chance(rng, 30)) options.chunk_bytes = pick(rng, 1, 4096);
        if (chance(rng, 30)) options.arena_below_bytes = pick(rng, 1, 4096);
        graph.device.memory_bytes = std::int64_t{1} << 50;
        options.limit_bytes = least_limit_bytes(graph, options);
        const std::int64_t least = std::max<std::int64_t>(1, least_memory_bytes(graph));
        INFO("case " << i << " limit " << options.limit_bytes << "\n" << to_json(graph));
        REQUIRE(options.limit_bytes >= least);
        REQUIRE(check_plan(graph, make_plan(graph, options)).valid());
        above += options.limit_bytes > least;
        if (options.limit_bytes == least) continue;
        options.limit_bytes = least;
        try {
            make_plan(graph, options);
        } catch (const PlanError& error) {
            CHECK(std::string(error.what()).find("give it at least") != std::string::npos);
        }
    }
    CHECK(above > 50);
}

TEST_CASE("prefetch and early eviction help where they should", "[planners]") {
    Rng rng(13);
    double fast = 0, prefetch = 0, demand = 0, lru = 0;
    for (int i = 0; i < 40; ++i) {
        Graph graph = random_training_graph(rng, 12);
        PlanOptions options;
        options.limit_bytes = (least_memory_bytes(graph) + peak_memory_bytes(graph)) / 2;
        graph.device.memory_bytes = std::max(graph.device.memory_bytes, options.limit_bytes);
        auto period = [&](const char* name) {
            options.planner = name;
            return static_cast<double>(make_plan(graph, options).predicted_ns);
        };
        fast += period("fast");
        prefetch += period("belady-prefetch");
        demand += period("belady");
        lru += period("lru");
    }
    CHECK(fast <= prefetch);
    CHECK(prefetch <= demand);
    CHECK(demand <= 1.02 * lru);
}

TEST_CASE("the C entry plans, reports and refuses", "[planners]") {
    Rng rng(14);
    Graph graph = random_training_graph(rng, 6);
    const std::int64_t limit = (least_memory_bytes(graph) + peak_memory_bytes(graph)) / 2;
    graph.device.memory_bytes = std::max(graph.device.memory_bytes, limit);
    const std::string text = to_json(graph);
    const std::string options =
        nlohmann::json{{"limit_bytes", limit}, {"planner", "ga"}, {"generations", 2}, {"threads", 1}}.dump();
    int improvements = 0;
    char *plan = nullptr, *error = nullptr;
    const auto count = [](void* user, const char* json) {
        parse_plan(json);
        ++*static_cast<int*>(user);
    };
    REQUIRE(swapadvisor_plan(text.c_str(), options.c_str(), nullptr, count, &improvements, &plan, &error) ==
            0);
    CHECK(check_plan(graph, parse_plan(plan)).valid());
    CHECK(improvements >= 1);
    std::free(plan);
    for (const char* const bad :
         {"{}", "[", "{\"limit_bytes\":\"x\"}", "{\"limit_bytes\":5,\"planner\":\"magic\"}"}) {
        error = nullptr;
        CHECK(swapadvisor_plan(text.c_str(), bad, nullptr, nullptr, nullptr, &plan, &error) != 0);
        REQUIRE(error != nullptr);
        CHECK(std::string(error).find('\n') == std::string::npos);
        std::free(error);
    }
}
