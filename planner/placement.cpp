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
    Attempt(const Problem& problem, std::span<const Stay> stays, const Spans& spans, bool allow_remaps)
        : problem_(problem),
          stays_(stays),
          spans_(spans),
          allow_remaps_(allow_remaps),
          wish_(spans.wish_length),
          must_(spans.must_length),
          bits_(problem.chunks) {
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
            if (partner > static_cast<std::int32_t>(i) && !fit_pair(i, static_cast<std::size_t>(partner))) return fail(i);
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
        const std::int32_t size = stays_[group_.front()].size;
        bits_.clear();
        for (const std::size_t i : group_) {
            wish_.taken(spans_.wish[i].begin, spans_.wish[i].end, bits_);
            wish_.taken(spans_.wish_wrapped[i].begin, spans_.wish_wrapped[i].end, bits_);
        }
        bits_.free_runs(good_);
        Placement at;
        const std::int32_t have = total(good_);
        if (have >= size) {
            pick(good_, size, at);
        } else {
            bits_.clear();
            for (const std::size_t i : group_) must_.taken(spans_.must[i].begin, spans_.must[i].end, bits_);
            bits_.free_runs(possible_);
            if (total(possible_) < size) return false;
            Placement rest = minus(possible_, good_);
            at = good_;
            pick(rest, size - have, at);
            result_.delayed_chunks += size - have;
        }
        tidy(at);
        for (const std::size_t i : group_) {
            wish_.add(spans_.wish[i].begin, spans_.wish[i].end, at);
            wish_.add(spans_.wish_wrapped[i].begin, spans_.wish_wrapped[i].end, at);
            must_.add(spans_.must[i].begin, spans_.must[i].end, at);
            result_.at[i] = at;
        }
        return true;
    }

    const Problem& problem_;
    std::span<const Stay> stays_;
    const Spans& spans_;
    bool allow_remaps_;
    Occupancy wish_, must_;
    ChunkBits bits_;
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

Places place(const Problem& problem, const Sequence& sequence, std::span<const Stay> stays,
             const Dispatch& dispatch, const PlaceOptions& options) {
    const auto n = static_cast<std::int32_t>(sequence.order.size());
    const Spans spans = spans_of(problem, stays, dispatch, n);
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
        Attempt trial(problem, stays, spans, options.allow_remaps);
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
        Attempt trial(problem, stays, spans, true);
        if (trial.add_in_time_order()) {
            best = std::move(trial.result());
            count_remaps(stays, best);
        }
    }
    return best;
}

