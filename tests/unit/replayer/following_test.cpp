#include <catch2/catch.hpp>

#include "training.h"

using namespace swapadvisor;
using namespace swapadvisor::fake;

namespace {
using World = FollowingWorld;
}  // namespace

TEST_CASE("a plan is followed with right bytes and without mapping or waiting calls") {
    for (double laziness : {0.0, 0.5, 1.0})
        for (std::uint64_t pages : {24u, 30u, 40u})
            for (int streams : {1, 2})
                for (bool late : {false, true}) {
                    CAPTURE(laziness, pages, streams, late);
                    World w(pages + static_cast<std::uint64_t>(streams), laziness, pages,
                            {6, 2, 4, streams, late});
                    for (int i = 0; i < 12; ++i) w.training->step(static_cast<std::uint64_t>(i));
                    CAPTURE(w.manager->changes, w.manager->problems);
                    CHECK(w.manager->steering.planned());
                    const Calls before = calls();
                    for (int i = 0; i < 10; ++i) w.training->step(static_cast<std::uint64_t>(i));
                    CHECK(w.manager->steering.planned());
                    CHECK(calls().mapping() == before.mapping());
                    CHECK(calls().sync == before.sync);
                    CHECK(calls().host_alloc == before.host_alloc);
                    CHECK(w.manager->steering.counts().divergences == 0);
                    if (!late) CHECK(w.manager->steering.counts().late == 0);
                    w.finish();
                }
}

TEST_CASE("a plan is installed without an op that waits, maps or copies more than one on demand does") {
    for (double laziness : {0.0, 0.5, 1.0})
        for (std::uint64_t pages : {24u, 30u, 40u}) {
            CAPTURE(laziness, pages);
            World w(pages, laziness, pages, {6, 2, 4, 1, false});
            struct Work {
                std::uint64_t waits = 0, mappings = 0, bytes_out = 0;
            } before, on_demand, installing;
            bool planned = false;
            auto worst = [&](Work& most) {
                const Work now{calls().sync, calls().mapping(), w.residency->counts().bytes_out};
                most.waits = std::max(most.waits, now.waits - before.waits);
                most.mappings = std::max(most.mappings, now.mappings - before.mappings);
                most.bytes_out = std::max(most.bytes_out, now.bytes_out - before.bytes_out);
                before = now;
            };
            w.manager->on_op = [&] {
                planned = planned || w.manager->steering.planned();
                worst(planned ? installing : on_demand);
            };
            for (int i = 0; i < 12; ++i) w.training->step(static_cast<std::uint64_t>(i));
            REQUIRE(planned);
            REQUIRE(on_demand.bytes_out > 0);
            // One that takes over several atoms waits for the last holder of each.
            CHECK(installing.waits <= 2 * on_demand.waits);
            CHECK(installing.mappings <= on_demand.mappings);
            // A place may have had several holders.
            CHECK(installing.bytes_out * 2 <= on_demand.bytes_out * 3);
            w.finish();
        }
}

TEST_CASE(
    "a device that has less memory than the plan's pool when it is installed: the next plan makes do with "
    "it") {
    World w(4, 0.5, 30, {6, 2, 4, 1, false});
    w.manager->making = false;
    for (int i = 0; i < 6; ++i) w.training->step(1);
    w.manager->making = true;
    // What on demand has released is not given again.
    w.manager->on_op = [&] {
        if (!w.manager->steering.planned() || w.manager->outgrown != 0) return;
        fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
        w.manager->on_op = nullptr;
    };
    for (auto& [signature, script] : w.manager->scripts)
        if (auto made = w.manager->make(script, "fast", w.manager->room())) w.manager->steering.offer(made);
    for (int i = 0; i < 12; ++i) w.training->step(1);
    CAPTURE(w.manager->changes);
    CHECK(std::count(w.manager->changes.begin(), w.manager->changes.end(),
                     "-the device has no room for the plan's pool") == 1);
    CHECK(w.manager->steering.planned());
    w.finish();
}

