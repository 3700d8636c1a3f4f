// The checker on plans small enough to follow by hand.
#include "planner/machine/checker.h"

#include <catch2/catch.hpp>

using namespace swapadvisor::planner;

namespace {

constexpr ActionKind alloc = ActionKind::alloc, release = ActionKind::free, save = ActionKind::save,
                     out = ActionKind::out, drop = ActionKind::drop, in = ActionKind::in;

// Rates of 1 byte/ns each way, latency 10 ns, 100-byte tensors, ops of 50 ns.
struct Case {
    Graph graph;
    Plan plan;

    Case(int ops, std::vector<bool> persistent) {
        graph.name = plan.graph = "hand";
        graph.device = {10'000, 1'000'000'000, 1'000'000'000, 2'000'000'000, 10};
        for (bool p : persistent) graph.tensors.push_back({100, p, "", ""});
        graph.ops.resize(ops);
        for (int i = 0; i < ops; ++i) {
            graph.ops[i].duration_ns = 50;
            plan.schedule.push_back(i);
        }
        plan.limit_bytes = 1000;
        plan.chunk_bytes = 100;
        plan.chunks = 2;
    }
    Case& reads(int op, std::vector<TensorId> list) {
        graph.ops[op].reads = std::move(list);
        return *this;
    }
    Case& writes(int op, std::vector<TensorId> list) {
        graph.ops[op].writes = std::move(list);
        return *this;
    }
    Case& act(ActionKind kind, TensorId tensor, int after, int before = 0, int chunk = -1) {
        plan.actions.push_back(
            {kind, tensor, after, before, chunk < 0 ? Placement{} : Placement{{chunk, 1}}});
        return *this;
    }
    Case& initial(TensorId tensor, int chunk) {
        plan.initial.push_back({tensor, {{chunk, 1}}});
        return *this;
    }
    CheckResult check() const { return check_plan(graph, plan); }
    std::string problem() const {
        const CheckResult result = check();
        return result.valid() ? "valid" : result.violations[0];
    }
    bool says(const char* part) const {
        const std::string line = problem();
        INFO(line);
        return line.find(part) != std::string::npos;
    }
};

// One weight used by ops 0 and 2, a temporary in op 1 that takes its chunk: out and in again each iteration.
Case weight_and_temporary() {
    Case c(3, {true, false});
    c.reads(0, {0}).writes(1, {1}).reads(2, {0}).initial(0, 0);
    c.plan.chunks = 1;
    c.act(drop, 0, 0).act(alloc, 1, -1, 1, 0).act(release, 1, 1).act(in, 0, 1, 2, 0);
    return c;
}

}  // namespace

TEST_CASE("a plan without swaps runs at the speed of its ops", "[checker]") {
    Case c(2, {true, false});
    c.reads(0, {0}).writes(0, {1}).reads(1, {1}).initial(0, 0).act(alloc, 1, -1, 0, 1).act(release, 1, 1);
    const CheckResult result = c.check();
    REQUIRE(c.problem() == "valid");
    CHECK(result.period_ns == 100);
    CHECK(result.transfers == 0);
    CHECK(result.pool_peak_bytes == 200);
}

TEST_CASE("a copy in stalls the op that needs it", "[checker]") {
    const Case c = weight_and_temporary();
    REQUIRE(c.problem() == "valid");
    const CheckResult result = c.check();
    CHECK(result.period_ns == 50 + 50 + 110 + 50);  // op 1 frees the chunk, latency 10 + 100 bytes, op 2
    CHECK(result.in_bytes == 100);
    CHECK(result.out_bytes == 0);
    CHECK(result.remaps == 0);
}

TEST_CASE("a written tensor must be copied out first", "[checker]") {
    Case c = weight_and_temporary();
    c.writes(2, {0});
    CHECK(c.says("the host copy of tensor 0 is not valid"));
    c.plan.actions[0].kind = out;
    REQUIRE(c.problem() == "valid");
    CHECK(c.check().period_ns == 50 + 110 + 50 + 110 + 50);
    // Saved at the end of the iteration before, the drop is free; the save overlaps op 0 of the next
    // iteration.
    Case early = weight_and_temporary();
    early.writes(2, {0});
    early.act(save, 0, 2);
    REQUIRE(early.problem() == "valid");
    CHECK(early.check().period_ns == 110 + 50 + 110 + 50);  // op 1 waits for the chunk, hence for the save
}

