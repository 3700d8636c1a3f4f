// The two chromosomes that a set of swaps is planned for: the order of the ops, and the allocation of the
// pool's memory (which sizes share a class, how many slots a class has). With what follows from them: where
// each tensor is used, and the gaps between its uses. Immutable once built; share across threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "planner/problem/problem.h"

namespace swapadvisor::planner {

/// One order of ops: where each tensor is used. Use u of a tensor opens gap u, up to its next use (for the
/// last use of a persistent tensor: up to its first use in the next iteration).
struct Sequence {
    Sequence(const Problem& problem, std::vector<OpId> order);

    std::vector<OpId> order;
    std::vector<std::int32_t> position;  ///< by use number: position in `order`
    std::vector<std::uint8_t> writes;    ///< by use number
};

/// A part of the pool: `slots` pieces of `unit` chunks from chunk `first` on.
struct Region {
    std::int32_t unit = 1;
    std::int32_t slots = 0;
    std::int32_t first = 0;
};

/// Region 0 is shared by all sizes, chunk by chunk; every other region serves the tensors of one size class,
/// a slot each.
struct Allocation {
    /// Everything shared.
    explicit Allocation(const Problem& problem);
    /// By size classes. Distinct tensor sizes in ascending order are distinct(problem); `top[i]` says that
    /// size i is the largest of its class, `slots[i]` how many slots that class has (0: its tensors use the
    /// shared region). The last top[] must be set. What the slots leave over is shared; `fits` is false when
    /// they take more than the pool.
    Allocation(const Problem& problem, std::span<const std::int32_t> distinct,
               std::span<const std::uint8_t> top, std::span<const std::int32_t> slots);

    std::vector<Region> regions;
    std::vector<std::uint16_t> region;  ///< by tensor
    std::vector<std::int32_t> units;    ///< by tensor: slots it takes of its region; 0: not in the pool
    bool fits = true;
};

/// Distinct sizes of the pool tensors in chunks, ascending.
std::vector<std::int32_t> distinct_sizes(const Problem& problem);

/// A gap that eviction would free: between two uses with at least one op in between (cyclic for persistent
/// tensors).
struct Gap {
    std::uint32_t use = 0;  ///< number of the use that opens it
    TensorId tensor = 0;
    std::int32_t units = 0;
    std::int32_t from = 0;  ///< position of the use that opens it
    std::int32_t to = 0;    ///< position of the use that closes it; wrap: in the next iteration
    std::uint16_t region = 0;
    bool wrap = false;
    double span_ns = 0;  ///< compute time between the two uses
};

/// What becomes of a tensor between two uses.
enum class GapChoice : std::uint8_t {
    keep,
    evict,      ///< leaves after the use that opens the gap, comes back for the one that closes it
    evict_tail  ///< last gap of a persistent tensor only: comes back before the iteration ends
};

using Choices = std::vector<GapChoice>;  ///< by use number

struct Setting {
    Setting(const Problem& problem, std::vector<OpId> order, Allocation allocation, double spare = 0);

    const Problem& problem;
    Sequence sequence;
    Allocation allocation;
    std::vector<Gap> gaps;
    std::vector<std::uint32_t> by_from, by_to;  ///< indices into gaps, by the position of either use
    std::int32_t ops = 0;
    double spare =
        0;  ///< part of every region that the choice of swaps leaves free, so that places can be found
    /// Every op's own tensors fit their regions.
    bool possible = true;
};

}  // namespace swapadvisor::planner
