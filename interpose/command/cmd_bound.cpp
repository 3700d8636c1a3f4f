// `swapadvisor bound GRAPH --memory SIZE`: what no plan in program order can beat.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "interpose/command/commands.h"
#include "interpose/command/options.h"
#include "interpose/command/planner_input.h"
#include "interpose/command/planner_options.h"
#include "interpose/command/sizes.h"
#include "planner/bound/bound.h"
#include "planner/planner.h"

namespace swapadvisor::command {

int cmd_bound(int argc, char** argv) {
    Options app("swapadvisor bound", "Lower bounds on the period of any plan that keeps the program order.",
                "GRAPH|TRACE",
                "  swapadvisor bound run.trace --memory 16GiB\n"
                "  swapadvisor bound graph.json --memory 50% --json");
    GraphInput input;
    bool json = false;
    double seconds = 60;
    input.add_to(app, true);
    app.add_option("--seconds", seconds, "stop tightening after this long")->check(CLI::NonNegativeNumber);
    app.add_flag("--json", json, "the result as JSON");
    return app.run(argc, argv, [&] {
        const planner::Graph graph = input.load();
        const std::int64_t limit = input.limit(graph);
        const std::int64_t beside = input.resident_bytes;
        const std::int64_t least = planner::least_memory_bytes(graph) + beside,
                           peak = planner::peak_memory_bytes(graph) + beside;
        PlannerChoice choice;
        choice.fit(input, limit);
        const std::int64_t least_plan = planner::least_limit_bytes(graph, choice.options) + beside;
        planner::BoundOptions options;
        options.limit_bytes = input.room(limit);
        options.seconds = seconds;
        const planner::Bounds bounds = planner::bound(graph, options);
        if (json) {
            nlohmann::ordered_json out{{"graph", graph.name},
                                       {"limit_bytes", limit},
                                       {"least_memory_bytes", least},
                                       {"least_plan_bytes", least_plan},
                                       {"peak_memory_bytes", peak},
                                       {"compute_ns", bounds.compute_ns},
                                       {"traffic_ns", bounds.traffic_ns},
                                       {"timed_ns", bounds.timed_ns},
                                       {"bound_ns", bounds.best_ns()},
                                       {"best", bounds.best_name()},
                                       {"in_bytes", bounds.in_bytes},
                                       {"out_bytes", bounds.out_bytes},
                                       {"note", bounds.note}};
            fmt::print("{}\n", out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
            return 0;
        }
        const auto row = [&](const char* name, std::int64_t ns) {
            fmt::print("{:<14} {:>14}{}\n", name, format_ns(ns),
                       bounds.best_name() == std::string(name) ? "  <- the bound" : "");
        };
        fmt::print("{:<14} {:>14}\n", "limit", format_bytes(limit));
        fmt::print("{:<14} {:>14}  (largest working set of one op)\n", "least memory", format_bytes(least));
        fmt::print("{:<14} {:>14}  (with what chunks of memory round up)\n", "least to plan",
                   format_bytes(least_plan));
        fmt::print("{:<14} {:>14}  (live at once: above it nothing moves)\n", "peak memory",
                   format_bytes(peak));
        row("compute", bounds.compute_ns);
        row("traffic", bounds.traffic_ns);
        if (bounds.timed_ns > 0) row("timed", bounds.timed_ns);
        fmt::print("{:<14} in {}, out {}\n", "traffic least", format_bytes(bounds.in_bytes),
                   format_bytes(bounds.out_bytes));
        fmt::print("Valid for plans in program order{}{}\n", bounds.note.empty() ? "" : "; ", bounds.note);
        return 0;
    });
}

}  // namespace swapadvisor::command
