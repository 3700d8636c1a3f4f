#include "recorder/timing_need.h"

#include <catch2/catch.hpp>
#include <random>

using swapadvisor::TimingNeed;

namespace {

struct Program {
    TimingNeed need;
    std::uint64_t seq = 0, timed = 0;
    bool on = false;
    void run(std::uint64_t ops, bool short_of_memory, bool all = false) {
        for (const std::uint64_t end = seq + ops; seq < end; ++seq) {
            if (need.look(seq)) on = need.wanted(seq, short_of_memory, all);
            timed += on;
        }
    }
};

}  // namespace

TEST_CASE("memory is plentiful: nothing is timed, however long it goes on") {
    Program p;
    p.run(1'000'000, false);
    CHECK(p.timed == 0);
}

TEST_CASE("a loop that is found is timed for three instances, the first one whatever its length") {
    const std::uint64_t ops = GENERATE(1u, 64u, 1000u, 30'000u);
    Program p;
    p.run(1000, false);
    p.need.loop_found(p.seq, ops, 7);
    p.run(20 * ops + 1000, false);
    CHECK(p.timed >= 3 * ops);
    CHECK(p.timed < 3 * ops + TimingNeed::kBurst);
    // The same again, after something else.
    const std::uint64_t before = p.timed;
    p.need.loop_found(p.seq, ops, 7);
    p.run(20 * ops + 1000, false);
    CHECK(p.timed == before);
}

TEST_CASE("a program that falls into one loop after another pays for a share of its ops") {
    Program p;
    std::mt19937 random(1);
    for (int i = 0; i < 20'000; ++i) {
        p.need.loop_found(p.seq, 5 + random() % 50, 100 + random() % 5000);
        p.run(50, false);
    }
    CHECK(p.timed > 1000);
    CHECK(p.timed < 3 * TimingNeed::kLoops + p.seq / 16);
}

TEST_CASE("memory is short: the first ops, then a small share; where it is plentiful again, none") {
    Program p;
    p.run(4000, true);
    CHECK(p.timed == 4000);
    p.run(1'000'000, true);
    CHECK(p.timed < 4096 + 64 + 1'000'000 / 16);
    CHECK(p.timed > 1'000'000 / 32);
    const std::uint64_t before = p.timed;
    p.run(100'000, false);
    CHECK(p.timed <= before + TimingNeed::kBurst);
    p.run(1000, false, true);
    CHECK(p.timed >= before + 1000 - TimingNeed::kBurst);
}
