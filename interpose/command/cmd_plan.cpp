// `swapadvisor plan GRAPH|TRACE -o PLAN`: searches a plan and says how good it is.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/options.h"
#include "interpose/command/plan_figures.h"
#include "interpose/command/planner_options.h"

namespace swapadvisor::command {
namespace {

// Files are written beside their name and renamed: what counts is the folder. Pipes and devices are left
// alone.
void check_folder(const std::string& path) {
    std::error_code ignored;
    if (path == "-" || std::filesystem::is_other(path, ignored)) return;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
        throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

int cmd_plan(int argc, char** argv) {
    Options app("swapadvisor plan",
                "Searches a plan: the order of operations, the allocation of memory and the swaps.",
                "GRAPH|TRACE -o PLAN",
                "  swapadvisor plan run.trace -o run.plan --memory 16GiB\n"
                "  swapadvisor plan run.trace -o run.plan --memory 50% --planner fast\n"
                "  swapadvisor plan graph.json -o - --memory 40GiB --seconds 60 > graph.plan");
    GraphInput input;
    PlannerChoice choice;
    std::string output;
    bool json = false;
    double bound_seconds = 20;
    input.add_to(app, true);
    app.add_option("-o,--output", output, "file for the plan; - is standard output")
        ->required()
        ->type_name("PLAN");
    choice.add_to(app, 10);
    app.add_option("--bound-seconds", bound_seconds, "time for the lower bound (0: only a quick one)")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_flag("--json", json, "the closing table as JSON");
    return app.run(argc, argv, [&] {
        const planner::Graph graph = input.load();
        const std::int64_t limit = input.limit(graph);
        choice.fit(input, limit);
        check_folder(output);  // before the search, not after it
        Effort effort;
        const planner::Plan plan = search(graph, choice.options, json, effort);
        // What was found is safe before anything else takes time; whoever ended the search does not want to wait for a bound.
        planner::Plan whole = plan;
        PlannerChoice::finish(input, limit, whole);
        write_file(output, planner::to_json(whole));
        PlanFigures figures = judge(graph, plan, effort.interrupted ? 0 : bound_seconds);
        figures.limit_bytes = limit;
        figures.effort = std::move(effort);
        // The table must not mix with a plan on standard output.
        std::FILE* to = output == "-" ? stderr : stdout;
        if (json) {
            nlohmann::ordered_json out{
                {"graph", graph.name}, {"planner", choice.options.planner}, {"seed", choice.options.seed}};
            out.update(as_json(figures));
            fmt::print(to, "{}\n", out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
        } else {
            fmt::print(to, "{}", as_table(figures));
        }
        return 0;
    });
}

}  // namespace swapadvisor::command
