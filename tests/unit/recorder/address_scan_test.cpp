#include "recorder/address_scan.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

using namespace swapadvisor;

TEST_CASE("addresses in a payload are found at the device's alignment, and nothing else is") {
    constexpr std::uint64_t low = 0x7f1000000000, high = 0x7f1100000000;
    std::mt19937_64 random(3);
    for (int round = 0; round < 300; ++round) {
        std::vector<char> bytes(random() % 700);
        for (char& c : bytes) c = static_cast<char>(random() % 3);
        const std::uint64_t device = 0x7f2000000000 + random() % 16;
        std::vector<std::uint64_t> expected, got;
        for (std::size_t at = (8 - device % 8) % 8; at + 8 <= bytes.size(); at += 8)
            if (random() % 5 == 0) {
                // The ends of the range and their neighbours, now and then.
                const std::uint64_t near[] = {low, low - 1, high, high - 1, low + random() % (high - low)};
                const std::uint64_t word = near[random() % 5];
                std::memcpy(bytes.data() + at, &word, 8);
                if (word >= low && word < high) expected.push_back(word);
            }
        find_addresses(bytes.data(), bytes.size(), device, low, high,
                       [&](std::uint64_t w) { got.push_back(w); });
        CHECK(got == expected);
    }
    find_addresses("x", 1, 4, low, high, [](std::uint64_t) { FAIL(); });
    find_addresses(nullptr, 0, 1, low, high, [](std::uint64_t) { FAIL(); });
}
