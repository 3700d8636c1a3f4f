#include "interpose/small_writes.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace swapadvisor;

TEST_CASE("words are put together from what was written in parts, in any order") {
    constexpr std::uint64_t word = 0x7f1234567890;
    SmallWrites writes;
    std::vector<std::uint64_t> got;
    const auto found = [&](std::uint64_t w) { got.push_back(w); };
    const char* const bytes = reinterpret_cast<const char*>(&word);
    writes.write(0x1004, bytes + 4, 4, found);
    writes.write(0x2008, bytes, 2, found);
    CHECK(got.empty());
    writes.write(0x1000, bytes, 4, found);
    CHECK(got == std::vector{word});
    writes.write(0x200a, bytes + 2, 4, found);
    writes.write(0x200e, bytes + 6, 2, found);
    CHECK(got == std::vector{word, word});
    // Across two words.
    writes.write(0x3004, bytes, 8, found);
    CHECK(got.size() == 2);
    writes.write(0x3000, "abcd", 4, found);
    CHECK(got.size() == 3);
    // A whole one; then half of it changes.
    writes.write(0x4000, bytes, 8, found);
    writes.write(0x4000, "abcd", 4, found);
    CHECK(got.size() == 5);
    CHECK(got[3] == word);
    CHECK(got[4] != word);
}
