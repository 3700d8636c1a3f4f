// Plans where pinned host memory is scarce.
#include <catch2/catch.hpp>

#include "training.h"

using namespace swapadvisor;
using namespace swapadvisor::fake;

namespace {

struct Trained {
    bool planned = false;
    std::uint64_t host_used = 0, refused_plans = 0, bytes_out = 0;
    std::uint64_t mapping = 0, host_alloc = 0;  ///< driver calls in the steady iterations
    int wrong = 0;
    std::vector<std::string> notes;
};

Trained train(std::uint64_t host_bytes, double laziness, int streams) {
    reset(5, laziness);
    Timeline timeline(api());
    CUresult result;
    Trained out;
    ResidencyOptions with_notes = options(24, host_bytes);
    with_notes.note = [&](const std::string& line) { out.notes.push_back(line); };
    auto residency = Residency::create(api(), timeline, context(), 0, std::move(with_notes), result);
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
            const Trained ample = train(1ull << 32, laziness, streams);
            REQUIRE(ample.planned);
            CHECK(ample.wrong == 0);
            // 24 pages of state and up to 40 of activations on a device of 24: on demand it takes 47 pages.
            for (std::uint64_t pages = ample.host_used / kPage; pages >= 50; pages -= 3) {
                CAPTURE(laziness, streams, pages, ample.host_used / kPage);
                const Trained scarce = train(pages * kPage, laziness, streams);
                CHECK(scarce.planned);
                CHECK(scarce.refused_plans == 0);
                CHECK(scarce.mapping == 0);
                CHECK(scarce.host_alloc == 0);
                CHECK(scarce.host_used <= pages * kPage);
                CHECK(scarce.wrong == 0);
            }
        }
}

TEST_CASE("what is said when host memory runs out is what happened") {
    const std::string ran_out = "pinned host memory ran out: ";
    std::vector<std::string> notes;
    reset(1, 0);
    Timeline timeline(api());
    CUresult result;
    // Three times six pages on a device of ten and in host memory that holds one of them.
    ResidencyOptions o = options(10, 11 * kPage);
    o.note = [&](const std::string& line) { notes.push_back(line); };
    auto residency = Residency::create(api(), timeline, context(), 0, std::move(o), result);
    PlainManager manager(*residency);
    Program program(*residency, manager, 1);
    const int a = program.allocate(6 * kPage), b = program.allocate(6 * kPage),
              c = program.allocate(6 * kPage);
    REQUIRE(program.kernel(1, {}, {a}) == CUDA_SUCCESS);
    REQUIRE(program.kernel(2, {}, {b}) == CUDA_SUCCESS);
    // An op: its error is said by who asked for it, with this reason.
    CHECK(program.kernel(3, {}, {c}) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(residency->why().starts_with("could not get the device memory it uses: " + ran_out));
    CHECK(notes.empty());
    // A small allocation.
    for (int i = 0; i < 5 * 4 && notes.empty(); ++i) program.allocate(1000);
    REQUIRE(notes.size() == 1);
    CHECK(notes[0].starts_with("out of memory: no device memory is left for small allocations: " + ran_out));
    // A copy of our own choice fails without a word.
    CHECK(residency->save(program.buffer(b)) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(notes.size() == 1);
    CHECK(program.check_all() % (1 << 20) == 0);
    drain();
    for (const std::string& e : errors()) FAIL_CHECK(e);
}

TEST_CASE("a planned copy that finds no host memory is put off, and said to be") {
    const std::string put_off =
        "a copy to the host that the plan has was put off: pinned host memory ran out: ";
    int met = 0;
    for (std::uint64_t pages = 50; pages >= 40; --pages) {
        CAPTURE(pages);
        try {
            const Trained scarce = train(pages * kPage, 0.5, 1);
            CHECK(scarce.wrong == 0);
            CAPTURE(scarce.notes);
            for (const std::string& note : scarce.notes) CHECK(note.starts_with(put_off));
            CHECK(scarce.notes.size() <= 1);
            met += !scarce.notes.empty();
        } catch (const std::runtime_error&) {
            // Less than the program needs on demand.
        }
    }
    CHECK(met > 0);
}
