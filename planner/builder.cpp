#include "planner/builder.h"

namespace swapadvisor::planner {

std::optional<Built> build(const Problem& problem, const Sequence& sequence,
                           std::span<const GapChoice> choice, const BuildOptions& options) {
    std::vector<Stay> residencies;
    stays(problem, sequence, choice, options.swap, residencies);
    Dispatcher dispatcher(problem);
    Dispatch dispatch;
    dispatcher.run(sequence, residencies, options.swap, options.passes, dispatch);
    if (!dispatch.ok) return {};
    const Places places = place(problem, sequence, residencies, dispatch, options.place);
    if (!places.ok || (!options.place.allow_remaps && places.remaps > 0)) return {};
    Built built;
    built.plan = write_plan(problem, sequence, residencies, dispatch, places);
    built.sim = run(compile(problem.graph, built.plan), problem.rates);
    if (!built.sim.ok) return {};
    built.plan.predicted_ns = built.sim.period_ns;
    built.dispatch_ns = dispatch.period_ns;
    built.delayed_chunks = places.delayed_chunks;
    return built;
}

}  // namespace swapadvisor::planner
