// Fetching ahead without a plan, by the order of the iteration that the program repeats.
#include <catch2/catch.hpp>

#include "training.h"

using namespace swapadvisor;
using namespace swapadvisor::fake;

namespace {
struct World : FollowingWorld {
    World(std::uint64_t seed, double laziness, std::uint64_t pages, Training::Shape shape)
        : FollowingWorld(seed, laziness, pages, shape) {
        manager->making = false;
    }
    /// What `steps` calls moved.
    ResidencyCounts moved(const std::function<void()>& step, int steps) {
        const ResidencyCounts before = residency->counts();
        for (int i = 0; i < steps; ++i) step();
        ResidencyCounts after = residency->counts();
        after.bytes_in -= before.bytes_in;
        after.bytes_out -= before.bytes_out;
        after.demand_ins -= before.demand_ins;
        after.early_ins -= before.early_ins;
        return after;
    }
};
constexpr double kAtOnce = 0, kLate = 1;
}  // namespace

TEST_CASE("once an iteration is known, what it uses next is there before it is asked for") {
    for (std::uint64_t pages : {24u, 30u, 40u})
        for (int streams : {1, 2})
            for (bool late_free : {false, true}) {
                CAPTURE(pages, streams, late_free);
                World w(pages, kAtOnce, pages, {6, 2, 4, streams, late_free});
                w.manager->planning = false;
                const ResidencyCounts without = w.moved([&] { w.training->step(1); }, 6);
                CHECK(without.early_ins == 0);
                REQUIRE(without.demand_ins > 0);
                w.manager->planning = true;
                for (int i = 0; i < 3; ++i) w.training->step(1);
                const ResidencyCounts with = w.moved([&] { w.training->step(1); }, 6);
                // A device that has done everything at once: nothing is in the way of fetching ahead.
                CHECK(with.early_ins > 0);
                CHECK(with.demand_ins * 4 <= with.early_ins);
                CHECK(with.bytes_in * 10 <= without.bytes_in * 11);
                w.finish();
            }
}

TEST_CASE("fetching ahead asks the host to wait no more often, whatever the device is late with") {
    for (double laziness : {0.3, 0.6, kLate})
        for (std::uint64_t pages : {24u, 32u}) {
            CAPTURE(laziness, pages);
            World w(3, laziness, pages, {6, 2, 4, 2, false});
            w.manager->planning = false;
            for (int i = 0; i < 4; ++i) w.training->step(1);
            const std::uint64_t before = calls().sync;
            for (int i = 0; i < 8; ++i) w.training->step(1);
            const std::uint64_t without = calls().sync - before;
            w.manager->planning = true;
            for (int i = 0; i < 3; ++i) w.training->step(1);
            const std::uint64_t start = calls().sync;
            for (int i = 0; i < 8; ++i) w.training->step(1);
            CHECK(calls().sync - start <=
                  without + without / 16);  // some looks for hidden addresses are waited for
            w.finish();
        }
}

TEST_CASE("guesses that turn out wrong cost no byte, and end until a pattern shows again") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        const double laziness = seed % 3 == 0 ? kAtOnce : seed % 3 == 1 ? 0.6 : kLate;
        World w(seed, laziness, 26 + seed % 3 * 8, {6, 2, 4, 1 + static_cast<int>(seed % 3), seed % 2 == 0});
        std::mt19937_64 random(seed);
        for (int i = 0; i < 6; ++i) w.training->step(1);
        CHECK(w.residency->counts().early_ins > 0);
        for (int i = 0; i < 40; ++i) {
            switch (random() % 8) {
                case 0:
                    w.training->evaluate();
                    break;
                case 1:
                    w.training->step(1, 2);  // another batch size
                    break;
                case 2:
                    w.training->step(1, 1, 1 + static_cast<int>(random() % 15));  // an exception
                    break;
                case 3:
                    w.training->step(1, 1, 1 << 30, 5);  // ops between
                    break;
                default:
                    w.training->step(1);
            }
        }
        w.finish();
    }
}

TEST_CASE(
    "a program that goes on to something else is not fetched for by the old order, until it has repeated "
    "it") {
    World w(5, kAtOnce, 26, {6, 2, 4, 1, false});
    for (int i = 0; i < 8; ++i) w.training->step(1);
    REQUIRE(w.residency->counts().early_ins > 0);
    std::mt19937_64 random(9);
    auto chaos = [&] {  // the same first op as a step, and then any order
        const int x = w.program->allocate(4 * kPage);
        REQUIRE(w.program->kernel(10, {}, {x}) == CUDA_SUCCESS);
        for (int i = 0; i < 30; ++i) {
            const auto a = random() % 6, b = random() % 6;
            REQUIRE(w.program->kernel(300 + random() % 50, {w.training->weights()[a]},
                                      {w.training->moments()[b]}) == CUDA_SUCCESS);
        }
        w.program->free(x);
    };
    chaos();  // lasts long enough to be noticed
    CHECK(w.moved(chaos, 10).early_ins == 0);
    // One whole iteration as known, and it is believed again.
    w.training->step(1);
    w.training->step(1);
    CHECK(w.moved([&] { w.training->step(1); }, 2).early_ins > 0);
    w.finish();
}

TEST_CASE("a driver call that fails while something is fetched ahead changes no byte") {
    for (const char* entry : {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyHtoDAsync",
                              "cuMemcpyDtoHAsync", "cuStreamWaitEvent", "cuEventRecord", "cuEventCreate"})
        for (int nth = 1; nth <= 20; ++nth) {
            CAPTURE(entry, nth);
            World w(static_cast<std::uint64_t>(nth), nth % 2 ? 0.5 : kAtOnce, 24, {6, 2, 4, 1, false});
            for (int i = 0; i < 5; ++i) w.training->step(1);
            REQUIRE(w.residency->counts().early_ins > 0);
            fail(entry, nth, CUDA_ERROR_OUT_OF_MEMORY);
            try {
                for (int i = 0; i < 2; ++i) w.training->step(1);
            } catch (const std::runtime_error&) {
                continue;  // the call was one that the program asked for
            }
            fail_no_more();
            w.finish();
        }
}