TEST_CASE("programs that change under the plan keep their bytes") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        World w(seed,
                seed % 3 == 0   ? 0.0
                : seed % 3 == 1 ? 0.6
                                : 1.0,
                26 + seed % 3 * 8, {6, 2, 4, 1 + static_cast<int>(seed % 3), seed % 2 == 0});
        std::mt19937_64 random(seed);
        for (int i = 0; i < 12; ++i) w.training->step(1);
        const bool planned = w.manager->steering.planned();
        CHECK(planned);
        for (int i = 0; i < 60; ++i) {
            switch (random() % 12) {
                case 0:
                    w.training->evaluate();
                    break;
                case 1:
                    w.training->step(1, 2);
                    break;  // another batch size
                case 2:
                    w.training->step(1, 1, 1 + static_cast<int>(random() % 15));
                    break;  // exception in the middle
                case 3:
                    w.training->step(1, 1, 1 << 30, 5);
                    break;  // ops between
                case 4:
                    w.training->wrong += w.program->check(w.training->weights()[random() % 6]);
                    break;
                default:
                    w.training->step(1);
            }
        }
        for (int i = 0; i < 8; ++i) w.training->step(1);
        CAPTURE(w.manager->changes);
        CHECK(w.manager->steering.counts().installs > 1);
        w.finish();
    }
}

TEST_CASE("a thousand switches between on demand and plans") {
    World w(7, 0.6, 16, {3, 1, 2, 2, false});
    w.manager->steering.back_off = false;
    for (int i = 0; i < 10; ++i) w.training->step(1);
    REQUIRE(w.manager->steering.planned());
    std::mt19937_64 random(3);
    int switches = 0;
    while (switches < 1000) {
        // Leave at any point: the residency is told, as it is when the program touches what no plan foresaw.
        w.training->step(1, 1, random() % 2 ? 1 << 30 : 1 + static_cast<int>(random() % 12));
        if (w.manager->steering.planned() && random() % 2) {
            REQUIRE(w.residency->leave_plan("test") == CUDA_SUCCESS);
            ++switches;
        }
        w.training->step(1);
        switches += w.manager->steering.planned();
    }
    w.finish();
}

TEST_CASE("a thousand switches from plan to plan at random boundaries") {
    for (double laziness : {0.0, 0.6, 1.0}) {
        World w(11, laziness, 18, {3, 1, 2, 2, false});
        w.manager->steering.back_off = false;
        for (int i = 0; i < 10; ++i) w.training->step(1);
        REQUIRE(w.manager->steering.planned());
        // Plans by every planner, for all there is and for less.
        auto script = w.manager->scripts.begin()->second;
        std::vector<std::shared_ptr<const PlanScript>> plans;
        for (const char* name : {"fast", "belady-prefetch", "belady", "lru"})
            for (std::int64_t less : {0, 2})
                if (auto plan = w.manager->make(script, name, w.manager->room() - less * std::int64_t{kPage}))
                    plans.push_back(plan);
        REQUIRE(plans.size() >= 4);
        std::mt19937_64 random(5);
        const std::uint64_t before = w.manager->steering.counts().installs;
        while (w.manager->steering.counts().installs - before < 340) {
            if (random() % 8 != 0) w.manager->steering.offer(plans[random() % plans.size()], -1'000'000);
            w.training->step(1);
            if (random() % 16 == 0) w.training->wrong += w.program->check_all();
        }
        CAPTURE(laziness, w.manager->changes.back());
        CHECK(w.manager->steering.counts().divergences == 0);
        CHECK(w.manager->steering.counts().refused_plans == 0);
        w.finish();
    }
}

TEST_CASE("a new plan is strict for two iterations: what is absent cannot be reached") {
    for (bool for_good : {false, true}) {
        CAPTURE(for_good);
        World w(3, 0, 24, {6, 2, 4, 2, false});  // a device that is never behind
        w.manager->steering.strict_for_good = for_good;
        int reached = 0, absent = 0;
        w.manager->on_op = [&] {
            w.residency->for_each_large([&](Buffer& b) {
                if (b.backed) return;
                ++absent;
                reached += reachable(b.address, b.bytes);
            });
        };
        while (!w.manager->steering.planned()) w.training->step(1);
        reached = absent = 0;
        w.training->step(1);
        CHECK_FALSE(w.manager->steering.settled() != for_good);
        CHECK(absent > 0);
        CHECK(reached == 0);
        w.training->step(1);
        CHECK(w.manager->steering.planned());
        CHECK(absent > 0);
        // The second ends here, and with it strictness.
        for (int i = 0; i < 3; ++i) w.training->step(1);
        CHECK((reached == 0) == for_good);
        CHECK(w.manager->steering.settled());
        const Calls before = calls();
        w.training->step(1);
        CHECK((calls().mapping() == before.mapping()) == !for_good);
        CHECK(w.manager->steering.counts().divergences == 0);
        w.finish();
    }
}

