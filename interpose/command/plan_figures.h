// The figures that `plan` and `sweep` give for a plan.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "interpose/command/planner_options.h"
#include "planner/bound/bound.h"
#include "planner/machine/checker.h"
#include "planner/model/plan.h"

namespace swapadvisor::command {

struct PlanFigures {
    planner::CheckResult checked;
    planner::Bounds bounds;
    std::int64_t limit_bytes = 0;
    Effort effort;  ///< of the search

    double speed_per_cent() const;  ///< of the speed with infinite memory
    double ratio_to_bound() const;
    double rounding_per_cent() const;  ///< of the pool memory held at the fullest moment, lost to rounding
};

/// Judges a fresh plan; throws if it breaks a rule (a defect of the planner).
PlanFigures judge(const planner::Graph& graph, const planner::Plan& plan, double bound_seconds);

std::string as_table(const PlanFigures& figures);
nlohmann::ordered_json as_json(const PlanFigures& figures);

}  // namespace swapadvisor::command
