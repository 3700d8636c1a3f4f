// The timed bound's programme as a guide for the search: which gaps its optimum leaves.
#pragma once

#include <vector>

#include "planner/model/graph.h"

namespace swapadvisor::planner {

/// A gap of the program order: from the use of `tensor` by op `from` to its next use.
struct GapAdvice {
    TensorId tensor = 0;
    OpId from = 0;
    double left = 0;               ///< share of the tensor that the optimum evicts here
    bool back_before_end = false;  ///< over the boundary: mostly copied in before the iteration ends
};

/// Gaps left by the optimum within `room_bytes`, the others unnamed. `bytes` by tensor replaces the graph's
/// sizes (rounded up to chunks; 0: takes no room). Takes a second or so of one thread for most graphs, at
/// most about `seconds`; the same for the same input where these suffice, else what the programme had by
/// then. Nothing for graphs of more than 4,000 ops.
std::vector<GapAdvice> bound_advice(const Graph& graph, const std::vector<std::int64_t>& bytes,
                                    std::int64_t room_bytes, double seconds);

}  // namespace swapadvisor::planner
