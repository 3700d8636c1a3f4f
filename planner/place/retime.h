// The order of both queues once every stay has its chunks.
//
// The dispatcher orders transfers while memory is a mere count. With places, an `in` waits for the very
// chunks that it returns to, and a queue that is first in, first out makes all behind it wait too. Here the
// machine runs again with those waits, and each queue takes what can go: the `in` that is needed first among
// those whose chunks are free, the write-back whose chunks are wanted first. Who follows whom in a chunk is
// settled by the places, so no choice of order can lock up.
#pragma once

#include <span>

#include "planner/place/placement.h"

namespace swapadvisor::planner {

struct RetimeOptions {
    int look_ahead = 64;  ///< how many waiting `in`s one that can go may overtake; 0: none
    int passes = 3;       ///< iterations run (the last is recorded)
};

/// Sets in_order, out_order, period_ns and op_start of `into`; false when the machine stops. Not for stays
/// that leave on demand.
bool retime(const Setting& setting, std::span<const Stay> stays, const Places& places,
            const RetimeOptions& options, Dispatch& into);

}  // namespace swapadvisor::planner
