// Plans where pinned host memory is scarce.
#include <catch2/catch.hpp>

#include "training.h"

using namespace swapadvisor;
using namespace swapadvisor::fake;

namespace {

struct Outcome {
    bool planned = false;
    std::uint64_t host_used = 0, refused_plans = 0, bytes_out = 0;
    std::uint64_t mapping = 0, host_alloc = 0;  ///< driver calls in the steady iterations
    int wrong = 0;
};

Outcome train(std::uint64_t host_bytes, double laziness, int streams) {
    reset(5, laziness);
    Timeline timeline(api());
    CUresult result;
    auto residency = Residency::create(api(), timeline, context(), 0, options(24, host_bytes), result);
    Outcome out;
    {
        FollowingManager manager(*residency);
        Program program(*residency, manager, streams);
        Training training(program, {6, 2, 4, streams, false});
        for (int i = 0; i < 12; ++i) training.step(static_cast<std::uint64_t>(i));
        const Calls before = calls();
        const std::uint64_t moved = residency->counts().bytes_out;
        for (int i = 0; i < 10; ++i) training.step(static_cast<std::uint64_t>(i));
        out.planned = manager.steering.planned();
        out.mapping = calls().mapping() - before.mapping();
        out.host_alloc = calls().host_alloc - before.host_alloc;
        out.bytes_out = residency->counts().bytes_out - moved;
        out.host_used = residency->host().used();
        out.refused_plans = manager.steering.counts().refused_plans;
        out.wrong = training.wrong + program.check_all();
        for (const std::string& e : errors()) FAIL_CHECK(e);
        drain();
    }
    return out;
}

}  // namespace

TEST_CASE("a plan is followed with less host memory than a block for each tensor that it copies") {
    for (double laziness : {0.0, 0.5, 1.0})
        for (int streams : {1, 2}) {
            const Outcome ample = train(1ull << 32, laziness, streams);
            REQUIRE(ample.planned);
            CHECK(ample.wrong == 0);
            // 24 pages of state and up to 40 of activations on a device of 24: on demand it takes 47 pages.
            for (std::uint64_t pages = ample.host_used / kPage; pages >= 50; pages -= 3) {
                CAPTURE(laziness, streams, pages, ample.host_used / kPage);
                const Outcome scarce = train(pages * kPage, laziness, streams);
                CHECK(scarce.planned);
                CHECK(scarce.refused_plans == 0);
                CHECK(scarce.mapping == 0);
                CHECK(scarce.host_alloc == 0);
                CHECK(scarce.host_used <= pages * kPage);
                CHECK(scarce.wrong == 0);
            }
        }
}
