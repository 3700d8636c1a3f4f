// The report of a plan: what one iteration of it looks like on the machine of its graph.
#pragma once

#include "planner/model/graph.h"
#include "planner/model/plan.h"
#include "recorder/report_model.h"

namespace swapadvisor::command {

/// What a plan says by itself.
ReportModel report_of_plan(const planner::Plan& plan);
/// With its graph: ops, buffers, swaps and memory over the iteration, from a simulation. Throws PlanError if
/// the plan is not one of this graph.
ReportModel report_of_plan(const planner::Plan& plan, const planner::Graph& graph);
/// The lower bound at the model's limit, or kUnknown when it cannot be computed in a few seconds.
std::int64_t lower_bound_ns(const planner::Graph& graph, std::int64_t limit_bytes);

}  // namespace swapadvisor::command
