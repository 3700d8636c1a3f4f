// SplitMix64 (Steele, Lea and Flood, 2014): the same numbers on every platform.
#pragma once

#include <cstdint>

inline std::uint64_t next_random(std::uint64_t& state) {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

inline float uniform(std::uint64_t& state) {
    return static_cast<float>(next_random(state) >> 40) * 0x1p-24f;
}
