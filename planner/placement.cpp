#include "planner/placement.h"

#include <algorithm>
#include <numeric>

#include "planner/occupancy.h"

namespace swapadvisor::planner {

namespace {

struct Span {
    std::int32_t begin, end;
};

/// When each stay holds its chunks, in two views. wish: numbers of the dispatcher's events, doubled (odd
/// numbers lie between events). must: positions.
struct Spans {
    std::vector<Span> wish, wish_wrapped,
        must;  // wish_wrapped: empty unless the stay reaches into the next iteration
    std::int32_t wish_length = 0, must_length = 0;
};

/// Latest starts of the `in`s that keep the dispatcher's op times, as event numbers.
std::vector<std::int32_t> late_takes(const Problem& problem, std::span<const Stay> stays, const Dispatch& d,
                                     std::int32_t n) {
    std::vector<std::int32_t> take(stays.size(), -1);
    std::int64_t next_start = INT64_MAX;
    for (std::size_t k = d.in_order.size(); k-- > 0;) {
        const auto i = static_cast<std::size_t>(d.in_order[k]);
        const Stay& s = stays[i];
        if (d.take_event[i] < 0) continue;  // starts with the next iteration
        const std::int64_t need = s.begin < n ? d.op_start[s.begin] : d.period_ns;
        const std::int64_t took = d.in_end[i] >= 0 ? d.in_end[i] - d.in_start[i] : problem.in_ns[s.tensor];
        const std::int64_t start = std::max(d.in_start[i], std::min(need, next_start) - took);
        next_start = start;
        // After every event at or before that time, but before the op that needs it.
        auto at = static_cast<std::int32_t>(
            std::upper_bound(d.event_time.begin(), d.event_time.end(), start) - d.event_time.begin());
        const std::int32_t limit =
            s.begin < n ? d.op_event[s.begin] : static_cast<std::int32_t>(d.event_time.size());
        take[i] = std::max(2 * d.take_event[i], 2 * std::min(at, limit) - 1);
    }
    return take;
}

Spans spans_of(const Problem& problem, std::span<const Stay> stays, const Dispatch& d, std::int32_t n) {
    Spans spans;
    const auto events = static_cast<std::int32_t>(d.event_time.size());
    spans.wish_length = 2 * events + 2;
    spans.must_length = n + 1;
    const auto take = late_takes(problem, stays, d, n);
    for (std::size_t i = 0; i < stays.size(); ++i) {
        const Stay& s = stays[i];
        Span wish{0, spans.wish_length}, wrapped{0, 0};
        if (s.birth)
            wish.begin = 2 * d.op_event[s.begin];
        else if (s.by_in)
            wish.begin = take[i] >= 0 ? take[i] : spans.wish_length - 1;
        if (s.release < n && d.release_event[i] >= 0) {
            if (d.wraps[i])
                wrapped = {0, 2 * d.release_event[i]};
            else
                wish.end = 2 * d.release_event[i];
        }
        if (s.initial && d.wraps[i]) wish.end = spans.wish_length;
        spans.wish.push_back(wish);
        spans.wish_wrapped.push_back(wrapped);
        spans.must.push_back({s.begin, s.release + 1});
    }
    return spans;
}

std::int32_t total(const Placement& at) {
    std::int32_t sum = 0;
    for (const ChunkRange& r : at) sum += r.count;
    return sum;
}

/// Takes `want` chunks from free runs: the tightest run that holds them all, else the largest runs first.
void pick(Placement& runs, std::int32_t want, Placement& into) {
    if (want <= 0) return;
    std::sort(runs.begin(), runs.end(), [](const ChunkRange& a, const ChunkRange& b) {
        return a.count != b.count ? a.count < b.count : a.first < b.first;
    });
    const auto fit = std::lower_bound(runs.begin(), runs.end(), want,
                                      [](const ChunkRange& r, std::int32_t w) { return r.count < w; });
    if (fit != runs.end()) {
        into.push_back({fit->first, want});
        return;
    }
    for (std::size_t i = runs.size(); i-- > 0 && want > 0;) {
        const std::int32_t n = std::min(want, runs[i].count);
        into.push_back({runs[i].first, n});
        want -= n;
    }
}

void tidy(Placement& at) {
    std::sort(at.begin(), at.end(),
              [](const ChunkRange& a, const ChunkRange& b) { return a.first < b.first; });
    Placement out;
    for (const ChunkRange& r : at)
        if (!out.empty() && out.back().first + out.back().count == r.first)
            out.back().count += r.count;
        else
            out.push_back(r);
    at = std::move(out);
}

/// Runs of `a` that are not in `b`; both sorted.
Placement minus(const Placement& a, const Placement& b) {
    Placement out;
    std::size_t j = 0;
    for (const ChunkRange& r : a) {
        std::int32_t from = r.first;
        const std::int32_t end = r.first + r.count;
        while (j < b.size() && b[j].first + b[j].count <= from) ++j;
        for (std::size_t k = j; k < b.size() && b[k].first < end; ++k) {
            if (b[k].first > from) out.push_back({from, b[k].first - from});
            from = std::max(from, b[k].first + b[k].count);
        }
        if (from < end) out.push_back({from, end - from});
    }
    return out;
}

/// One attempt: tensors in a given order.
class Attempt {
  public:
    Attempt(const Setting& setting, std::span<const Stay> stays, const Spans& spans, bool allow_remaps)
        : setting_(setting), stays_(stays), spans_(spans), allow_remaps_(allow_remaps) {
        for (const Region& r : setting.allocation.regions) {
            wish_.emplace_back(r.slots > 0 ? spans.wish_length : 0);
            must_.emplace_back(r.slots > 0 ? spans.must_length : 0);
            bits_.emplace_back(r.slots);
        }
        result_.at.resize(stays.size());
        result_.ok = true;
    }
    /// Stays [first, last) of one tensor. False: no place.
    bool add(std::size_t first, std::size_t last) {
        if (fit(first, last)) return true;
        if (failed_first_ < 0) failed_first_ = static_cast<std::int64_t>(first);
        if (!allow_remaps_) {
            result_.ok = false;
            result_.failed = static_cast<std::int32_t>(first);
            return false;
        }
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
        for (std::size_t i = 0; i < stays_.size(); ++i) {
            const std::int32_t partner = stays_[i].partner;
            if (partner > static_cast<std::int32_t>(i) && !fit_pair(i, static_cast<std::size_t>(partner)))
                return fail(i);
            if (partner < 0) order.push_back(i);
        }
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            const bool all_a = stays_[a].initial, all_b = stays_[b].initial;  // resident all the time
            return all_a != all_b ? all_a : stays_[a].begin < stays_[b].begin;
        });
        for (const std::size_t i : order)
            if (!fit(i, i + 1)) return fail(i);
        return true;
    }
    Places& result() { return result_; }
    std::int64_t failed_first() const { return failed_first_; }

