// `swapadvisor sweep GRAPH`: period against memory, and the least memory that costs at most 5 %.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/options.h"
#include "interpose/command/plan_figures.h"
#include "interpose/command/planner_options.h"
#include "interpose/command/sizes.h"
#include "interpose/command/sweep_html.h"

namespace swapadvisor::command {
namespace {

class Sweep {
  public:
    Sweep(planner::Graph graph, GraphInput& input, PlannerChoice choice, double bound_seconds, bool quiet)
        : graph_(std::move(graph)),
          input_(input),
          choice_(std::move(choice)),
          bound_seconds_(bound_seconds),
          quiet_(quiet) {}

    // Plans for one limit. False if none was found (too little memory for the graph with its pieces).
    bool run(std::int64_t limit) {
        if (points_.count(limit) > 0) return true;
        input_.planned_bytes = limit;  // what is freed late is kept where this limit has room for it
        planner::Graph graph = input_.is_trace ? input_.load() : graph_;
        graph.device.memory_bytes = std::max(graph.device.memory_bytes, limit);
        try {
            choice_.fit(input_, limit);
            Effort effort;
            const planner::Plan plan = search(graph, choice_.options, true, effort);
            PlanFigures figures = judge(graph, plan, bound_seconds_);
            figures.effort = std::move(effort);
            figures.limit_bytes = limit;
            if (!quiet_ && isatty(STDERR_FILENO) == 1)
                fmt::print(stderr, "{:>10}  {}  {:.1f} %\n", format_bytes(limit),
                           format_ns(figures.checked.period_ns), figures.speed_per_cent());
            points_[limit] = figures;
            return true;
        } catch (const planner::PlanError& error) {
            if (!quiet_) fmt::print(stderr, "{:>10}  {}\n", format_bytes(limit), error.what());
            last_error_ = error.what();
            return false;
        }
    }

    // Halves the step between a limit that is too slow and one that is not.
    void refine(double slowdown, int steps) {
        for (int i = 0; i < steps; ++i) {
            std::int64_t good = 0, bad = 0;
            for (auto it = points_.rbegin(); it != points_.rend(); ++it) {
                if (fast_enough(it->second, slowdown))
                    good = it->first;
                else {
                    bad = it->first;
                    break;
                }
            }
            if (good == 0 || bad == 0 || good - bad < good / 100) return;
            if (!run(bad + (good - bad) / 2)) return;
        }
    }
    static bool fast_enough(const PlanFigures& f, double slowdown) {
        return static_cast<double>(f.checked.period_ns) <=
               slowdown * static_cast<double>(f.checked.compute_ns);
    }

    const std::map<std::int64_t, PlanFigures>& points() const { return points_; }
    const std::string& last_error() const { return last_error_; }

  private:
    planner::Graph graph_;
    GraphInput& input_;
    PlannerChoice choice_;
    double bound_seconds_;
    bool quiet_;
    std::map<std::int64_t, PlanFigures> points_;
    std::string last_error_;
};

}  // namespace

int cmd_sweep(int argc, char** argv) {
    Options app("swapadvisor sweep", "Plans for many limits: iteration time against memory.", "GRAPH|TRACE",
                "  swapadvisor sweep run.trace --html sweep.html\n"
                "  swapadvisor sweep run.trace --from 25% --to 100% --points 5 --planner fast");
    GraphInput input;
    PlannerChoice choice;
    std::string html;
    bool json = false;
    int points = 8;
    double bound_seconds = 10, slowdown = 5;
    MemoryOption from, to;
    input.add_to(app, false);
    choice.add_to(app, 2);
    app.add_option("--points", points, "limits to try, before closing in on the least that is fast enough")
        ->check(CLI::Range(2, 1000))
        ->capture_default_str();
    add_memory(app, "--from", from, "smallest limit (default: the least the graph can run in)");
    add_memory(app, "--to", to, "largest limit (default: what is live at once)");
    app.add_option("--slowdown", slowdown, "per cent that count as fast enough")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_option("--bound-seconds", bound_seconds, "time for each lower bound (0: only a quick one)")
        ->check(CLI::NonNegativeNumber);
    app.add_flag("--json", json, "the result as JSON");
    app.add_option("--html", html, "write a page with a plot")->type_name("FILE");
    return app.run(argc, argv, [&] {
        const planner::Graph graph = input.load();
        const std::int64_t beside = input.resident_bytes;
        const std::int64_t least = planner::least_memory_bytes(graph) + beside,
                           peak = planner::peak_memory_bytes(graph) + beside;
        choice.fit(input, peak);
        const std::int64_t low = from.given()
                                     ? from.of(graph.device.memory_bytes)
                                     : std::max(least + least / 50,
                                                planner::least_limit_bytes(graph, choice.options) + beside),
                           high = std::max(low,
                                           to.given() ? to.of(graph.device.memory_bytes) : peak + peak / 50);
        Sweep sweep(graph, input, choice, bound_seconds, json);
        for (int i = points - 1; i >= 0; --i) {
            const double share = static_cast<double>(i) / (points - 1);
            sweep.run(static_cast<std::int64_t>(
                static_cast<double>(low) *
                std::pow(static_cast<double>(high) / static_cast<double>(std::max<std::int64_t>(1, low)),
                         share)));
        }
        if (sweep.points().empty()) throw std::runtime_error(sweep.last_error());
        const double factor = 1 + slowdown / 100;
        sweep.refine(factor, 5);

        SweepResult result;
        result.graph = graph.name;
        result.slowdown_per_cent = slowdown;
        result.least_memory_bytes = least;
        result.peak_memory_bytes = peak;
        result.device_memory_bytes = graph.device.memory_bytes;
        for (const auto& [limit, figures] : sweep.points()) {
            result.points.push_back(figures);
            if (result.enough_bytes == 0 && Sweep::fast_enough(figures, factor)) result.enough_bytes = limit;
        }
        if (!html.empty()) write_file(html, sweep_page(result));
        if (json) {
            fmt::print("{}\n",
                       as_json(result).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
            return 0;
        }
        fmt::print("{:>11} {:>13} {:>13} {:>8} {:>9} {:>11} {:>11} {:>7}\n", "memory", "period", "bound",
                   "x bound", "speed", "in", "out", "remaps");
        for (const PlanFigures& f : result.points)
            fmt::print("{:>11} {:>13} {:>13} {:>8.3f} {:>7.1f} % {:>11} {:>11} {:>7}{}\n",
                       format_bytes(f.limit_bytes), format_ns(f.checked.period_ns),
                       format_ns(f.bounds.best_ns()), f.ratio_to_bound(), f.speed_per_cent(),
                       format_bytes(f.checked.in_bytes), format_bytes(f.checked.out_bytes), f.checked.remaps,
                       f.limit_bytes == result.enough_bytes ? "  <-" : "");
        if (result.enough_bytes > 0)
            fmt::print("\nleast memory for at most {:g} % slowdown: {}\n", slowdown,
                       format_bytes(result.enough_bytes));
        else
            fmt::print("\nno limit tried is within {:g} % of infinite memory\n", slowdown);
        fmt::print("the graph cannot run below {}; above {} nothing needs to move\n", format_bytes(least),
                   format_bytes(peak));
        return 0;
    });
}

}  // namespace swapadvisor::command
