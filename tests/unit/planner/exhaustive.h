// The best period of a tiny graph, found by looking at every plan that could be best.
#pragma once

#include <cstdint>
#include <optional>

#include "planner/model/graph.h"
#include "planner/model/plan.h"

namespace swapadvisor::planner::testing {

struct Exhaustive {
    std::int64_t period_ns = 0;
    Plan plan;
    std::int64_t plans = 0;  ///< looked at
};

/// Every order (if `reorder`), every choice of gaps to leave, every order of the transfers in their queues,
/// every chunk for every stay; each tensor in one chunk of its own. Positions are the loosest that the format
/// allows, which is best where starting earlier delays nobody: the link's directions must be independent. All
/// tensors must have the same size. Stops when the ops alone take as long. Nothing if no plan exists. Meant
/// for some 5 ops and tensors.
std::optional<Exhaustive> best_of_all(const Graph& graph, int chunks, bool reorder);

}  // namespace swapadvisor::planner::testing
