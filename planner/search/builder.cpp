#include "planner/search/builder.h"

#include "planner/place/placement_parts.h"
#include "planner/place/retime.h"

namespace swapadvisor::planner {

namespace {

/// By how much a plan that moves tensors about must be faster than one that does not.
constexpr double price_of_remaps = 1.01;

class Builder {
  public:
    Builder(const Setting& setting, const BuildOptions& options) : setting_(setting), options_(options) {}

    std::optional<Built> run(std::span<const GapChoice> choice) {
        stays(setting_, choice, options_.swap, residencies_);
        Dispatcher().run(setting_, residencies_, options_.swap, options_.passes, dispatch_);
        if (!dispatch_.ok) return {};
        const Places places = place(setting_, residencies_, dispatch_, options_.place);
        try_both(places);
        if (options_.place.ejections == 0 || !may_retime() || residencies_.size() > most_tight_stays ||
            is_good())
            return std::move(best_);
        const Spans spans = spans_of(setting_.problem, residencies_, dispatch_, setting_.ops);
        EjectOptions eject;
        eject.budget = static_cast<std::int64_t>(residencies_.size()) * options_.place.ejections;
        eject.polish = options_.place.polish;
        eject.stop = options_.stop;
        const auto good = [&](const Places& found) {
            try_both(found);
            return is_good();
        };
        place_by_ejection(setting_, residencies_, spans, eject, good);
        if (!best_ && options_.place.allow_remaps) {
            eject.allow_remaps = true;
            place_by_ejection(setting_, residencies_, spans, eject, good);
        }
        return std::move(best_);
    }

  private:
    bool may_retime() const { return options_.swap.release_at.empty() && options_.swap.early_save; }
    /// About what the dispatcher promised, without a remap.
    bool is_good() const {
        return best_ && best_->sim.remaps == 0 &&
               static_cast<double>(best_->sim.period_ns) <= 1.002 * static_cast<double>(dispatch_.period_ns);
    }
    /// Queues in the dispatcher's order, and where transfers wait for their places, in an order made for
    /// them.
    void try_both(const Places& places) {
        if (!places.ok || (!options_.place.allow_remaps && places.remaps > 0)) return;
        consider(dispatch_, places);
        if (places.delay_ns == 0 || !may_retime()) return;
        Dispatch retimed = dispatch_;
        if (retime(setting_, residencies_, places, {}, retimed)) consider(retimed, places);
    }
    void consider(const Dispatch& dispatch, const Places& places) {
        Built built;
        built.plan = write_plan(setting_, residencies_, dispatch, places);
        built.sim =
            swapadvisor::planner::run(compile(setting_.problem.graph, built.plan), setting_.problem.rates);
        if (!built.sim.ok) return;
        built.plan.predicted_ns = built.sim.period_ns;
        built.dispatch_ns = dispatch_.period_ns;
        built.delay_ns = places.delay_ns;
        if (!best_ || better(built, *best_)) best_ = std::move(built);
    }

    const Setting& setting_;
    const BuildOptions& options_;
    std::vector<Stay> residencies_;
    Dispatch dispatch_;
    std::optional<Built> best_;
};

}  // namespace

double judged_ns(const Built& built) {
    return static_cast<double>(built.sim.period_ns) * (built.sim.remaps > 0 ? price_of_remaps : 1);
}

bool better(const Built& a, const Built& b) {
    const double x = judged_ns(a), y = judged_ns(b);
    return x != y ? x < y : a.sim.remaps < b.sim.remaps;
}

std::optional<Built> build(const Setting& setting, std::span<const GapChoice> choice,
                           const BuildOptions& options) {
    return Builder(setting, options).run(choice);
}

}  // namespace swapadvisor::planner
