// Random graphs and plans for property tests. Deterministic: everything follows from the generator handed in.
#pragma once

#include <cstdint>
#include <random>

#include "planner/model/graph.h"
#include "planner/model/plan.h"

namespace swapadvisor::planner::testing {

using Rng = std::mt19937_64;

/// A whole number in [least, most], the same on every platform.
inline std::int64_t pick(Rng& rng, std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(most - least + 1));
}
inline bool chance(Rng& rng, int per_cent) {
    return pick(rng, 1, 100) <= per_cent;
}

struct GraphShape {
    int least_ops = 1, most_ops = 24;
    int least_tensors = 1, most_tensors = 16;
    std::int64_t most_bytes = 5000;
    std::int64_t most_duration_ns = 3000;
    std::int64_t most_latency_ns = 300;
    bool zeros = true;  ///< tensors of no bytes, ops of no duration, no latency
};
Graph random_graph(Rng& rng, const GraphShape& shape = {});

/// A forward and backward pass over layers with weights, activations and optimiser state: like training, in
/// small.
Graph random_training_graph(Rng& rng, int layers);

/// A plan that keeps every rule, with random order, places, evictions, early transfers and saves; usually
/// needs swaps. Sets graph.device.memory_bytes if that is too small for it. Not good, only valid.
Plan random_plan(Rng& rng, Graph& graph);

/// Changes one thing at random; the result is usually invalid, sometimes still valid.
void spoil(Rng& rng, const Graph& graph, Plan& plan);

}  // namespace swapadvisor::planner::testing
