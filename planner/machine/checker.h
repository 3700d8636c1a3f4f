// The slow, obvious reading of the plan format: every rule of a valid plan, and the machine run event by
// event. Written apart from the fast simulator, which tests hold against it to the nanosecond. Pure and
// re-entrant.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model/graph.h"
#include "planner/model/plan.h"

namespace swapadvisor::planner {

struct CheckResult {
    /// One line per violation, most of them naming the list and index ("actions[5]: ..."); empty: the plan is
    /// valid. Later rules are only judged when the earlier ones hold, and at most `most_violations` lines are
    /// given.
    std::vector<std::string> violations;
    static constexpr std::size_t most_violations = 50;
    bool valid() const { return violations.empty(); }

    std::int64_t period_ns = 0;   ///< steady state, one iteration; 0 unless valid
    std::int64_t compute_ns = 0;  ///< sum of durations: the period with infinite memory
    std::int64_t in_bytes = 0;    ///< copied host to device in one iteration
    std::int64_t out_bytes = 0;   ///< device to host
    std::int64_t transfers = 0;
    std::int64_t remaps = 0;               ///< `in`s to another place than the tensor's last, per iteration
    std::int64_t pool_peak_bytes = 0;      ///< most pool memory held at any op, in plan order
    std::int64_t rounding_peak_bytes = 0;  ///< part of it lost to rounding up to chunks
    int iterations_simulated = 0;
};

CheckResult check_plan(const Graph& graph, const Plan& plan);

}  // namespace swapadvisor::planner
