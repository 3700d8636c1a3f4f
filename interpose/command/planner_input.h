// What the planner's commands share: the graph argument, the machine's options.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "interpose/command/options.h"
#include "planner/bound/bound.h"
#include "planner/model/graph.h"

namespace swapadvisor::command {

/// GRAPH|TRACE and the options that change the machine it describes.
struct GraphInput {
    std::string path;
    MemoryOption memory;  ///< --memory; not given: the device's
    std::int64_t h2d = 0, d2h = 0, duplex = 0, latency = -1;
    double op_speedup = 1;
    std::int64_t planned_bytes =
        0;  ///< of a trace, without --memory: the limit of the plan that the graph is for; 0: any
    bool ideal = false;               ///< --ideal: of a trace, what only a framework could do
    bool is_trace = false;            ///< known after load()
    bool may_reorder = false;         ///< known after load(): such plans may change the order of the ops
    bool runnable = false;            ///< known after load(): plans of it are for the runtime to follow
    std::int64_t resident_bytes = 0;  ///< after load(): of the limit, what stays taken beside such a plan
    std::string program;  ///< after load(): by which a plan that is to run knows its program (JSON)

    void add_to(CLI::App& app, bool with_memory);
    /// Reads the graph and applies the options. Throws std::exception with one line.
    planner::Graph load();
    /// The memory limit for this graph: --memory, or the device's memory; after load().
    std::int64_t limit(const planner::Graph& graph) const;
    /// What of `limit` is for the plan: all but what is resident beside it. Throws if
    /// nothing is left.
    std::int64_t room(std::int64_t limit) const;
    /// What load() learns of the program from a trace's graph.
    void read_program(const planner::Graph& graph);

  private:
    planner::Graph load_for(std::int64_t plan_bytes);
    std::int64_t limit_ = 0;
};

}  // namespace swapadvisor::command
