// From a period that was found in the history to an Iteration: where it begins, which tensors it has, their
// lives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "recorder/history.h"
#include "recorder/iteration.h"

namespace swapadvisor {

/// Half-open ranges of ops and events; `previous_first_event` is where the instance before it began.
struct Window {
    std::uint64_t first_op = 0, end_op = 0;
    std::uint64_t first_event = 0, end_event = 0;
};

/// The natural boundary in a loop of `period` ops whose last two instances end at op `last`; returns the
/// newest whole instance that begins at it. In this order: the fewest bytes live; just before an input copy;
/// what the program did first in its life (`first_seen(op)`: when the ops from `op` on were first met); after
/// the longest stretch without another candidate.
Window choose_window(const History& history, std::uint64_t last, std::uint64_t period,
                     const std::function<std::uint64_t(std::uint64_t op)>& first_seen);

/// Null if one tensor would need two live copies at once (its life is longer than the period): a multiple of
/// the period may do.
std::shared_ptr<Iteration> build_iteration(const History& history, const Window& window);

/// Fills in the median durations over all instances in the history that match op by op, and which uses were
/// seen to leave the contents as they were.
void fill_measured(const History& history, Iteration& iteration);

}  // namespace swapadvisor
