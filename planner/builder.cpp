#include "planner/builder.h"

namespace swapadvisor::planner {

std::optional<Built> build(const Setting& setting, std::span<const GapChoice> choice,
                           const BuildOptions& options) {
    std::vector<Stay> residencies;
    stays(setting, choice, options.swap, residencies);
    Dispatcher dispatcher;
    Dispatch dispatch;
    dispatcher.run(setting, residencies, options.swap, options.passes, dispatch);
    if (!dispatch.ok) return {};
    const Places places = place(setting, residencies, dispatch, options.place);
    if (!places.ok || (!options.place.allow_remaps && places.remaps > 0)) return {};
    Built built;
    built.plan = write_plan(setting, residencies, dispatch, places);
    built.sim = run(compile(setting.problem.graph, built.plan), setting.problem.rates);
    if (!built.sim.ok) return {};
    built.plan.predicted_ns = built.sim.period_ns;
    built.dispatch_ns = dispatch.period_ns;
    built.delay_ns = places.delay_ns;
    return built;
}

}  // namespace swapadvisor::planner
