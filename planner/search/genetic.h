// The search over order, allocation and swaps together, after SwapAdvisor (Huang, Jin, Li; ASPLOS 2020): a
// genetic algorithm whose candidates are an order of ops and an allocation (size -> class, class -> slots); a
// swap planner turns each into swaps, and the simulated period is its fitness. Beyond the paper, candidates
// also carry their keep-or-evict choices, which local search improves between generations (a memetic
// algorithm), and sizes may share all memory.
//
// Several populations run side by side (islands) and pass their best on along a ring. A generation is a
// barrier: what happens in it depends on seed, generation and island alone, so the result after so many
// generations is the same on any number of threads.
#pragma once

#include "planner/problem/options.h"
#include "planner/search/builder.h"

namespace swapadvisor::planner {

/// Searches from `first` (a plan of the simple planners for the shared allocation in program order, if there
/// is one). Calls options.on_better from the calling thread. `effort` began with planning.
Built search(const Problem& problem, const PlanOptions& options, std::optional<Built> first, Effort& effort);

}  // namespace swapadvisor::planner
