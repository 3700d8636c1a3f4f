#include <catch2/catch.hpp>

#include "training.h"

using namespace swapadvisor;
using namespace swapadvisor::fake;

namespace {
struct World {
    World(std::uint64_t seed, double laziness, std::uint64_t pages, Training::Shape shape) {
        reset(seed, laziness);
        timeline = std::make_unique<Timeline>(api());
        CUresult result;
        residency = Residency::create(api(), *timeline, context(), 0, options(pages), result);
        manager = std::make_unique<FollowingManager>(*residency);
        program = std::make_unique<Program>(*residency, *manager, shape.streams);
        training = std::make_unique<Training>(*program, shape);
    }
    void finish() {
        CHECK(training->wrong + program->check_all() == 0);
        for (const std::string& e : errors()) FAIL_CHECK(e);
        for (const std::string& e : manager->problems) UNSCOPED_INFO(e);
        drain();
        CHECK(residency->memory().used_pages() <= residency->memory().limit_pages());
    }
    std::unique_ptr<Timeline> timeline;
    std::unique_ptr<Residency> residency;
    std::unique_ptr<FollowingManager> manager;
    std::unique_ptr<Program> program;
    std::unique_ptr<Training> training;
};
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
