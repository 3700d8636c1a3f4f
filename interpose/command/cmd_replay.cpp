// `replay`: a program after a plan made earlier.
#include <fmt/core.h>

#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/launch.h"
#include "interpose/command/planner_options.h"
#include "interpose/command/sizes.h"
#include "interpose/config.h"

namespace swapadvisor::command {

namespace {

/// Why the plan file cannot be followed by whatever program; empty: it may be.
std::string plan_problem(const std::string& path, const Launch& launch) {
    try {
        const planner::Plan plan = planner::parse_plan(read_file(path));
        if (is_ideal(plan))
            return path + " was made with --ideal, which no run can follow: plan again without";
        const std::string memory = launch.value_of("SWAPADVISOR_MEMORY");
        std::uint64_t bytes = 0;
        if (parse_bytes(memory, bytes) && static_cast<std::int64_t>(bytes) < plan.limit_bytes)
            return fmt::format("--memory {} is less than the {} that {} was made for: plan again for it",
                               memory, format_bytes(plan.limit_bytes), path);
        return "";
    } catch (const planner::PlanError& error) {
        return path + " is no plan: " + error.what();
    } catch (const std::exception& error) {
        return error.what();
    }
}

}  // namespace

int cmd_replay(int argc, char** argv) {
    Launch launch(
        "swapadvisor replay",
        "Runs a program after a plan made earlier. Without --memory the run stays within the memory that "
        "the plan was made for.",
        "PLAN ",
        "  swapadvisor replay run.plan -- ./train --epochs 3\n"
        "  swapadvisor replay run.plan --or-search -o report.txt -- python train.py");
    launch.add_setting("-o,--output", "SWAPADVISOR_REPORT", "FILE",
                       "write the report here at the end, and as JSON beside it (FILE.json)");
    launch.add_setting("--trace", "SWAPADVISOR_TRACE", "FILE",
                       "write a trace here, too: the report of a program that is killed is whole then");
    launch.add_switch(
        "--or-search", "SWAPADVISOR_PLAN_OR_SEARCH",
        "where the plan does not fit the program, search one as `run` does; else the run ends with 2");
    launch.add_setting("PLAN", "SWAPADVISOR_PLAN", "FILE",
                       "made by `swapadvisor plan` from a trace of the program");
    if (const int status = launch.parse_launch(argc, argv); status >= 0) return status;
    const std::string plan = launch.value_of("SWAPADVISOR_PLAN");
    if (plan.empty()) return launch.refuse("no plan given: swapadvisor replay [options] " + launch.usage());
    if (const std::string problem = plan_problem(plan, launch); !problem.empty()) {
        fmt::print(stderr, "error: {}\n", problem);
        return 2;
    }
    return launch.start();
}

}  // namespace swapadvisor::command
