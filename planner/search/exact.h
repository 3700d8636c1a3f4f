// Tiny graphs: every order of ops, every choice of swaps, every order of both queues and every place, so that
// the result is the optimum among plans of the planner's form.
#pragma once

#include "planner/problem/options.h"
#include "planner/search/builder.h"

namespace swapadvisor::planner {

/// Graphs with more ops, or more residencies, are never looked at this way.
inline constexpr std::size_t most_exact_ops = 16, most_exact_stays = 64;

struct Exact {
    std::optional<Built> best;
    bool complete = false;  ///< nothing is faster; false: the budget was not enough to be sure
};

/// Starts from `first`, which is what there is to beat. The budget is a number of steps, some seconds at
/// most; same result on any machine unless `stop` says so. Plans without
/// remaps come first: those with remaps have to be faster. Where the link's directions slow each other,
/// "complete" is no proof: starting a transfer later may pay there.
Exact search_all(const Problem& problem, const PlanOptions& options, std::optional<Built> first,
                 const std::function<bool()>& stop);

}  // namespace swapadvisor::planner
