// Which gaps to evict: sweeps over the order that free memory wherever the residencies exceed it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/problem.h"

namespace swapadvisor::planner {

/// A gap that eviction would free: between two uses with at least one op in between (cyclic for persistent
/// tensors).
struct Gap {
    std::uint32_t use = 0;  ///< number of the use that opens it
    TensorId tensor = 0;
    std::int32_t size = 0;  ///< chunks
    std::int32_t from = 0;  ///< position of the use that opens it
    std::int32_t to = 0;    ///< position of the use that closes it; wrap: in the next iteration
    bool wrap = false;
};

/// All gaps of the pool tensors under one order.
std::vector<Gap> gaps_of(const Problem& problem, const Sequence& sequence);

/// Rank of each gap as a victim, higher goes first. A wrapping gap has two: while the old iteration lasts and
/// in the next.
struct Priorities {
    std::vector<double> tail, head;
};

enum class Rank { least_recent, farthest_next, longest_gap, largest_gap };
Priorities rank(const Problem& problem, const Sequence& sequence, std::span<const Gap> gaps, Rank by);

/// Chunks that stay resident at each position under `choice` (indexed by use number), prefetches not counted.
void usage_of(const Problem& problem, const Sequence& sequence, std::span<const Gap> gaps,
              std::span<const GapChoice> choice, std::vector<std::int32_t>& usage);

/// Evicts gaps, best rank first, from position 0 on until no position holds more than `capacity`. Returns
/// false when some position cannot be relieved. `release_at`, if given, gets per use number the position
/// after which an evicted tensor has to leave (on-demand eviction).
bool cover(const Problem& problem, const Sequence& sequence, std::span<const Gap> gaps,
           const Priorities& priorities, std::int32_t capacity, std::vector<GapChoice>& choice,
           std::vector<std::int32_t>* release_at = nullptr);

/// Keeps evicted gaps again where memory allows, in the order given (indices into gaps).
void restore(const Problem& problem, const Sequence& sequence, std::span<const Gap> gaps,
             std::span<const std::uint32_t> order, std::int32_t capacity, std::vector<GapChoice>& choice);

}  // namespace swapadvisor::planner
