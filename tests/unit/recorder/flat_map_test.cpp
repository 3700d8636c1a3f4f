#include "recorder/flat_map.h"

#include <catch2/catch.hpp>
#include <random>
#include <unordered_map>

using namespace swapadvisor;

TEST_CASE("the flat map does what std::unordered_map does") {
    FlatMap<int> map;
    std::unordered_map<std::uint64_t, int> wanted;
    std::mt19937_64 random(23);
    for (int i = 0; i < 200'000; ++i) {
        const std::uint64_t key = random() % 3 ? random() % 500 : ~(random() % 5);
        switch (random() % 3) {
            case 0:
                map[key] = i;
                wanted[key] = i;
                break;
            case 1:
                map.erase(key);
                wanted.erase(key);
                break;
            default: {
                const auto there = wanted.find(key);
                const int* found = map.find(key);
                REQUIRE((found != nullptr) == (there != wanted.end()));
                if (found) REQUIRE(*found == there->second);
            }
        }
        REQUIRE(map.size() == wanted.size());
    }
}
