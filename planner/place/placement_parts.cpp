#include "planner/place/placement_parts.h"

#include <algorithm>

namespace swapadvisor::planner {

namespace {

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

}  // namespace

Spans spans_of(const Problem& problem, std::span<const Stay> stays, const Dispatch& d, std::int32_t n) {
    Spans spans;
    const auto events = static_cast<std::int32_t>(d.event_time.size());
    spans.wish_length = 2 * events + 2;
    spans.must_length = n + 1;
    for (std::int32_t t = 0; t <= spans.wish_length; ++t)
        spans.wish_time.push_back(t / 2 < events ? d.event_time[static_cast<std::size_t>(t / 2)]
                                                 : d.period_ns);
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

void to_chunks(const Setting& setting, const Stay& stay, Placement& at) {
    const Region& region = setting.allocation.regions[stay.region];
    for (ChunkRange& r : at) {
        r.first = region.first + r.first * region.unit;
        if (stay.region != 0) r.count = setting.problem.size[static_cast<std::size_t>(stay.tensor)];
    }
}

}  // namespace swapadvisor::planner
