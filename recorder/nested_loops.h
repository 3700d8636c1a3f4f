// Loops within loops: is a period one iteration, or several of a shorter known one with something else in
// between (evaluation every k steps, a short last batch, the end of an epoch)?
#pragma once

#include <cstdint>

#include "recorder/history.h"

namespace swapadvisor {

constexpr std::uint64_t kShortPeriod = 64;  ///< shorter ones must be seen three times, longer ones twice

/// The period whose two last instances end at op `i`, against a known one of `inner` ops. One iteration it is
/// if it holds no instances of the inner one side by side; if what it adds to them belongs to the step (an
/// optimiser update, another network's turn: work on persistent buffers or with functions of its own, and not
/// just a pass over other input); or if these work on other buffers in other places of the period. O(period).
bool is_one_iteration(const History& history, std::uint64_t i, std::uint64_t period, std::uint64_t inner);

}  // namespace swapadvisor
