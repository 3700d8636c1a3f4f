// `swapadvisor simulate GRAPH PLAN`: is the plan valid, and how long is its iteration?
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/options.h"
#include "interpose/command/planner_input.h"
#include "interpose/command/planner_options.h"
#include "interpose/command/sizes.h"
#include "planner/machine/checker.h"
#include "planner/planner.h"

namespace swapadvisor::command {

int cmd_simulate(int argc, char** argv) {
    Options app("swapadvisor simulate",
                "Checks a plan against every rule of the format and runs it on the graph's machine.",
                "GRAPH|TRACE PLAN",
                "  swapadvisor simulate run.trace run.plan\n"
                "  swapadvisor simulate graph.json graph.plan --h2d 50GB/s --json");
    GraphInput input;
    std::string plan_path;
    bool json = false;
    input.add_to(app, false);
    app.add_option("plan", plan_path, "plan (JSON)")->required()->type_name("PLAN");
    app.add_flag("--json", json, "the result as JSON");
    return app.run(argc, argv, [&] {
        planner::Plan plan;
        try {
            plan = planner::parse_plan(read_file(plan_path));
        } catch (const planner::PlanError& error) {
            throw std::runtime_error(plan_path + ": " + error.what());
        }
        input.planned_bytes = plan.limit_bytes;
        input.ideal |= is_ideal(plan);
        const planner::Graph graph = input.load();
        const planner::CheckResult result = planner::check_plan(graph, plan);
        if (json) {
            nlohmann::ordered_json out{{"graph", graph.name},
                                       {"valid", result.valid()},
                                       {"violations", result.violations},
                                       {"period_ns", result.period_ns},
                                       {"predicted_ns", plan.predicted_ns},
                                       {"compute_ns", result.compute_ns},
                                       {"in_bytes", result.in_bytes},
                                       {"out_bytes", result.out_bytes},
                                       {"transfers", result.transfers},
                                       {"remaps", result.remaps},
                                       {"limit_bytes", plan.limit_bytes},
                                       {"pool_peak_bytes", result.pool_peak_bytes},
                                       {"rounding_peak_bytes", result.rounding_peak_bytes}};
            fmt::print("{}\n", out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
            return result.valid() ? 0 : 1;
        }
        if (!result.valid()) {
            fmt::print("invalid plan\n");
            for (const std::string& line : result.violations) fmt::print("  {}\n", line);
            return 1;
        }
        fmt::print("valid plan\n");
        fmt::print("{:<12} {}\n", "compute", format_ns(result.compute_ns));
        fmt::print(
            "{:<12} {} ({:.1f} % of the speed with infinite memory)\n", "period", format_ns(result.period_ns),
            result.period_ns > 0
                ? 100.0 * static_cast<double>(result.compute_ns) / static_cast<double>(result.period_ns)
                : 100.0);
        if (plan.predicted_ns != result.period_ns)
            fmt::print("{:<12} {}\n", "predicted", format_ns(plan.predicted_ns));
        fmt::print("{:<12} in {}, out {}, {} transfers\n", "traffic", format_bytes(result.in_bytes),
                   format_bytes(result.out_bytes), result.transfers);
        fmt::print("{:<12} {}\n", "remaps", result.remaps);
        fmt::print("{:<12} {} of the pool at most, {} of it lost to rounding\n", "held",
                   format_bytes(result.pool_peak_bytes), format_bytes(result.rounding_peak_bytes));
        return 0;
    });
}

}  // namespace swapadvisor::command
