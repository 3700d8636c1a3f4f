#include <catch2/catch.hpp>

#include "program.h"

using namespace swapadvisor;
using namespace swapadvisor::fake;

namespace {
struct Setup {
    explicit Setup(std::uint64_t seed, double laziness, ResidencyOptions o,
                   std::uint64_t device = 1ull << 40) {
        reset(seed, laziness, device);
        timeline = std::make_unique<Timeline>(api());
        CUresult result;
        residency = Residency::create(api(), *timeline, context(), 0, std::move(o), result);
        REQUIRE(result == CUDA_SUCCESS);
        manager = std::make_unique<PlainManager>(*residency);
    }
    std::unique_ptr<Timeline> timeline;
    std::unique_ptr<Residency> residency;
    std::unique_ptr<PlainManager> manager;
};

void random_program(std::uint64_t seed, double laziness, int streams, int steps, std::uint64_t limit_pages,
                    std::uint64_t paged_below = 0) {
    ResidencyOptions o = options(limit_pages);
    if (paged_below != 0) o.resident_below = 512, o.arena_below = paged_below;
    Setup s(seed, laziness, o);
    Program p(*s.residency, *s.manager, streams);
    std::mt19937_64 random(seed * 77 + 5);
    auto pick = [&](std::uint64_t n) { return static_cast<int>(random() % n); };
    const std::vector<std::uint64_t> sizes = {64, 600, 1500, 4096, 5000, 8192, 20000, 28672, 30000};
    int wrong = 0;
    for (int i = 0; i < steps; ++i) {
        auto live = p.live();
        const int what = pick(10);
        if (live.size() < 4 || (what == 0 && live.size() < 40)) {
            REQUIRE(p.allocate(sizes[static_cast<std::size_t>(pick(sizes.size()))]) >= 0);
        } else if (what == 1) {
            p.free(live[static_cast<std::size_t>(pick(live.size()))]);
        } else if (what == 2) {
            wrong += p.check(live[static_cast<std::size_t>(pick(live.size()))],
                             pick(static_cast<std::uint64_t>(streams)));
        } else {
            std::vector<int> reads, writes;
            for (int k = pick(3); k > 0; --k)
                reads.push_back(live[static_cast<std::size_t>(pick(live.size()))]);
            int w = live[static_cast<std::size_t>(pick(live.size()))];
            std::erase(reads, w);
            writes.push_back(w);
            REQUIRE(p.kernel(1000 + static_cast<std::uint64_t>(i), reads, writes,
                             pick(static_cast<std::uint64_t>(streams))) == CUDA_SUCCESS);
        }
    }
    wrong += p.check_all();
    CHECK(wrong == 0);
    for (const std::string& e : errors()) FAIL_CHECK(e);
    CHECK(s.residency->memory().used_pages() <= limit_pages);
    for (int b : p.live()) p.free(b);
    CHECK(s.residency->counts().live_bytes == 0);
    CHECK(s.residency->host().used() == 0);
    drain();
}

std::uint64_t pages_of_small_ones(Residency& residency) {
    std::uint64_t pages = 0;
    residency.for_each_large([&](Buffer& b) { pages += b.is_page; });
    return pages;
}
}  // namespace

TEST_CASE("on demand: random programs hold the right bytes at every limit, however late the device is") {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        CAPTURE(seed);
        random_program(seed,
                       seed % 3 == 0   ? 0.0
                       : seed % 3 == 1 ? 1.0
                                       : 0.6,
                       1 + static_cast<int>(seed % 4), 600, seed % 2 ? 40 : 120);
    }
}

TEST_CASE("small buffers in pages: random programs hold the right bytes at every limit") {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        CAPTURE(seed);
        random_program(seed, 0.5 * static_cast<double>(seed % 3), 1 + static_cast<int>(seed % 4), 600,
                       seed % 2 ? 40 : 120, 4096);
    }
}