TEST_CASE("a write waits for the save before it", "[checker]") {
    Case c(3, {true});
    c.writes(0, {0}).reads(1, {0}).writes(2, {0}).initial(0, 0).act(save, 0, 0);
    REQUIRE(c.problem() == "valid");
    CHECK(c.check().period_ns == 50 + 110 + 50);
    c.plan.actions[0].after = 2;  // saved across the boundary: op 0 waits
    CHECK(c.check().period_ns == 150 + 110);
}

TEST_CASE("both directions share a slow link", "[checker]") {
    // Two weights change places through one spare chunk; both directions move at once.
    Case c(2, {true, true});
    c.reads(0, {0}).writes(0, {0}).reads(1, {1}).writes(1, {1});
    c.plan.chunks = 2;
    c.initial(0, 0).act(in, 1, -1, 1, 1).act(out, 0, 0).act(in, 0, 0, 2, 0).act(out, 1, 1);
    REQUIRE(c.problem() == "valid");
    const CheckResult free_link = c.check();
    c.graph.device.duplex_bytes_per_s = 1'000'000'000;
    const CheckResult shared_link = c.check();
    CHECK(shared_link.period_ns > free_link.period_ns);
    // Four transfers of 100 bytes at 1 byte/ns can never take less than 400 ns.
    CHECK(shared_link.period_ns >= 400);
    c.graph.device.duplex_bytes_per_s = 1'500'000'000;
    const CheckResult half_shared = c.check();
    CHECK(half_shared.period_ns >= free_link.period_ns);
    CHECK(half_shared.period_ns <= shared_link.period_ns);
}

TEST_CASE("the schedule must respect data hazards", "[checker]") {
    Case c(2, {false});
    c.writes(0, {0}).reads(1, {0}).act(alloc, 0, -1, 0, 0).act(release, 0, 1);
    CHECK(c.problem() == "valid");
    c.plan.schedule = {1, 0};
    CHECK(c.says("schedule: op 1 must come after op 0: it reads tensor 0 written there"));
    c.reads(0, {0}).writes(0, {}).writes(1, {0}).reads(1, {});
    CHECK(c.says("overwrites tensor 0 read there"));
    c.writes(0, {0});
    CHECK(c.says("both write tensor 0"));
    Case after(2, {});
    after.graph.ops[1].after = {0};
    after.plan.schedule = {1, 0};
    CHECK(after.says("it is in its `after`"));
    after.plan.schedule = {0};
    CHECK(after.says("schedule: has 1 ops, the graph has 2"));
}

TEST_CASE("memory limits", "[checker]") {
    Case c(1, {true});
    c.reads(0, {0}).initial(0, 0);
    c.plan.limit_bytes = 199;
    CHECK(c.says("exceed limit_bytes"));
    c.plan.limit_bytes = 10'001;
    CHECK(c.says("more than the device's memory"));
    c.plan.limit_bytes = 1000;
    c.plan.arena = {0};
    CHECK(c.says("arena_bytes: 0 is too small"));
    c.plan.arena_bytes = 512;
    CHECK(c.says("initial[0]: tensor 0 is in the arena"));
    c.plan.initial.clear();
    CHECK(c.problem() == "valid");
    c.act(drop, 0, 0);
    CHECK(c.says("actions[0] (drop of tensor 0): tensor 0 is in the arena"));
    c.plan.graph = "another";
    CHECK(c.says("for another graph"));
}

TEST_CASE("places must hold their tensors", "[checker]") {
    Case c(1, {true});
    c.reads(0, {0}).initial(0, 0);
    c.graph.tensors[0].bytes = 101;
    CHECK(c.says("smaller than tensor 0"));
    c.plan.initial[0].at = {{0, 2}};
    CHECK(c.problem() == "valid");
    c.plan.initial[0].at = {{1, 2}};
    CHECK(c.says("are not in the pool"));
    c.plan.initial[0].at = {{0, 2}, {1, 1}};
    CHECK(c.says("chunk 1 appears twice"));
}

TEST_CASE("tensors are used only while resident", "[checker]") {
    Case c(3, {false});
    c.writes(0, {0}).reads(2, {0}).act(alloc, 0, -1, 0, 0).act(release, 0, 1);
    CHECK(c.says("accesses tensor 0, which the plan does not keep resident there"));
    c.plan.actions[0].before = 1;
    CHECK(c.says("schedule[0]"));
    c.plan.actions.clear();
    CHECK(c.says("does not keep resident"));
    c.act(alloc, 0, -1, 0, 0);
    CHECK(c.says("is never released"));
    c.act(release, 0, 2).act(alloc, 0, -1, 2, 0);
    CHECK(c.says("was born before"));
}