  private:
    bool fail(std::size_t stay) {
        result_.ok = false;
        result_.failed = static_cast<std::int32_t>(stay);
        return false;
    }
    bool fit_pair(std::size_t a, std::size_t b) {
        group_ = {a, b};
        return fit_group();
    }
    bool fit(std::size_t first, std::size_t last) {
        group_.clear();
        for (std::size_t i = first; i < last; ++i) group_.push_back(i);
        return fit_group();
    }
    bool fit_group() {
        const Stay& sample = stays_[group_.front()];
        Occupancy &wish = wish_[sample.region], &must = must_[sample.region];
        ChunkBits& bits = bits_[sample.region];
        const std::int32_t units = sample.units;
        bits.clear();
        for (const std::size_t i : group_) {
            wish.taken(spans_.wish[i].begin, spans_.wish[i].end, bits);
            wish.taken(spans_.wish_wrapped[i].begin, spans_.wish_wrapped[i].end, bits);
        }
        bits.free_runs(good_);
        Placement at;
        const std::int32_t have = total(good_);
        if (have >= units) {
            pick(good_, units, at);
        } else {
            bits.clear();
            for (const std::size_t i : group_) must.taken(spans_.must[i].begin, spans_.must[i].end, bits);
            bits.free_runs(possible_);
            if (total(possible_) < units) return false;
            Placement rest = minus(possible_, good_);
            at = good_;
            pick(rest, units - have, at);
            result_.delayed_chunks += units - have;
        }
        tidy(at);
        for (const std::size_t i : group_) {
            wish.add(spans_.wish[i].begin, spans_.wish[i].end, at);
            wish.add(spans_.wish_wrapped[i].begin, spans_.wish_wrapped[i].end, at);
            must.add(spans_.must[i].begin, spans_.must[i].end, at);
        }
        // From units of the region to chunks of the pool.
        const Region& region = setting_.allocation.regions[sample.region];
        for (ChunkRange& r : at) {
            r.first = region.first + r.first * region.unit;
            r.count = sample.region == 0 ? r.count : setting_.problem.size[sample.tensor];
        }
        for (const std::size_t i : group_) result_.at[i] = at;
        return true;
    }

    const Setting& setting_;
    std::span<const Stay> stays_;
    const Spans& spans_;
    bool allow_remaps_;
    std::vector<Occupancy> wish_, must_;  // by region, in its units
    std::vector<ChunkBits> bits_;
    Placement good_, possible_;
    std::vector<std::size_t> group_;
    Places result_;
    std::int64_t failed_first_ = -1;
};

struct Item {
    std::size_t first, last;
    std::int32_t begin;
    bool always;
    int bump = 0;
};

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

}  // namespace

Places place(const Setting& setting, std::span<const Stay> stays, const Dispatch& dispatch,
             const PlaceOptions& options) {
    const std::int32_t n = setting.ops;
    const Spans spans = spans_of(setting.problem, stays, dispatch, n);
    std::vector<Item> items;
    for (std::size_t i = 0; i < stays.size();) {
        std::size_t j = i + 1;
        while (j < stays.size() && stays[j].tensor == stays[i].tensor) ++j;
        items.push_back({i, j, spans.wish[i].begin, stays[i].initial && stays[i].release == n});
        i = j;
    }
    Places best;
    for (int attempt = 0; attempt < std::max(1, options.attempts); ++attempt) {
        std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
            if (a.always != b.always) return a.always;
            if (a.bump != b.bump) return a.bump > b.bump;
            if ((a.last - a.first > 1) != (b.last - b.first > 1) && attempt % 2 == 1)
                return a.last - a.first > 1;
            return a.begin < b.begin;
        });
        Attempt trial(setting, stays, spans, options.allow_remaps);
        Item* failed = nullptr;
        for (Item& item : items) {
            const bool fits = trial.add(item.first, item.last);
            if (failed == nullptr && trial.failed_first() >= 0) failed = &item;
            if (!fits) break;
        }
        Places& result = trial.result();
        if (result.ok) count_remaps(stays, result);
        const auto key = [](const Places& p) { return std::pair(p.remaps, p.delayed_chunks); };
        if (result.ok && (!best.ok || key(result) < key(best)))
            best = std::move(result);
        else if (!best.ok)
            best.failed = result.failed;
        if (best.ok && best.remaps == 0) break;
        if (failed) failed->bump = attempt + 1;
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