Plan write_plan(const Problem& problem, const Sequence& sequence, std::span<const Stay> stays,
                const Dispatch& dispatch, const Places& places) {
    const auto n = static_cast<std::int32_t>(sequence.order.size());
    Plan plan;
    plan.graph = problem.graph.name;
    plan.limit_bytes = problem.limit_bytes;
    plan.schedule = sequence.order;
    plan.chunk_bytes = problem.chunk_bytes;
    plan.chunks = problem.chunks;
    plan.arena_bytes = problem.arena_bytes;
    plan.arena = problem.arena;
    // What each `in` waits for: the last release of its chunks in this iteration.
    std::vector<std::size_t> by_begin(stays.size());
    std::iota(by_begin.begin(), by_begin.end(), std::size_t{0});
    std::stable_sort(by_begin.begin(), by_begin.end(), [&](std::size_t a, std::size_t b) {
        if (stays[a].initial != stays[b].initial) return stays[a].initial;
        return stays[a].begin < stays[b].begin;
    });
    std::vector<std::int32_t> released(static_cast<std::size_t>(problem.chunks), -1);
    std::vector<std::int32_t> after(stays.size(), -1);
    for (const std::size_t i : by_begin) {
        const Stay& s = stays[i];
        for (const ChunkRange& r : places.at[i])
            for (std::int32_t c = r.first; c < r.first + r.count; ++c) {
                after[i] = std::max(after[i], released[static_cast<std::size_t>(c)]);
                released[static_cast<std::size_t>(c)] = s.release;
            }
        if (s.by_in && i > 0 && stays[i - 1].tensor == s.tensor)
            after[i] = std::max(after[i], stays[i - 1].release);
    }
    for (std::size_t i = 0; i < stays.size(); ++i)
        if (stays[i].initial) plan.initial.push_back({stays[i].tensor, places.at[i]});

    // Issue order: births, releases and `in`s by position; each queue in its own order; a tensor's in order
    // of time.
    struct Step {
        std::int32_t position;  // when it matters
        std::int32_t rank;      // within its queue
        std::int32_t stay;
        ActionKind kind;
    };
    std::vector<Step> in_steps, out_steps, others;
    for (std::size_t k = 0; k < dispatch.in_order.size(); ++k)
        in_steps.push_back({0, static_cast<std::int32_t>(k), dispatch.in_order[k], ActionKind::in});
    std::vector<std::uint8_t> leaves_by_out(stays.size(), 0);
    for (std::size_t k = 0; k < dispatch.out_order.size(); ++k) {
        const std::int32_t i = dispatch.out_order[k];
        const Stay& s = stays[static_cast<std::size_t>(i)];
        const bool out = s.release < n && s.save_after >= s.release;
        leaves_by_out[static_cast<std::size_t>(i)] = out;
        out_steps.push_back({0, static_cast<std::int32_t>(k), i, out ? ActionKind::out : ActionKind::save});
    }
    // A topological merge: the list order must respect both queues and every tensor's own order. All three
    // agree with the order of this key: (position at which the action can happen at the earliest, kind), made
    // monotone per queue.
    std::int32_t floor = -1;
    for (Step& step : in_steps) {
        floor = std::max(floor, after[static_cast<std::size_t>(step.stay)]);
        step.position = floor;
    }
    floor = -1;
    for (Step& step : out_steps) {
        const Stay& s = stays[static_cast<std::size_t>(step.stay)];
        floor =
            std::max(floor, step.kind == ActionKind::out ? std::max(s.save_after, s.release) : s.save_after);
        step.position = floor;
    }
    (void)others;
    std::vector<std::vector<std::int32_t>> own(problem.size.size());
    (void)own;
    // Per tensor the sequence is: take, [save], release, take, ... ; emitted by walking the queues and
    // releasing each action once the one before it of the same tensor is out.
    struct Node {
        Action action;
        std::int32_t waits = 0;
        std::vector<std::int32_t> next;
        std::int32_t key = 0;
    };
    std::vector<Node> nodes;
    std::vector<std::int32_t> take_node(stays.size(), -1), save_node(stays.size(), -1),
        release_node(stays.size(), -1);
    auto add_node = [&](ActionKind kind, std::size_t i, std::int32_t after_op, std::int32_t before_op,
                        std::int32_t key) {
        Node node;
        node.action.kind = kind;
        node.action.tensor = stays[i].tensor;
        node.action.after = after_op;
        node.action.before = before_op;
        if (kind == ActionKind::alloc || kind == ActionKind::in) node.action.at = places.at[i];
        node.key = key;
        nodes.push_back(std::move(node));
        return static_cast<std::int32_t>(nodes.size()) - 1;
    };
    auto link = [&](std::int32_t from, std::int32_t to) {
        if (from < 0 || to < 0) return;
        nodes[static_cast<std::size_t>(from)].next.push_back(to);
        ++nodes[static_cast<std::size_t>(to)].waits;
    };
    for (const Step& step : in_steps) {
        const auto i = static_cast<std::size_t>(step.stay);
        take_node[i] = add_node(ActionKind::in, i, after[i], stays[i].begin, 2 * step.position + 1);
        if (step.rank > 0)
            link(take_node[static_cast<std::size_t>(in_steps[static_cast<std::size_t>(step.rank) - 1].stay)],
                 take_node[i]);
    }
    for (const Step& step : out_steps) {
        const auto i = static_cast<std::size_t>(step.stay);
        const Stay& s = stays[i];
        save_node[i] = add_node(step.kind, i, step.kind == ActionKind::out ? s.release : s.save_after, 0,
                                2 * step.position);
        if (step.rank > 0)
            link(save_node[static_cast<std::size_t>(out_steps[static_cast<std::size_t>(step.rank) - 1].stay)],
                 save_node[i]);
    }
    for (std::size_t i = 0; i < stays.size(); ++i) {
        const Stay& s = stays[i];
        if (s.birth) take_node[i] = add_node(ActionKind::alloc, i, -1, s.begin, 2 * s.begin - 1);
        if (leaves_by_out[i])
            release_node[i] = save_node[i];
        else if (s.release < n)
            release_node[i] =
                add_node(s.dead ? ActionKind::free : ActionKind::drop, i, s.release, 0, 2 * s.release);
        link(take_node[i], save_node[i]);
        if (release_node[i] != save_node[i]) {
            link(take_node[i], release_node[i]);
            link(save_node[i], release_node[i]);
        }
        if (i > 0 && stays[i - 1].tensor == s.tensor) link(release_node[i - 1], take_node[i]);
    }
    // Smallest key first among those that may go.
    auto later = [&](std::int32_t a, std::int32_t b) {
        const Node &x = nodes[static_cast<std::size_t>(a)], &y = nodes[static_cast<std::size_t>(b)];
        return x.key != y.key ? x.key > y.key : a > b;
    };
    std::vector<std::int32_t> ready;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (nodes[i].waits == 0) ready.push_back(static_cast<std::int32_t>(i));
    std::make_heap(ready.begin(), ready.end(), later);
    plan.actions.reserve(nodes.size());
    while (!ready.empty()) {
        std::pop_heap(ready.begin(), ready.end(), later);
        const auto at = static_cast<std::size_t>(ready.back());
        ready.pop_back();
        plan.actions.push_back(std::move(nodes[at].action));
        for (const std::int32_t next : nodes[at].next)
            if (--nodes[static_cast<std::size_t>(next)].waits == 0) {
                ready.push_back(next);
                std::push_heap(ready.begin(), ready.end(), later);
            }
    }
    return plan;
}

}  // namespace swapadvisor::planner