TEST_CASE("persistent tensors are neither born nor freed", "[checker]") {
    Case c(1, {true});
    c.reads(0, {0}).act(alloc, 0, -1, 0, 0);
    CHECK(c.says("is persistent: it is not born"));
    c.plan.actions.clear();
    c.initial(0, 0).act(release, 0, 0);
    CHECK(c.says("is persistent: the next iteration expects it"));
}

TEST_CASE("the iteration closes on itself", "[checker]") {
    Case c(2, {true});
    c.reads(0, {0}).initial(0, 0).act(drop, 0, 0);
    CHECK(c.says("resident at the start of the iteration but not at its end"));
    c.act(in, 0, 0, 2, 1);
    CHECK(c.says("at another place"));
    c.plan.actions[1].at = {{0, 1}};
    CHECK(c.problem() == "valid");
    c.plan.initial.clear();
    CHECK(c.says("is not resident"));
    c.plan.actions.clear();
    c.act(in, 0, -1, 0, 0);
    CHECK(c.says("at the end of the iteration but not at its start"));
    c.act(drop, 0, 1);
    CHECK(c.problem() == "valid");
    CHECK(c.check().period_ns == 110 + 100);
}

TEST_CASE("races are refused whatever the timing", "[checker]") {
    Case c = weight_and_temporary();
    c.plan.actions[3].after = 0;  // could start while op 1 has not yet taken the chunk
    CHECK(c.says("race: actions[3] (in of tensor 0)"));
    // An `in` that may still be under way when the next holder is born.
    Case d(3, {true, false});
    d.reads(2, {0}).writes(1, {1}).initial(0, 0);
    d.plan.chunks = 1;
    d.act(drop, 0, 2).act(in, 0, 2, 3, 0).act(alloc, 1, -1, 1, 0).act(release, 1, 1);
    CHECK_FALSE(d.problem() == "valid");
    Case e(3, {true, false});
    e.reads(2, {0}).writes(1, {1});
    e.plan.chunks = 1;
    e.act(in, 0, -1, 2, 0).act(drop, 0, 2).act(alloc, 1, -1, 1, 0).act(release, 1, 1);
    CHECK(e.says("may still be under way"));
}

TEST_CASE("chunks have one holder at a time", "[checker]") {
    Case c(2, {true, false});
    c.reads(0, {0}).reads(1, {0}).writes(1, {1}).initial(0, 0).act(alloc, 1, -1, 1, 0).act(release, 1, 1);
    CHECK(c.says("chunk 0: tensor 0 still holds it when tensor 1 takes it"));
    Case d(1, {true, true});
    d.initial(0, 1).initial(1, 1);
    CHECK_FALSE(d.problem() == "valid");
}

TEST_CASE("a plan that waits for itself is refused", "[checker]") {
    Case c = weight_and_temporary();
    c.plan.actions[3].after = 2;
    CHECK(c.says("as it waits for the op at 2"));
    // Two `in`s in the wrong order: the first waits for a chunk that the op behind the second must free.
    Case d(4, {true, true, false});
    d.reads(0, {0}).writes(1, {2}).reads(2, {1}).reads(3, {0}).initial(0, 0);
    d.plan.chunks = 1;
    d.act(drop, 0, 0).act(alloc, 2, -1, 1, 0).act(release, 2, 1);
    d.act(in, 1, 1, 2, 0).act(drop, 1, 2).act(in, 0, 2, 3, 0);
    CHECK(d.problem() == "valid");
    std::swap(d.plan.actions[3], d.plan.actions[5]);
    std::swap(d.plan.actions[4], d.plan.actions[5]);
    CHECK_FALSE(d.problem() == "valid");
}

TEST_CASE("remaps are counted, not refused", "[checker]") {
    Case c(3, {true});
    c.reads(0, {0})
        .reads(2, {0})
        .initial(0, 0)
        .act(drop, 0, 0)
        .act(in, 0, 0, 2, 1)
        .act(drop, 0, 2)
        .act(in, 0, 2, 3, 0);
    REQUIRE(c.problem() == "valid");
    CHECK(c.check().remaps == 2);
}

TEST_CASE("a transfer beyond any clock is refused", "[checker]") {
    Case c = weight_and_temporary();
    c.graph.tensors[0].bytes = c.graph.tensors[1].bytes = std::int64_t{1} << 58;
    c.graph.device.memory_bytes = c.plan.limit_bytes = c.plan.chunk_bytes = std::int64_t{1} << 58;
    CHECK(c.says("would take longer than 2^56 ns"));
}
