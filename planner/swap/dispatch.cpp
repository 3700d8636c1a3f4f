// Runs the machine with free choice and records what it chose.
#include <algorithm>
#include <queue>

#include "planner/machine/host_pace.h"
#include "planner/machine/lanes.h"
#include "planner/swap/swap_planner.h"

namespace swapadvisor::planner {

namespace {

constexpr std::int32_t farthest_prefetch = 16384;  // ops; bounds the work on very long graphs

/// A write-back ready to go; the one whose memory is wanted first goes first.
struct Ready {
    std::int32_t wanted, stay;
    bool operator>(const Ready& o) const { return wanted != o.wanted ? wanted > o.wanted : stay > o.stay; }
};

struct Progress {  // of one stay in one iteration
    bool saved = true, used = true, released = true;
};

}  // namespace

struct Dispatcher::Pass {
    Dispatcher& d;
    const Problem& problem;
    const Setting& setting;
    std::span<const Stay> stays;
    const SwapOptions& options;
    Dispatch& result;
    Link link;
    HostPace host;
    std::int32_t n;

    std::vector<Progress> now_state, last_state;
    std::vector<Ready> heap;       // this iteration's write-backs that are ready
    std::vector<Ready> left_over;  // the last iteration's that still wait, front first
    std::size_t left_over_at = 0;
    Lane in, out;
    std::int64_t now = 0, base = 0;
    std::vector<std::int64_t> free_units;  // by region
    std::int32_t done = 0;                 // ops done
    std::int32_t running = -1;
    std::int64_t op_end = never;
    std::size_t next_in = 0;  // in in_order
    std::size_t ins_done = 0;
    std::vector<std::int32_t> carried;  // `in`s of the last iteration that have not started
    std::size_t carried_at = 0;
    std::size_t carried_pending = 0;    // not done
    std::int32_t in_blocked_until = 0;  // ops done before another try makes sense

    Pass(Dispatcher& dispatcher, const Setting& s, std::span<const Stay> st, const SwapOptions& o,
         Dispatch& r)
        : d(dispatcher),
          problem(s.problem),
          setting(s),
          stays(st),
          options(o),
          result(r),
          link(s.problem.rates),
          host(s.problem.graph, s.sequence.order),
          n(s.ops) {}