TEST_CASE("small buffers of many times the limit share pages, which come and go as a whole") {
    ResidencyOptions o = options(4);
    o.resident_below = 1024;
    o.arena_below = 4096;
    Setup s(1, 0.5, o);
    Program p(*s.residency, *s.manager, 2);
    std::vector<int> all;
    for (int i = 0; i < 40; ++i) {
        all.push_back(p.allocate(1300));
        REQUIRE(all.back() >= 0);
    }
    CHECK(pages_of_small_ones(*s.residency) == 20);  // two to a page of 4096
    for (int round = 0; round < 3; ++round)
        for (std::size_t i = 0; i < all.size(); ++i)
            REQUIRE(p.kernel(i, {all[i]}, {all[(i * 7 + 1) % all.size()]}, static_cast<int>(i % 2)) ==
                    CUDA_SUCCESS);
    CHECK(p.check_all() == 0);
    CHECK(s.residency->memory().used_pages() <= 4);
    CHECK(s.residency->counts().bytes_out > 0);
    // One that may not move keeps its page in place, and no other.
    Buffer* const kept = &p.buffer(all[0]);
    REQUIRE(s.residency->set_escaped(*kept, "test") == CUDA_SUCCESS);
    CHECK(s.residency->escaped_pages() == 1);
    for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(p.kernel(i, {all[i]}, {all[i]}) == CUDA_SUCCESS);
    CHECK(kept->page->backed);
    CHECK(p.check_all() == 0);
    // An address between two of a page is nobody's; one near a page is that page's.
    CHECK(s.residency->find(p.buffer(all[39]).address + 1536) == nullptr);
    CHECK(s.residency->find_near(p.buffer(all[39]).address + 2 * 4096) ==
          s.residency->find(p.buffer(all[39]).address)->page);
    for (int b : all) p.free(b);
    CHECK(s.residency->host().used() == 0);
    for (const std::string& e : errors()) FAIL_CHECK(e);
    drain();
}

