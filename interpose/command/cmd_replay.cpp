// `replay`: a program after a plan made earlier.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

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
    CLI::App app(
        "Runs a program after a plan made earlier: swapadvisor replay [options] PLAN -- PROGRAM [arguments]");
    Launch launch(app, "PLAN ");
    app.add_option("-o,--output", launch.setting("--output", "SWAPADVISOR_REPORT"),
                   "write the report here at the end, and as JSON beside it (FILE.json)");
    bool or_search = false;
    app.add_flag(
        "--or-search", or_search,
        "where the plan does not fit the program, search one as `run` does; else the run ends with 2");
    std::string& plan = launch.setting("PLAN", "SWAPADVISOR_PLAN");
    app.add_option("PLAN", plan, "made by `swapadvisor plan` from a trace of the program")->type_name("FILE");
    app.footer(
        "Without --memory the run stays within the memory that the plan was made for.\n"
        "examples:\n  swapadvisor replay run.plan -- ./train --epochs 3\n"
        "  swapadvisor replay run.plan --or-search -o report.txt -- python train.py");
    if (const int status = launch.parse(argc, argv); status >= 0) return status;
    const auto refuse = [](const std::string& why) {
        fmt::print(stderr, "error: {}\n", why);
        return 2;
    };
    if (plan.empty())
        return refuse("no plan given: swapadvisor replay [options] PLAN -- PROGRAM [arguments]");
    if (const std::string problem = plan_problem(plan, launch); !problem.empty()) return refuse(problem);
    if (or_search) setenv("SWAPADVISOR_PLAN_OR_SEARCH", "1", 1);
    return launch.start();
}

}  // namespace swapadvisor::command
