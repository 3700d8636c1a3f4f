// Why ops wait, told from what ends when a copy begins.
#include "recorder/report_stalls.h"

#include <catch2/catch.hpp>

using namespace swapadvisor;

namespace {

// Ops of 100 ns, each after the one before; `stalls` by op.
ReportModel model(const std::vector<std::int64_t>& stalls) {
    ReportModel m;
    std::int64_t now = 0;
    for (const std::int64_t stall : stalls) {
        ReportModel::OpRow op;
        op.op = static_cast<std::int64_t>(m.ops.size());
        op.name = "k" + std::to_string(op.op);
        op.duration_ns = 100;
        op.stall_ns = stall;
        op.start_ns = now + stall;
        now = op.start_ns + op.duration_ns;
        m.ops.push_back(op);
    }
    return m;
}

void copy(ReportModel& m, const char* kind, std::int64_t tensor, std::int64_t start, std::int64_t end,
          std::int64_t after, std::int64_t before = kUnknown) {
    m.swaps.push_back({tensor, "t" + std::to_string(tensor), kind, 1 << 20, start, end, after, before});
}

const ReportModel::StallRow& only(ReportModel& m) {
    explain_stalls(m);
    REQUIRE(m.stalls.size() == 1);
    return m.stalls.front();
}

}  // namespace

TEST_CASE("a copy that waits for the one before it waits for the bus") {
    ReportModel m = model({0, 0, 50});  // op 2 waits from 200 to 250
    copy(m, "in", 7, 20, 120, kUnknown, 1);
    copy(m, "in", 8, 120, 250, kUnknown, 2);
    CHECK(only(m).cause == "bus");
    CHECK(m.stalls.front().why ==
          "the copy in of t8 (1.00 MiB) waits for the one of t7 (1.00 MiB) before it");
    CHECK(m.stalls.front().tensor == 8);
}

TEST_CASE("a copy in that begins when another was copied out waits for its room") {
    ReportModel m = model({0, 0, 50});
    copy(m, "out", 7, 0, 150, 0);
    copy(m, "in", 8, 150, 250, kUnknown, 2);
    CHECK(only(m).cause == "room");
    CHECK(m.stalls.front().remedy == "1.00 MiB more memory");
}

TEST_CASE("a copy in that begins when an op ends waits for the op's buffers to go") {
    ReportModel m = model({0, 0, 50});
    copy(m, "in", 8, 100, 250, 0, 2);
    CHECK(only(m).cause == "room");
    CHECK(m.stalls.front().why.find("until op 0 (k0) is done") != std::string::npos);
}

TEST_CASE("what leaves and comes back at once had no earlier chance") {
    ReportModel m = model({0, 0, 50});
    copy(m, "out", 8, 0, 150, 0);
    copy(m, "in", 8, 150, 250, kUnknown, 2);
    CHECK(only(m).cause == "no earlier chance");
}

TEST_CASE("new buffers wait for what is copied out of their place") {
    ReportModel m = model({0, 0, 50});
    copy(m, "out", 7, 100, 250, 0);
    CHECK(only(m).cause == "room");
    CHECK(m.stalls.front().why.find("t7") != std::string::npos);
}

TEST_CASE("a copy that begins when the op asks is on demand") {
    ReportModel m = model({0, 0, 50});
    copy(m, "in", 8, 205, 250, kUnknown, 2);
    CHECK(only(m).cause == "on demand");
}

TEST_CASE("the longest wait comes first, and without waits nothing is said") {
    ReportModel m = model({0, 30, 50, 0});
    explain_stalls(m);
    REQUIRE(m.stalls.size() == 2);
    CHECK(m.stalls[0].op == 2);
    CHECK(m.stalls[0].cause == "unknown");
    ReportModel none = model({0, 0});
    explain_stalls(none);
    CHECK(none.stalls.empty());
}
