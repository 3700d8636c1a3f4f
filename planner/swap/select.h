// Which gaps to evict: sweeps over the order that free memory wherever the residencies exceed it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/problem/setting.h"

namespace swapadvisor::planner {

/// Rank of each gap as a victim, higher goes first. A wrapping gap has two: while the old iteration lasts and
/// in the next.
struct Priorities {
    std::vector<double> tail, head;
};

enum class Rank { least_recent, farthest_next, longest_gap, largest_gap };
Priorities rank(const Setting& setting, Rank by);

/// Units that stay resident under `choice`: [region * (ops + 1) + position], prefetches not counted.
void usage_of(const Setting& setting, std::span<const GapChoice> choice, std::vector<std::int32_t>& usage);

/// Evicts gaps, best rank first, from position 0 on until no position holds more than its region, of which
/// setting.spare is left free where possible at all. Returns false when some position cannot be relieved.
/// `release_at`, if given, gets per use number the position after which an evicted tensor has to leave
/// (on-demand eviction).
bool cover(const Setting& setting, const Priorities& priorities, Choices& choice,
           std::vector<std::int32_t>* release_at = nullptr);

/// Keeps evicted gaps again where memory (less the spare part) allows, in the order given (indices into
/// setting.gaps).
void restore(const Setting& setting, std::span<const std::uint32_t> order, Choices& choice);

}  // namespace swapadvisor::planner