TEST_CASE("a use that was missed faults while a plan is strict") {
    World w(3, 0, 24, {6, 2, 4, 1, false});
    w.manager->steering.strict_for_good = true;
    for (int i = 0; i < 14; ++i) w.training->step(1);
    REQUIRE(w.manager->steering.planned());
    w.manager->on_op = {};
    const int hidden = w.training->weights()[0];
    Buffer& b = w.program->buffer(hidden);
    while (b.backed) {
        // Somewhere in the step it is out.
        bool out = false;
        w.manager->on_op = [&] { out = out || !b.backed; };
        w.training->step(1);
        REQUIRE(out);
        break;
    }
    int faults = 0;
    w.manager->on_op = [&] {
        if (b.backed || faults != 0) return;
        launch(new_stream(), {{b.address, b.bytes}}, [] {});
        drain();
        faults = static_cast<int>(errors().size());
    };
    w.training->step(1);
    CHECK(faults == 1);
}

TEST_CASE("small allocations that outgrow a plan lead to one that leaves them room") {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        CAPTURE(seed);
        World w(seed, seed % 2 ? 0.5 : 1.0, 30, {6, 2, 4, 1 + static_cast<int>(seed % 2), false});
        for (int i = 0; i < 12; ++i) w.training->step(1);
        REQUIRE(w.manager->steering.planned());
        // More than a page of them at once, some kept for good.
        std::vector<int> kept;
        for (int i = 0; i < 12; ++i) {
            kept.push_back(w.program->allocate(1000));
            REQUIRE(kept.back() >= 0);
            REQUIRE(w.program->kernel(300, {}, {kept.back()}) == CUDA_SUCCESS);
        }
        for (int i = 0; i < 12; ++i) w.training->step(1);
        CAPTURE(w.manager->changes, w.manager->problems);
        CHECK(w.manager->steering.planned());
        const std::uint64_t left = w.manager->steering.counts().divergences;
        CHECK(left <= 2);
        // The new plan has a page to spare.
        for (int i = 0; i < 3; ++i) REQUIRE(w.program->allocate(1000) >= 0);
        for (int i = 0; i < 4; ++i) w.training->step(1);
        CHECK(w.manager->steering.counts().divergences == left);
        CHECK(w.manager->steering.planned());
        w.finish();
    }
}

TEST_CASE("a driver call that fails under a plan fails one op or none, and later ones have the right bytes") {
    for (const char* entry :
         {"cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
          "cuStreamWaitEvent", "cuEventRecord", "cuEventSynchronize", "cuMemHostAlloc"}) {
        for (int nth = 1; nth <= 40; nth += nth < 6 ? 1 : 9) {
            CAPTURE(entry, nth);
            World w(static_cast<std::uint64_t>(nth), nth % 2 ? 0.5 : 1.0, 26, {4, 2, 3, 2, false});
            // From where a plan is about to be installed, or has been.
            for (int i = 0; i < 3 + nth % 4; ++i) w.training->step(1);
            fail(entry, nth, CUDA_ERROR_OUT_OF_MEMORY);
            int failed = 0;
            for (int i = 0; i < 10; ++i) {
                try {
                    w.training->step(1);
                } catch (const std::runtime_error&) {
                    ++failed;
                }
                if (i % 3 == 0) w.residency->leave_plan("test");
            }
            CHECK(failed <= 1);
            CHECK((w.training->wrong + w.program->check_all()) % (1 << 20) == 0);
            for (const std::string& e : errors()) FAIL_CHECK(e);
            drain();
        }
    }
}
