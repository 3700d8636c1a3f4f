// When did the same work last touch the very same buffers? Buffers that take turns (mini-batches that live on
// the device, rings, chains of equal layers) come back after a multiple of the distance at which the work
// itself repeats; only their identity tells which.
//
// Method. The context of an op is a hash of its last few tokens, each with the order of magnitude of the
// number of ops since each of its buffers was last touched (the idea of Baker's parameterised matching: equal
// up to a renaming of buffers); so the first of many equal launches on a buffer differs from the others. The
// table holds the last op for each pair of context and buffer. Direct-mapped: what collides is forgotten.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "recorder/history.h"

namespace swapadvisor {

/// The least common multiple if it is at most `most`, else 0.
inline std::uint64_t common_multiple(std::uint64_t a, std::uint64_t b, std::uint64_t most) {
    const std::uint64_t factor = a / std::gcd(a, b);
    return b <= most / factor ? factor * b : 0;
}

class TurnTable {
  public:
    TurnTable() : places_(kPlaces) {}

    /// Notes op `i`, the newest. Returns after how many ops the same work has come back to the same buffers:
    /// the least common multiple over those of them that it has; 0: over none, or more than `most`.
    std::uint64_t note(const History& history, std::uint64_t i, std::uint64_t most);

  private:
    static constexpr std::size_t kPlaces = 1 << 17;
    static constexpr std::uint64_t kContext = 4;        // ops
    static constexpr std::uint32_t kMostTouches = 256;  // of one op that are looked at
    struct Place {
        std::uint64_t hash = 0, op = kNever;
    };
    std::vector<Place> places_;
};

}  // namespace swapadvisor