    std::int32_t wanted(const Stay& s) const {
        if (s.release < n) return s.release;
        return s.partner >= 0 && stays[s.partner].release < n ? stays[s.partner].release + n : 2 * n;
    }
    /// The stay that this one follows; `last` says whether that was in the iteration before.
    std::int32_t before(std::int32_t stay, bool& last) const {
        last = false;
        if (stay > 0 && stays[stay - 1].tensor == stays[stay].tensor) return stay - 1;
        last = true;
        auto at = static_cast<std::size_t>(stay);
        while (at + 1 < stays.size() && stays[at + 1].tensor == stays[stay].tensor) ++at;
        return static_cast<std::int32_t>(at);
    }
    void try_release(std::int32_t stay, bool last);
    void saved(std::int32_t stay, bool last);
    bool start_op();
    bool start_in();
    bool start_out();
    void op_done();
    void iterate();
    /// What an iteration leaves to the next one; equal before and after an iteration: it has closed on
    /// itself.
    std::vector<std::int64_t> boundary() const;
    std::int32_t event() {
        result.event_time.push_back(now - base);
        return static_cast<std::int32_t>(result.event_time.size()) - 1;
    }
};

void Dispatcher::Pass::try_release(std::int32_t stay, bool last) {
    Progress& p = last ? last_state[stay] : now_state[stay];
    if (p.released || !p.used || !p.saved) return;
    const Stay& s = stays[stay];
    if (s.waits_last_iteration && !last && !last_state[s.partner].saved) return;
    p.released = true;
    free_units[s.region] += s.units;
    result.release_event[stay] = event();
    result.wraps[stay] = last;
}

void Dispatcher::Pass::saved(std::int32_t stay, bool last) {
    (last ? last_state : now_state)[stay].saved = true;
    const Stay& s = stays[stay];
    if (s.release < n)
        try_release(stay, last);
    else if (s.partner >= 0 && last)
        try_release(s.partner, false);
}

bool Dispatcher::Pass::start_op() {
    if (running >= 0 || done == n || carried_pending > 0 || now < host.ready()) return false;
    if (ins_done < static_cast<std::size_t>(d.ins_needed_[done])) return false;
    for (std::int32_t i = d.births_at_[done]; i < d.births_at_[done + 1]; ++i)
        if (free_units[d.births_[i].region] < d.births_[i].units) return false;
    for (std::int32_t i = d.births_at_[done]; i < d.births_at_[done + 1]; ++i)
        free_units[d.births_[i].region] -= d.births_[i].units;
    running = done;
    result.op_start[done] = now - base;
    result.op_event[done] = event();
    op_end = now + problem.graph.ops[setting.sequence.order[done]].duration_ns;
    return true;
}

bool Dispatcher::Pass::start_in() {
    if (in.busy) return false;
    const bool carry = carried_at < carried.size();
    if (!carry && (next_in == result.in_order.size() || done < in_blocked_until)) return false;
    const std::int32_t stay = carry ? carried[carried_at] : result.in_order[next_in];
    const Stay& s = stays[stay];
    bool last = false;
    const std::int32_t previous = before(stay, last);
    if (!(last || carry ? last_state : now_state)[previous].released) return false;
    const std::int32_t until = std::min(s.begin, n);
    std::int32_t* const usage =
        d.usage_.data() + static_cast<std::size_t>(s.region) * (static_cast<std::size_t>(n) + 1);
    std::int32_t reserve = 0;
    if (!carry) {
        if (!options.prefetch && done < s.begin) {
            in_blocked_until = s.begin;
            return false;
        }
        if (until - done > farthest_prefetch) {
            in_blocked_until = until - farthest_prefetch;
            return false;
        }
        // An op before the need that would lack memory says how long to wait.
        const std::int32_t most = setting.allocation.regions[s.region].slots - s.units;
        for (std::int32_t p = until; p-- > done;)
            if (usage[p] > most) {
                in_blocked_until = p + 1;
                return false;
            }
        // Never take what the op at the head is waiting for.
        if (running < 0 && done < n && done < s.begin)
            for (std::int32_t i = d.births_at_[done]; i < d.births_at_[done + 1]; ++i)
                if (d.births_[i].region == s.region) reserve += d.births_[i].units;
    }
    if (free_units[s.region] < s.units + reserve) return false;
    free_units[s.region] -= s.units;
    in.stay = stay;
    in.last_iteration = carry;
    link.start(in, now, problem.graph.device.transfer_latency_ns, problem.in_ns[s.tensor],
               problem.graph.tensors[s.tensor].bytes);
    if (carry) {
        ++carried_at;
        return true;
    }
    for (std::int32_t p = done; p < until; ++p) usage[p] += s.units;
    result.take_event[stay] = event();
    result.in_start[stay] = now - base;
    ++next_in;
    return true;
}

bool Dispatcher::Pass::start_out() {
    if (out.busy) return false;
    std::int32_t stay = -1;
    bool last = false;
    if (left_over_at < left_over.size()) {
        stay = left_over[left_over_at++].stay;
        last = true;
    } else {
        if (heap.empty()) return false;
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        stay = heap.back().stay;
        heap.pop_back();
        result.out_order.push_back(stay);
    }
    const TensorId t = stays[stay].tensor;
    out.stay = stay;
    out.last_iteration = last;
    result.out_busy.push_back({now - base, never});
    link.start(out, now, problem.graph.device.transfer_latency_ns, problem.out_ns[t],
               problem.graph.tensors[t].bytes);
    return true;
}

void Dispatcher::Pass::op_done() {
    const std::int32_t p = running;
    running = -1;
    op_end = never;
    ++done;
    host.reach(static_cast<std::size_t>(done), now);
    for (std::int32_t i = d.save_at_[p]; i < d.save_at_[p + 1]; ++i) {
        const std::int32_t stay = d.save_list_[i];
        heap.push_back({wanted(stays[stay]), stay});
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
    for (std::int32_t i = d.release_at_[p]; i < d.release_at_[p + 1]; ++i) {
        const std::int32_t stay = d.release_list_[i];
        now_state[stay].used = true;
        try_release(stay, false);
    }
}

void Dispatcher::Pass::iterate() {
    base = now;
    last_state = now_state;
    left_over.erase(left_over.begin(), left_over.begin() + static_cast<std::ptrdiff_t>(left_over_at));
    left_over_at = 0;
    std::sort(heap.begin(), heap.end(), [](const Ready& a, const Ready& b) { return b > a; });
    left_over.insert(left_over.end(), heap.begin(), heap.end());
    heap.clear();
    out.last_iteration = true;
    in.last_iteration = true;
    carried.assign(result.in_order.begin() + static_cast<std::ptrdiff_t>(next_in), result.in_order.end());
    carried_at = 0;
    carried_pending = carried.size() + (in.busy ? 1 : 0);
    result.out_order.clear();
    result.event_time.clear();
    result.out_busy.clear();
    if (out.busy) result.out_busy.push_back({0, never});
    done = 0;
    host.reach(0, now);
    next_in = 0;
    ins_done = 0;
    in_blocked_until = 0;
    for (std::size_t i = 0; i < stays.size(); ++i) {
        now_state[i] = {stays[i].save_after < 0, false, false};
        result.take_event[i] = result.release_event[i] = -1;
        result.in_start[i] = result.in_end[i] = -1;
    }
    while (true) {
        if (link.advance(in, out, true, now)) {
            if (in.last_iteration) {
                --carried_pending;
            } else {
                ++ins_done;
                result.in_end[in.stay] = now - base;
            }
        }
        if (link.advance(out, in, false, now)) {
            result.out_busy.back().second = now - base;
            saved(out.stay, out.last_iteration);
        }
        if (running >= 0 && op_end <= now) op_done();
        if (done == n && running < 0) break;
        bool started = false;
        started |= start_op();
        started |= start_in();
        started |= start_out();
        const std::int64_t issued = running >= 0 || host.ready() <= now ? never : host.ready();
        const std::int64_t next = std::min({op_end, in.event, out.event, issued});
        if (next == never) {
            if (started) continue;
            result.ok = false;
            return;
        }
        if (running < 0 && next > now) {
            if (carried_pending > 0 || ins_done < static_cast<std::size_t>(d.ins_needed_[done]))
                result.stall_in_ns += next - now;
            else
                result.stall_memory_ns += next - now;
        }
        now = std::max(now, next);
    }
    result.period_ns = now - base;
    std::sort(heap.begin(), heap.end(), [](const Ready& a, const Ready& b) { return b > a; });
}

std::vector<std::int64_t> Dispatcher::Pass::boundary() const {
    std::vector<std::int64_t> state;
    for (const Lane* lane : {&in, &out}) {
        state.push_back(lane->busy ? lane->stay : -1);
        state.push_back(lane->busy ? lane->event - now : 0);
        state.push_back(lane->busy && lane->moving);
    }
    for (std::size_t i = left_over_at; i < left_over.size(); ++i) state.push_back(left_over[i].stay);
    for (const Ready& ready : heap) state.push_back(ready.stay);
    state.push_back(host.since_wait(now));
    state.push_back(-1);
    for (std::size_t i = next_in; i < result.in_order.size(); ++i) state.push_back(result.in_order[i]);
    for (std::size_t i = carried_at; i < carried.size(); ++i) state.push_back(carried[i]);
    return state;
}

void Dispatcher::run(const Setting& setting, std::span<const Stay> stays, const SwapOptions& options,
                     int passes, Dispatch& r) {
    const std::int32_t n = setting.ops;
    const auto slots = static_cast<std::size_t>(n);
    const auto& regions = setting.allocation.regions;
    const std::size_t stride = slots + 1;
    r.ok = true;
    r.overfull = -1;
    r.in_order.clear();
    r.op_start.assign(slots, 0);
    r.op_event.assign(slots, 0);
    r.take_event.assign(stays.size(), -1);
    r.release_event.assign(stays.size(), -1);
    r.wraps.assign(stays.size(), 0);
    r.in_start.assign(stays.size(), -1);
    r.in_end.assign(stays.size(), -1);
    births_at_.assign(slots + 2, 0);
    release_at_.assign(slots + 2, 0);
    save_at_.assign(slots + 2, 0);
    ins_needed_.assign(slots + 1, 0);
    base_usage_.assign(regions.size() * stride, 0);
    std::vector<std::int64_t> initial(regions.size(), 0);
    auto save_position = [&](const Stay& s) {
        return options.early_save || s.release >= n ? s.save_after : std::max(s.save_after, s.release);
    };
    for (std::size_t i = 0; i < stays.size(); ++i) {
        const Stay& s = stays[i];
        std::int32_t* const usage = base_usage_.data() + s.region * stride;
        if (s.begin < n) usage[s.begin] += s.units;
        if (s.begin < n && s.release + 1 <= n) usage[s.release + 1] -= s.units;
        if (s.birth) ++births_at_[s.begin + 1];
        if (s.initial) initial[s.region] += s.units;
        if (s.by_in) r.in_order.push_back(static_cast<std::int32_t>(i));
        if (s.by_in && s.begin < n) ++ins_needed_[s.begin];
        if (s.release < n) ++release_at_[s.release + 1];
        if (s.save_after >= 0) ++save_at_[save_position(s) + 1];
    }
    for (std::int32_t p = 1; p <= n; ++p) {
        births_at_[p] += births_at_[p - 1];
        ins_needed_[p] += ins_needed_[p - 1];
        release_at_[p] += release_at_[p - 1];
        save_at_[p] += save_at_[p - 1];
    }
    for (std::size_t region = 0; region < regions.size(); ++region) {
        std::int32_t* const usage = base_usage_.data() + region * stride;
        for (std::int32_t p = 0; p < n; ++p) {
            if (p > 0) usage[p] += usage[p - 1];
            if (usage[p] > regions[region].slots) {
                r.ok = false;
                r.overfull = p;
                return;
            }
        }
    }
    release_list_.resize(static_cast<std::size_t>(release_at_[n]));
    save_list_.resize(static_cast<std::size_t>(save_at_[n]));
    // Births of one op, one entry per region.
    births_.resize(static_cast<std::size_t>(births_at_[n]));
    fill_ = births_at_;
    for (const Stay& s : stays) {
        if (!s.birth) continue;
        std::int32_t at = births_at_[s.begin];
        const std::int32_t end = fill_[s.begin];
        while (at < end && births_[at].region != s.region) ++at;
        if (at < end) {
            births_[at].units += s.units;
        } else {
            births_[at] = {s.region, s.units};
            ++fill_[s.begin];
        }
    }
    for (std::int32_t p = 0; p < n; ++p)
        for (std::int32_t i = fill_[p]; i < births_at_[p + 1]; ++i) births_[i] = {0, 0};
    fill_ = release_at_;
    for (std::size_t i = 0; i < stays.size(); ++i)
        if (stays[i].release < n) release_list_[fill_[stays[i].release]++] = static_cast<std::int32_t>(i);
    fill_ = save_at_;
    for (std::size_t i = 0; i < stays.size(); ++i)
        if (stays[i].save_after >= 0)
            save_list_[fill_[save_position(stays[i])]++] = static_cast<std::int32_t>(i);
    std::stable_sort(r.in_order.begin(), r.in_order.end(),
                     [&](std::int32_t a, std::int32_t b) { return stays[a].begin < stays[b].begin; });
    Pass pass(*this, setting, stays, options, r);
    pass.now_state.assign(stays.size(), {});
    for (std::size_t i = 0; i < regions.size(); ++i) pass.free_units.push_back(regions[i].slots - initial[i]);
    pass.next_in = r.in_order.size();  // nothing is left over from before the first iteration
    std::vector<std::int64_t> before = pass.boundary();
    for (int i = 0; i < passes && r.ok; ++i) {
        usage_ = base_usage_;
        r.stall_in_ns = r.stall_memory_ns = 0;
        pass.iterate();
        std::vector<std::int64_t> after = pass.boundary();
        if (after == before) break;
        before = std::move(after);
    }
    // What the recorded iteration leaves to the next one goes on in the same order.
    for (const Ready& waiting : pass.heap) r.out_order.push_back(waiting.stay);
}

}  // namespace swapadvisor::planner
