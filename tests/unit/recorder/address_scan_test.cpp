#include "recorder/address_scan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <utility>
#include <vector>

using namespace swapadvisor;

namespace {

struct Range {
    std::uint64_t low, high;
};
// As reservations lie: high up, across a carry of the upper bytes, low, and small.
constexpr Range kRanges[] = {{0x7f1000000000, 0x7f1100000000},
                             {0x7eff80000000, 0x7f0080000000},
                             {0x302000000, 0x1302000000},
                             {0xa00000000, 0xa04000000}};

using Hits = std::vector<std::pair<std::uint64_t, WordForm>>;

void put(std::vector<char>& bytes, std::size_t at, std::uint64_t word) {
    std::memcpy(bytes.data() + at, &word, 8);
}

bool has(const Hits& hits, std::uint64_t address, WordForm form) {
    return std::find(hits.begin(), hits.end(), std::pair(address, form)) != hits.end();
}

}  // namespace

TEST_CASE("addresses in a payload are found at every 4 bytes of the device, and nothing else is") {
    std::mt19937_64 random(3);
    for (int round = 0; round < 400; ++round) {
        const auto [low, high] = kRanges[round % 4];
        std::vector<char> bytes(random() % 700);
        for (char& c : bytes) c = static_cast<char>(random() % 3);
        const std::uint64_t device = 0x7f2000000000 + random() % 16;
        // The ends of the range and their neighbours, now and then.
        for (std::size_t at = (4 - device % 4) % 4; at + 8 <= bytes.size(); at += 4 * (1 + random() % 9)) {
            const std::uint64_t near[] = {low, low - 1, high, high - 1, low + random() % (high - low)};
            put(bytes, at, near[random() % 5]);
        }
        std::vector<std::uint64_t> expected, got;
        for (std::size_t at = (4 - device % 4) % 4; at + 8 <= bytes.size(); at += 4)
            if (const auto w = address_scan::load<std::uint64_t>(bytes.data() + at); w >= low && w < high)
                expected.push_back(w);
        find_addresses(bytes.data(), bytes.size(), device, low, high,
                       [&](std::uint64_t w) { got.push_back(w); });
        CHECK(got == expected);
    }
    const auto never = [](std::uint64_t) { FAIL(); };
    find_addresses("x", 1, 4, 1, 2, never);
    find_addresses(nullptr, 0, 1, 1, 2, never);
    find_addresses("xxxxxxxxxxxxxxxx", 16, 0, ~0ull, 0, never);  // no range yet
}

TEST_CASE("addresses are found at any byte, tagged, and with their halves in the other order") {
    std::mt19937_64 random(5);
    for (int round = 0; round < 4000; ++round) {
        const auto [low, high] = kRanges[round % 4];
        std::vector<char> bytes(8 + random() % 90);
        for (char& c : bytes) c = static_cast<char>(0x80 + random() % 3);  // no part of an address
        const std::uint64_t address = (low + random() % (high - low)) | 1;
        const std::uint64_t place = random() % 8;
        const int form = static_cast<int>(random() % 3);
        // Where that form counts: anywhere, at the alignment of 8 bytes, at that of 4.
        const std::size_t step = form == 0 ? 1 : form == 1 ? 8 : 4, first = (8 * step - place) % step;
        if (bytes.size() < first + 8) continue;
        const std::size_t at = first + random() % ((bytes.size() - first - 8) / step + 1) * step;
        put(bytes, at,
            form == 0   ? address
            : form == 1 ? address | (1 + random() % 0xffff) << 48
                        : address << 32 | address >> 32);
        Hits hits;
        find_at_any_byte(bytes.data(), bytes.size(), place, low, high,
                         [&](std::uint64_t w, WordForm f) { hits.emplace_back(w, f); });
        const bool whole = form == 0 && (place + at) % 8 == 0;
        INFO("form " << form << " at " << at << " of " << bytes.size() << " placed at " << place);
        CHECK(has(hits, address, whole ? WordForm::whole : WordForm::odd));
        for (const auto& [word, f] : hits) CHECK((word >= low && word < high));
    }
}

TEST_CASE("arguments of one word, and two halves side by side") {
    for (const auto& [low, high] : kRanges) {
        Hits hits;
        const auto found = [&](std::uint64_t w, WordForm f) { hits.emplace_back(w, f); };
        const std::uint64_t address = low + 0x1234568;
        find_in_word(address, low, high, found);
        find_in_word(address | 0x7full << 56, low, high, found);
        find_in_word(address << 32 | address >> 32, low, high, found);
        const auto lower = static_cast<std::uint32_t>(address),
                   upper = static_cast<std::uint32_t>(address >> 32);
        find_in_halves(lower, upper, low, high, found);
        find_in_halves(upper, lower, low, high, found);
        CHECK(hits == Hits{{address, WordForm::whole},
                           {address, WordForm::odd},
                           {address, WordForm::odd},
                           {address, WordForm::odd},
                           {address, WordForm::odd}});
        hits.clear();
        find_in_word(low - 1, low, high, found);
        find_in_word(high, low, high, found);
        find_in_word(upper, low, high, found);  // a small number, not halves in the other order
        find_in_halves(9998, 9999, low, high, found);
        CHECK(hits.empty());
    }
}

TEST_CASE("an address with a number behind it is not found a second time as halves in the other order") {
    const std::uint64_t low = 0x77ed00000000, high = 0x780000000000;
    const std::uint64_t argument[3] = {0x77fa01600000, 0x05fffff8, 0x100000001};
    std::vector<std::uint64_t> found;
    swapadvisor::find_at_any_byte(argument, sizeof argument, 0, low, high,
                                  [&](std::uint64_t address, swapadvisor::WordForm) {
                                      found.push_back(address);
                                      return true;
                                  });
    REQUIRE(found == std::vector<std::uint64_t>{0x77fa01600000});
    // A number before the halves of an address, in the other order: what looks like one may not hide them.
    const std::uint32_t turned[3] = {7, 0x77fa, 0x01600000};
    found.clear();
    swapadvisor::find_at_any_byte(turned, sizeof turned, 0, low, high,
                                  [&](std::uint64_t address, swapadvisor::WordForm) {
                                      found.push_back(address);
                                      return address == 0x77fa01600000;  // the start of a buffer
                                  });
    REQUIRE(found == std::vector<std::uint64_t>{0x77fa00000007, 0x77fa01600000});
}
