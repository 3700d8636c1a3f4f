// Places for stays: which chunks each residency takes, all residencies of a tensor in the same chunks where
// that is possible (a swap is then a copy and two events; a change of place is a remap).
//
// A set of chunks need not be contiguous, so only time matters: two tensors may share a chunk when their
// residencies never meet. Residencies that come by an `in` have play: the dispatcher's start is the earliest
// that is any use, the need is the latest. Chunks that are free even for the early start are preferred; those
// that are free only for a late one delay a transfer but still give a valid plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/swap/swap_planner.h"

namespace swapadvisor::planner {

struct Places {
    bool ok = false;
    std::vector<Placement> at;  ///< per stay
    std::int32_t remaps = 0;    ///< tensors' stays that had to change place
    std::int64_t delay_ns = 0;  ///< by how much transfers start later than the dispatcher meant, in all
    std::int32_t failed = -1;   ///< a stay that found no place
};

struct PlaceOptions {
    bool allow_remaps = true;
    int attempts = 8;   ///< orders tried before a remap is accepted
    int ejections = 4;  ///< placements by ejection, in multiples of the stays; 0: not that way
    bool polish = true;
};

/// Longer lists are placed in ways whose work grows more slowly.
inline constexpr std::size_t most_tight_stays = 8000;

Places place(const Setting& setting, std::span<const Stay> stays, const Dispatch& dispatch,
             const PlaceOptions& options);

/// The plan that stays, dispatch order and places make; predicted_ns is left to the simulator.
Plan write_plan(const Setting& setting, std::span<const Stay> stays, const Dispatch& dispatch,
                const Places& places);

}  // namespace swapadvisor::planner
