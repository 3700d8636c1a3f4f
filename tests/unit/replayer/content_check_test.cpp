// Uses that are believed to read: what that saves when it is true, and what it must not cost when it is not.
#include <catch2/catch.hpp>

#include "training.h"

using namespace swapadvisor;
using namespace swapadvisor::fake;
using Contents = FollowingManager::Contents;

namespace {

struct Run {
    std::uint64_t out_bytes = 0, drops = 0, changed_copies = 0;  ///< of ten steady iterations
    bool planned = false;
};

Run run(std::uint64_t seed, double laziness, bool unknown_reads, Contents contents, int streams = 1) {
    reset(seed, laziness);
    Timeline timeline(api());
    CUresult result;
    auto residency = Residency::create(api(), timeline, context(), 0, options(26), result);
    FollowingManager manager(*residency);
    manager.contents = contents;
    if (contents != Contents::untold) REQUIRE(residency->check_contents());
    Program program(*residency, manager, streams);
    program.unknown_reads = unknown_reads;
    Training training(program, {6, 2, 4, streams});
    for (std::uint64_t i = 0; i < 14; ++i) training.step(i);
    Run figures;
    figures.planned = manager.steering.planned();
    const ResidencyCounts before = residency->counts();
    const Calls calls_before = calls();
    for (std::uint64_t i = 0; i < 10; ++i) training.step(i);
    figures.out_bytes = residency->counts().bytes_out - before.bytes_out;
    figures.drops = residency->counts().clean_drops - before.clean_drops;
    CHECK(calls().sync == calls_before.sync);  // nothing is decided by waiting
    CHECK(training.wrong + program.check_all() == 0);
    for (const std::string& e : errors()) FAIL_CHECK(e);
    drain();
    figures.changed_copies = calls().changed_copies;
    return figures;
}

}  // namespace

TEST_CASE("arguments that were seen unchanged are dropped like what is known to be read") {
    for (const double laziness : {0.0, 0.6, 1.0})
        for (const int streams : {1, 3}) {
            CAPTURE(laziness, streams);
            const Run known = run(5, laziness, false, Contents::untold, streams);
            const Run unknown = run(5, laziness, true, Contents::untold, streams);
            const Run proved = run(5, laziness, true, Contents::told, streams);
            REQUIRE(known.planned);
            REQUIRE(unknown.planned);
            REQUIRE(proved.planned);
            CHECK(known.out_bytes < unknown.out_bytes);
            CHECK(proved.out_bytes == known.out_bytes);
            CHECK(proved.drops == known.drops);
            CHECK(proved.changed_copies == 0);
        }
}

TEST_CASE("a belief that is wrong costs copies and no byte") {
    std::uint64_t changed = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        CAPTURE(seed);
        const Run lied = run(seed,
                             seed % 3 == 0   ? 0.0
                             : seed % 3 == 1 ? 0.6
                                             : 1.0,
                             true, Contents::lied, 1 + static_cast<int>(seed % 3));
        CHECK(lied.planned);
        changed += lied.changed_copies;
    }
    CHECK(changed > 0);
}

TEST_CASE("where hashes cannot be had every save copies") {
    for (const char* entry : {"cuModuleLoadData", "cuMemAlloc", "cuMemHostAlloc"}) {
        CAPTURE(entry);
        reset(1, 0.5);
        Timeline timeline(api());
        CUresult result;
        auto residency = Residency::create(api(), timeline, context(), 0, options(26), result);
        fail(entry, 1, CUDA_ERROR_NOT_SUPPORTED);
        CHECK_FALSE(residency->check_contents());
        CHECK(residency->content() == nullptr);
    }
}
