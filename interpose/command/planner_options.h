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
    bool reorder = false, no_reorder = false, no_genetic = false, no_guide = false;
    std::vector<std::string> vary;  ///< parts that the search may change; empty: all
    std::int64_t arena_below = -1;

    void add_to(CLI::App& app, double default_seconds);
    /// Fills in what depends on the input: the limit (bytes, all of it), and what the runtime can follow.
    void fit(const GraphInput& input, std::int64_t limit);
    /// Of a plan that was made so: the whole limit is its own again, and it says which program it is for.
    static void finish(const GraphInput& input, std::int64_t limit, planner::Plan& plan);
};

/// What a search took, and its best plan against that: one entry per improvement.
struct Effort {
    planner::Spent spent;
    bool interrupted = false;
    std::vector<std::pair<planner::Spent, std::int64_t>> best_ns;
};

/// Was the plan made with --ideal?
bool is_ideal(const planner::Plan& plan);

/// make_plan with progress on standard error (a line that changes on a terminal, else nothing) unless `quiet`.
/// SIGINT (Ctrl-C) or SIGTERM ends the search with its best plan so far.
planner::Plan search(const planner::Graph& graph, planner::PlanOptions options, bool quiet, Effort& effort);

}  // namespace swapadvisor::command
