#include "interpose/command/what_if.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "interpose/command/planner_input.h"
#include "interpose/command/planner_options.h"
#include "planner/machine/checker.h"
#include "planner/planner.h"

namespace swapadvisor::command {
namespace {

constexpr std::size_t kMostOps = 20'000;
constexpr int kPoints = 9;
constexpr double kMostSeconds = 3, kSlowdown = 1.05;

class Planning {
  public:
    explicit Planning(const TraceAnalysis& trace) : trace_(trace) {
        choice_.options.planner = "fast";
        input_.is_trace = true;
    }
    planner::Graph graph(std::int64_t limit) {
        planner::Graph graph = planner::parse_graph(trace_graph_json(trace_, limit, false));
        input_.read_program(graph);
        graph.device.memory_bytes = std::max(graph.device.memory_bytes, limit);
        return graph;
    }
    std::int64_t least(const planner::Graph& graph, std::int64_t peak) {
        choice_.fit(input_, peak + input_.resident_bytes);
        return std::max(planner::least_memory_bytes(graph),
                        planner::least_limit_bytes(graph, choice_.options)) +
               input_.resident_bytes;
    }
    std::int64_t resident_bytes() const { return input_.resident_bytes; }
    /// Of one iteration within `limit`; 0: no plan.
    std::int64_t period_ns(std::int64_t limit) {
        try {
            const planner::Graph g = graph(limit);
            choice_.fit(input_, limit);
            planner::Effort effort;
            return planner::check_plan(g, planner::make_plan(g, choice_.options, effort)).period_ns;
        } catch (const std::exception&) {
            return 0;
        }
    }

  private:
    const TraceAnalysis& trace_;
    GraphInput input_;
    PlannerChoice choice_;
};

}  // namespace

void fill_what_if(ReportModel& m, const TraceAnalysis& trace) try {
    if (trace.iteration->ops.size() > kMostOps || m.infinite_ns_per_iteration <= 0) return;
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    Planning planning(trace);
    const planner::Graph graph = planning.graph(0);
    if (graph.tensors.empty()) return;
    const std::int64_t peak = planner::peak_memory_bytes(graph), least = planning.least(graph, peak);
    const std::int64_t high = std::max(peak + planning.resident_bytes() + peak / 10, least);
    m.least_limit_bytes = least;
    // From above: what is most likely to be wanted comes first, should the time run out.
    for (int i = kPoints - 1; i >= 0; --i) {
        const double share = static_cast<double>(i) / (kPoints - 1);
        const auto limit = static_cast<std::int64_t>(
            static_cast<double>(least) *
            std::pow(static_cast<double>(high) / static_cast<double>(std::max<std::int64_t>(least, 1)),
                     share));
        if (const std::int64_t period = planning.period_ns(limit)) m.what_if.push_back({limit, period});
        if (std::chrono::duration<double>(Clock::now() - began).count() > kMostSeconds) break;
    }
    std::reverse(m.what_if.begin(), m.what_if.end());
    for (const auto& point : m.what_if)
        if (static_cast<double>(point.period_ns) <=
            kSlowdown * static_cast<double>(m.infinite_ns_per_iteration)) {
            m.enough_bytes = point.limit_bytes;
            break;
        }
} catch (const std::exception&) {
    m.what_if.clear();  // a report says what was seen all the same
}

}  // namespace swapadvisor::command