TEST_CASE("an op whose buffers exceed the limit is out of memory, and says both sizes") {
    Setup s(1, 0, options(10));
    Program p(*s.residency, *s.manager, 1);
    int a = p.allocate(5 * kPage), b = p.allocate(6 * kPage);
    CHECK(p.kernel(1, {}, {a}) == CUDA_SUCCESS);
    CHECK(p.kernel(2, {}, {b}) == CUDA_SUCCESS);
    CHECK(p.kernel(3, {a}, {b}) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(s.residency->why().find("45056") != std::string::npos);
    CHECK(s.residency->why().find("40960") != std::string::npos);
}

TEST_CASE("what an op needs is told apart from what stays on the device anyway") {
    Setup s(1, 0, options(10));
    Program p(*s.residency, *s.manager, 1);
    const int a = p.allocate(5 * kPage), b = p.allocate(4 * kPage), c = p.allocate(2 * kPage);
    for (int i = 0; i < 5; ++i) REQUIRE(p.allocate(1000) >= 0);  // two pages of them
    REQUIRE(p.kernel(1, {}, {a}) == CUDA_SUCCESS);
    CHECK(p.kernel(2, {a}, {b}) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(s.residency->why() ==
          "needs 45056 bytes on the device at once (36864 itself, 8192 held by small allocations), the limit "
          "is "
          "40960 bytes");
    s.residency->set_escaped(p.buffer(c), "test");
    CHECK(p.kernel(3, {a}, {b, c}) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(s.residency->why() ==
          "needs 53248 bytes on the device at once (36864 itself, 8192 held by small allocations, 8192 that "
          "may "
          "not move), the limit is 40960 bytes");
    CHECK(p.check_all() == 0);
}

TEST_CASE("host memory has a limit, and passing it is out of memory at the allocation") {
    std::vector<std::string> notes;
    ResidencyOptions o = options(10, 20 * kPage);
    o.note = [&](const std::string& line) { notes.push_back(line); };
    Setup s(1, 0, o);
    Program p(*s.residency, *s.manager, 1);
    CHECK(p.allocate(10 * kPage) >= 0);
    CHECK(p.allocate(10 * kPage) >= 0);
    CHECK(p.allocate(10 * kPage) >= 0);
    CHECK(p.allocate(10 * kPage) == -1);
    REQUIRE(notes.size() == 1);
    CHECK(notes[0].find("SWAPADVISOR_HOST_MEMORY") != std::string::npos);
}

TEST_CASE("a free does not wait for the device, and memory that fits is never swapped") {
    Setup s(3, 1, options(100));
    Program p(*s.residency, *s.manager, 2);
    for (int i = 0; i < 200; ++i) {
        int a = p.allocate(8 * kPage);
        REQUIRE(p.kernel(static_cast<std::uint64_t>(i), {}, {a}, i % 2) == CUDA_SUCCESS);
        p.free(a);
    }
    CHECK(calls().sync == 0);
    CHECK(calls().map == 1);
    CHECK(s.residency->counts().bytes_out == 0);
    drain();
    CHECK(errors().empty());
}

TEST_CASE("a device with less memory than promised only lowers the limit") {
    Setup s(4, 0.5, options(100), 40 * kPage);
    Program p(*s.residency, *s.manager, 1);
    std::vector<int> all;
    for (int i = 0; i < 10; ++i) {
        all.push_back(p.allocate(10 * kPage));
        REQUIRE(p.kernel(static_cast<std::uint64_t>(i), {}, {all.back()}) == CUDA_SUCCESS);
    }
    CHECK(p.check_all() == 0);
    CHECK(errors().empty());
}

TEST_CASE("a failing driver call fails the op or allocation, and later ones go on with the right bytes") {
    for (const char* entry :
         {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
          "cuStreamWaitEvent", "cuEventRecord", "cuEventCreate", "cuMemHostAlloc"}) {
        for (int nth = 1; nth <= 12; nth += 1) {
            CAPTURE(entry, nth);
            Setup s(static_cast<std::uint64_t>(nth), 0.5, options(24));
            Program p(*s.residency, *s.manager, 2);
            std::vector<int> all;
            for (int i = 0; i < 6; ++i) {
                int b = p.allocate(6 * kPage);
                if (b >= 0) all.push_back(b);
            }
            for (int b : all) REQUIRE(p.kernel(7, {}, {b}, b % 2) == CUDA_SUCCESS);
            fail(entry, nth, CUDA_ERROR_OUT_OF_MEMORY);
            int wrong = 0;
            for (int i = 0; i < 30; ++i) {
                // A failed check reads nothing and changes nothing.
                int w = p.check(all[static_cast<std::size_t>(i) % all.size()], i % 2);
                if (w < 1 << 20) wrong += w;
            }
            CHECK(wrong == 0);
            CHECK(p.check_all() % (1 << 20) == 0);
            CHECK(errors().empty());
        }
    }
}

TEST_CASE("addresses lead to their buffer, from inside, one past the end and just before") {
    Setup s(5, 0, options(100));
    PlainManager& m = *s.manager;
    Buffer *a = nullptr, *b = nullptr, *c = nullptr;
    m.allocate(3 * kPage, a);
    m.allocate(2 * kPage - 100, b);
    m.allocate(100, c);
    Residency& r = *s.residency;
    CHECK(r.find(a->address) == a);
    CHECK(r.find(a->address + 3 * kPage - 1) == a);
    CHECK(r.find(a->address + 3 * kPage) == a);
    CHECK(r.find(b->address - 4) == b);
    CHECK(r.find(c->address + 99) == c);
    CHECK(r.find(1234) == nullptr);
    const CUdeviceptr old = a->address;
    m.release(*a);
    CHECK(r.find(old) == nullptr);
}

TEST_CASE("small memory that is freed and handed to another stream waits for its last use") {
    for (std::uint64_t seed = 1; seed < 40; ++seed) {
        Setup s(seed, 1, options(20));
        Program p(*s.residency, *s.manager, 2);
        int a = p.allocate(512);
        REQUIRE(p.kernel(1, {}, {a}, 0) == CUDA_SUCCESS);
        const CUdeviceptr before = p.buffer(a).address;
        p.free(a);
        int b = p.allocate(512);
        REQUIRE(p.buffer(b).address == before);
        REQUIRE(p.kernel(2, {}, {b}, 1) == CUDA_SUCCESS);
        drain();
        CHECK(p.check(b, 1) == 0);
    }
}

TEST_CASE("a write after a save waits for the copy") {
    int later = 0;
    for (std::uint64_t seed = 1; seed < 40; ++seed) {
        Setup s(seed, 1, options(8));
        Program p(*s.residency, *s.manager, 1);
        int a = p.allocate(3 * kPage);
        REQUIRE(p.kernel(1, {}, {a}) == CUDA_SUCCESS);
        REQUIRE(s.residency->save(p.buffer(a)) == CUDA_SUCCESS);
        CHECK_FALSE(p.buffer(a).dirty);
        REQUIRE(p.kernel(2, {}, {a}) == CUDA_SUCCESS);
        CHECK(p.buffer(a).dirty);
        drain();
        later += *reinterpret_cast<std::uint64_t*>(p.buffer(a).host.data) ==
                 *reinterpret_cast<std::uint64_t*>(p.buffer(a).address);
        CHECK(p.check_all() == 0);
    }
    CHECK(later == 0);
}

TEST_CASE("small memory makes room for itself, whatever the last op used") {
    Setup s(6, 0.5, options(10));
    Program p(*s.residency, *s.manager, 1);
    int a = p.allocate(10 * kPage);
    REQUIRE(p.kernel(1, {}, {a}) == CUDA_SUCCESS);
    for (int i = 0; i < 20; ++i) {
        int b = p.allocate(600);
        REQUIRE(b >= 0);
        REQUIRE(p.kernel(2, {}, {b}) == CUDA_SUCCESS);
    }
    CHECK(p.buffer(a).place == Place::absent);
    p.free(a);
    CHECK(p.check_all() == 0);
    drain();
    CHECK(errors().empty());
}

TEST_CASE("host memory that holds nothing any more is given back before an eviction fails") {
    Setup s(6, 0.5, options(20, 32 * kPage));
    Program p(*s.residency, *s.manager, 1);
    std::vector<int> all;
    for (int i = 0; i < 5; ++i) {
        all.push_back(p.allocate(8 * kPage));
        REQUIRE(all.back() >= 0);
    }
    // Five of eight pages each: two on the device, three on the host, and a fourth block for the one that
    // leaves.
    for (int round = 0; round < 4; ++round)
        for (int b : all) REQUIRE(p.kernel(static_cast<std::uint64_t>(round), {}, {b}) == CUDA_SUCCESS);
    CHECK(p.check_all() == 0);
    drain();
    CHECK(errors().empty());
}

TEST_CASE("an op that was to overwrite memory and is refused leaves the old contents") {
    Setup s(2, 0.5, options(10));
    Program p(*s.residency, *s.manager, 1);
    const int a = p.allocate(6 * kPage), b = p.allocate(6 * kPage);
    REQUIRE(p.kernel(1, {}, {a}) == CUDA_SUCCESS);
    REQUIRE(p.kernel(2, {}, {b}) == CUDA_SUCCESS);
    REQUIRE(p.buffer(a).place == Place::absent);
    const BufferUse uses[] = {{&p.buffer(a), Access::write, true}, {&p.buffer(b), Access::read, false}};
    const QueueId queue = s.timeline->queue(context(), new_stream());
    CHECK(s.residency->begin(uses, 2, queue) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(p.check_all() == 0);
    drain();
    CHECK(errors().empty());
}

TEST_CASE(
    "small memory makes room whatever fills the limit: clean, dirty, unused, freed, with copies under way") {
    for (double laziness : {0.0, 0.6, 1.0}) {
        Setup s(9, laziness, options(24));
        Program p(*s.residency, *s.manager, 2);
        std::vector<int> large;
        for (int i = 0; i < 6; ++i) large.push_back(p.allocate(7 * kPage));
        for (int b : large) REQUIRE(p.kernel(static_cast<std::uint64_t>(b), {}, {b}, b % 2) == CUDA_SUCCESS);
        REQUIRE(s.residency->save(p.buffer(large[5])) == CUDA_SUCCESS);
        p.free(large[4]);
        std::vector<int> small;
        for (int i = 0; i < 60; ++i) {  // 15 pages of them
            small.push_back(p.allocate(1000));
            REQUIRE(small.back() >= 0);
            REQUIRE(p.kernel(100 + static_cast<std::uint64_t>(i), {}, {small.back()}, i % 2) == CUDA_SUCCESS);
            if (i % 8 == 0) {
                REQUIRE(p.kernel(7, {large[static_cast<std::size_t>(i / 8) % 4]}, {small.back()}, i % 2) ==
                        CUDA_SUCCESS);
            }
        }
        CHECK(p.check_all() == 0);
        drain();
        CHECK(errors().empty());
        CHECK(s.residency->memory().used_pages() <= 24);
    }
}
