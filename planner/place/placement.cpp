#include "planner/place/placement.h"

#include <algorithm>
#include <numeric>

#include "planner/place/placement_parts.h"

namespace swapadvisor::planner {

namespace {

/// One attempt: tensors in a given order.
class Attempt {
  public:
    Attempt(const Setting& setting, std::span<const Stay> stays, const Spans& spans, bool allow_remaps)
        : stays_(stays), allow_remaps_(allow_remaps) {
        if (stays.size() > most_tight_stays)
            placer_ = std::make_unique<TreePlacer>(setting, stays, spans);
        else
            placer_ = std::make_unique<TightPlacer>(setting, stays, spans);
        result_.at.resize(stays.size());
        result_.ok = true;
    }
    /// Stays [first, last) of one tensor. False: no place.
    bool add(std::size_t first, std::size_t last) {
        if (fit(first, last)) return true;
        if (failed_first_ < 0) failed_first_ = static_cast<std::int64_t>(first);
        if (!allow_remaps_) return fail(first);
        // Stay by stay; the two ends of a residency across the boundary stay together.
        const bool pair = last - first > 1 && stays_[first].partner == static_cast<std::int32_t>(last) - 1;
        if (pair && !fit_pair(first, last - 1)) return fail(first);
        for (std::size_t i = first + (pair ? 1 : 0); i < last - (pair ? 1 : 0); ++i)
            if (!fit(i, i + 1)) return fail(i);
        return true;
    }
    /// Stay by stay in order of their beginnings: finds places whenever no residency crosses the boundary.
    bool add_in_time_order() {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < stays_.size(); ++i)
            if (stays_[i].initial && stays_[i].partner < 0 && !fit(i, i + 1))
                return fail(i);  // resident all the time
        for (std::size_t i = 0; i < stays_.size(); ++i) {
            const std::int32_t partner = stays_[i].partner;
            if (partner > static_cast<std::int32_t>(i) && !fit_pair(i, static_cast<std::size_t>(partner)))
                return fail(i);
            if (partner < 0 && !stays_[i].initial) order.push_back(i);
        }
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return stays_[a].begin < stays_[b].begin; });
        for (const std::size_t i : order)
            if (!fit(i, i + 1)) return fail(i);
        return true;
    }
    Places& result() { return result_; }
    std::int64_t failed_first() const { return failed_first_; }
    void forgive() { failed_first_ = -1; }

  private:
    bool fail(std::size_t stay) {
        result_.ok = false;
        result_.failed = static_cast<std::int32_t>(stay);
        return false;
    }
    bool fit_pair(std::size_t a, std::size_t b) {
        group_ = {static_cast<std::int32_t>(a), static_cast<std::int32_t>(b)};
        return fit_group();
    }
    bool fit(std::size_t first, std::size_t last) {
        group_.clear();
        for (std::size_t i = first; i < last; ++i) group_.push_back(static_cast<std::int32_t>(i));
        return fit_group();
    }
    bool fit_group() {
        Placement at;
        if (!placer_->fit(group_, at, result_.delay_ns)) return false;
        for (const std::int32_t i : group_) result_.at[static_cast<std::size_t>(i)] = at;
        return true;
    }

    std::span<const Stay> stays_;
    bool allow_remaps_;
    std::unique_ptr<Placer> placer_;
    std::vector<std::int32_t> group_;
    Places result_;
    std::int64_t failed_first_ = -1;
};

struct Item {
    std::size_t first, last;
    std::int32_t begin;
    bool always, crossing;
    int failures = 0, delays = 0;  // in the attempts so far
};

}  // namespace

void count_remaps(std::span<const Stay> stays, Places& places) {
    places.remaps = 0;
    for (std::size_t i = 0; i < stays.size(); ++i) {
        if (!stays[i].by_in) continue;
        std::size_t before = i;
        if (i > 0 && stays[i - 1].tensor == stays[i].tensor)
            before = i - 1;
        else
            while (before + 1 < stays.size() && stays[before + 1].tensor == stays[i].tensor) ++before;
        places.remaps += places.at[before] != places.at[i];
    }
}

Places place(const Setting& setting, std::span<const Stay> stays, const Dispatch& dispatch,
             const PlaceOptions& options) {
    const std::int32_t n = setting.ops;
    const Spans spans = spans_of(setting.problem, stays, dispatch, n);
    std::vector<Item> items;
    for (std::size_t i = 0; i < stays.size();) {
        std::size_t j = i + 1;
        while (j < stays.size() && stays[j].tensor == stays[i].tensor) ++j;
        items.push_back(
            {i, j, spans.wish[i].begin, stays[i].initial && stays[i].release == n, stays[i].initial, 0});
        i = j;
    }
    const auto key = [](const Places& p) { return std::pair(p.remaps, p.delay_ns); };
    const auto keep_better = [&](Places& best, Places result) {
        if (result.ok) count_remaps(stays, result);
        if (result.ok && (!best.ok || key(result) < key(best)))
            best = std::move(result);
        else if (!best.ok)
            best.failed = result.failed;
    };
    // Long graphs get fewer attempts, each of which takes longer.
    const int attempts =
        std::clamp(static_cast<int>(30000 / (stays.size() + 1)), std::min(3, std::max(1, options.attempts)),
                   std::max(1, options.attempts));
    Places best;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
            if (a.always != b.always) return a.always;
            if (a.failures != b.failures) return a.failures > b.failures;
            if (a.crossing != b.crossing) return a.crossing;
            if (a.delays != b.delays) return a.delays > b.delays;
            return a.begin < b.begin;
        });
        Attempt trial(setting, stays, spans, options.allow_remaps);
        for (Item& item : items) {
            trial.forgive();
            const std::int64_t delay = trial.result().delay_ns;
            if (!trial.add(item.first, item.last) || trial.failed_first() >= 0)
                ++item.failures;
            else if (trial.result().delay_ns > delay)
                ++item.delays;
        }
        keep_better(best, std::move(trial.result()));
        if (best.ok && best.remaps == 0 && best.delay_ns == 0) break;
    }
    if (!best.ok && options.allow_remaps) {
        Attempt trial(setting, stays, spans, true);
        if (trial.add_in_time_order()) {
            best = std::move(trial.result());
            count_remaps(stays, best);
        }
    }
    return best;
}

}  // namespace swapadvisor::planner
