// The search's own random numbers: the same on every platform (standard distributions are not).
#pragma once

#include <cstdint>

namespace swapadvisor::planner {

/// SplitMix64 (Steele, Lea, Flood 2014): enough for a search, one word of state, any seed.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    /// A stream of its own for every combination of words.
    Random(std::uint64_t seed, std::uint64_t a, std::uint64_t b) : state_(seed) {
        state_ = next() ^ (a * 0x9E3779B97F4A7C15u);
        state_ = next() ^ (b * 0xD1B54A32D192ED03u);
    }
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  ///< [0, 1)
    std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(next() % n); }
    bool chance(double p) { return unit() < p; }

  private:
    std::uint64_t state_;
};

}  // namespace swapadvisor::planner
