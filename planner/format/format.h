// Graphs and plans as text (JSON): planner/format/FORMATS.md is the specification. Thread-safe.
#pragma once

#include <string>

#include "planner/model/graph.h"
#include "planner/model/plan.h"
#include "planner/model/plan_error.h"

namespace swapadvisor::planner {

/// These throw PlanError with one line naming the field on anything wrong.
Graph parse_graph(const std::string& json);
Plan parse_plan(const std::string& json);
std::string to_json(const Graph& graph);
std::string to_json(const Plan& plan);

}  // namespace swapadvisor::planner
