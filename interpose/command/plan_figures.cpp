#include "interpose/command/plan_figures.h"

#include <fmt/format.h>

#include <stdexcept>

#include "interpose/command/sizes.h"

namespace swapadvisor::command {
namespace {

double ratio(std::int64_t a, std::int64_t b) {
    return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 1;
}

}  // namespace

double PlanFigures::speed_per_cent() const {
    return 100 * ratio(checked.compute_ns, checked.period_ns);
}
double PlanFigures::ratio_to_bound() const {
    return ratio(checked.period_ns, bounds.best_ns());
}
double PlanFigures::rounding_per_cent() const {
    return checked.pool_peak_bytes > 0 ? 100 * ratio(checked.rounding_peak_bytes, checked.pool_peak_bytes)
                                       : 0;
}

PlanFigures judge(const planner::Graph& graph, const planner::Plan& plan, double bound_seconds) {
    PlanFigures figures;
    figures.limit_bytes = plan.limit_bytes;
    figures.checked = planner::check_plan(graph, plan);
    if (!figures.checked.valid())
        throw std::runtime_error("the planner made an invalid plan (a defect, please report it): " +
                                 figures.checked.violations[0]);
    planner::BoundOptions options;
    options.limit_bytes = plan.limit_bytes;
    options.timed = bound_seconds > 0;
    options.seconds = bound_seconds > 0 ? bound_seconds : 10;
    figures.bounds = planner::bound(graph, options);
    return figures;
}

std::string as_table(const PlanFigures& f) {
    std::string out;
    const auto row = [&](const char* name, const std::string& value) {
        out += fmt::format("{:<14} {}\n", name, value);
    };
    row("memory", format_bytes(f.limit_bytes));
    row("compute", format_ns(f.checked.compute_ns));
    row("bound", fmt::format("{} ({}{})", format_ns(f.bounds.best_ns()), f.bounds.best_name(),
                             f.bounds.note.empty() ? "" : "; " + f.bounds.note));
    row("period", fmt::format("{}, {:.1f} % of the speed with infinite memory, {:.3f} x bound",
                              format_ns(f.checked.period_ns), f.speed_per_cent(), f.ratio_to_bound()));
    row("traffic", fmt::format("in {}, out {}, {} transfers", format_bytes(f.checked.in_bytes),
                               format_bytes(f.checked.out_bytes), f.checked.transfers));
    row("remaps", fmt::format("{} per iteration", f.checked.remaps));
    row("fragmentation", fmt::format("{:.2f} % of the pool lost to rounding when fullest ({} held)",
                                     f.rounding_per_cent(), format_bytes(f.checked.pool_peak_bytes)));
    row("planning time", fmt::format("{:.2f} s, {:.2f} s of processors", f.effort.spent.seconds,
                                     f.effort.spent.processor_seconds));
    return out;
}

nlohmann::ordered_json as_json(const PlanFigures& f) {
    nlohmann::ordered_json after = nlohmann::ordered_json::array();
    for (const auto& [spent, period_ns] : f.effort.best_ns)
        after.push_back({{"processor_s", spent.processor_seconds},
                         {"planning_s", spent.seconds},
                         {"period_ns", period_ns}});
    return {{"limit_bytes", f.limit_bytes},
            {"compute_ns", f.checked.compute_ns},
            {"bound_ns", f.bounds.best_ns()},
            {"bound", f.bounds.best_name()},
            {"bound_traffic_ns", f.bounds.traffic_ns},
            {"bound_timed_ns", f.bounds.timed_ns},
            {"bound_note", f.bounds.note},
            {"period_ns", f.checked.period_ns},
            {"per_cent_of_infinite_memory", f.speed_per_cent()},
            {"ratio_to_bound", f.ratio_to_bound()},
            {"in_bytes", f.checked.in_bytes},
            {"out_bytes", f.checked.out_bytes},
            {"transfers", f.checked.transfers},
            {"remaps", f.checked.remaps},
            {"pool_peak_bytes", f.checked.pool_peak_bytes},
            {"rounding_peak_bytes", f.checked.rounding_peak_bytes},
            {"planning_s", f.effort.spent.seconds},
            {"processor_s", f.effort.spent.processor_seconds},
            {"best_after", after}};
}

}  // namespace swapadvisor::command
