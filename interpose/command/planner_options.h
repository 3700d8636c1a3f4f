// The planner's own options, shared by `plan` and `sweep`, and a search that shows its progress.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "interpose/command/planner_input.h"
#include "planner/planner.h"

namespace swapadvisor::command {

struct PlannerChoice {
    planner::PlanOptions options;
    bool no_reorder = false, no_genetic = false, no_guide = false;
    std::vector<std::string> vary;  ///< parts that the search may change; empty: all
    std::int64_t arena_below = -1;

    void add_to(CLI::App& app, double default_seconds);
    /// Fills in what depends on the input: the limit, and the arena that the runtime wants for traces.
    void fit(const GraphInput& input, std::int64_t limit);
};

/// make_plan with progress on standard error (a line that changes on a terminal, else a line per improvement)
/// unless `quiet`. An interrupt (Ctrl-C) ends the search with its best plan so far. Sets `seconds` to the
/// time taken.
planner::Plan search(const planner::Graph& graph, planner::PlanOptions options, bool quiet, double& seconds);

}  // namespace swapadvisor::command
