#include "planner/place/retime.h"

#include <algorithm>
#include <numeric>

#include "planner/machine/host_pace.h"
#include "planner/machine/lanes.h"

namespace swapadvisor::planner {

namespace {

/// `stay` cannot begin before `after` has been released; `wraps`: in the iteration before.
struct Follows {
    std::int32_t stay, after;
    bool wraps;
    bool operator==(const Follows&) const = default;
    bool operator<(const Follows& o) const {
        return after != o.after ? after < o.after : stay != o.stay ? stay < o.stay : wraps < o.wraps;
    }
};

/// Who holds each chunk in turn, and each tensor's stays in turn; sorted by `after`.
std::vector<Follows> order_of_holders(std::span<const Stay> stays, const Places& places) {
    // Chunks between two neighbouring boundaries of placements never part.
    std::vector<std::int32_t> edges;
    for (const Placement& at : places.at)
        for (const ChunkRange& r : at) {
            edges.push_back(r.first);
            edges.push_back(r.first + r.count);
        }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::vector<std::int32_t> holder(edges.size(), -1), first(edges.size(), -1);
    std::vector<std::int32_t> by_begin(stays.size());
    std::iota(by_begin.begin(), by_begin.end(), 0);
    std::stable_sort(by_begin.begin(), by_begin.end(), [&](std::int32_t a, std::int32_t b) {
        const Stay &x = stays[static_cast<std::size_t>(a)], &y = stays[static_cast<std::size_t>(b)];
        return x.initial != y.initial ? x.initial : x.begin < y.begin;
    });
    std::vector<Follows> all;
    for (const std::int32_t i : by_begin)
        for (const ChunkRange& r : places.at[static_cast<std::size_t>(i)]) {
            auto at = static_cast<std::size_t>(std::lower_bound(edges.begin(), edges.end(), r.first) -
                                               edges.begin());
            for (; edges[at] < r.first + r.count; ++at) {
                if (holder[at] >= 0)
                    all.push_back({i, holder[at], false});
                else
                    first[at] = i;
                holder[at] = i;
            }
        }
    for (std::size_t at = 0; at < edges.size(); ++at)
        if (first[at] >= 0 && !stays[static_cast<std::size_t>(first[at])].initial)
            all.push_back({first[at], holder[at], true});
    for (std::size_t i = 0; i < stays.size();) {
        std::size_t j = i;
        for (; j < stays.size() && stays[j].tensor == stays[i].tensor; ++j)
            if (j > i && stays[j].by_in)
                all.push_back({static_cast<std::int32_t>(j), static_cast<std::int32_t>(j) - 1, false});
        if (stays[i].by_in)
            all.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(j) - 1, true});
        i = j;
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

struct Ready {
    std::int32_t wanted, stay;
    bool operator>(const Ready& o) const { return wanted != o.wanted ? wanted > o.wanted : stay > o.stay; }
};

struct Progress {  // of one stay in one iteration
    bool saved = true, used = true, released = true;
    bool started = true;     // by `in`
    std::int32_t waits = 0;  // for so many releases
};

/// Positions with what happens at each.
class ByPosition {
  public:
    template <class Position>
    ByPosition(std::int32_t n, std::size_t count, Position&& position)
        : at_(static_cast<std::size_t>(n) + 2) {
        for (std::size_t i = 0; i < count; ++i)
            if (const std::int32_t p = position(i); p >= 0) ++at_[static_cast<std::size_t>(p) + 1];
        std::partial_sum(at_.begin(), at_.end(), at_.begin());
        list_.resize(static_cast<std::size_t>(at_.back()));
        std::vector<std::int32_t> fill = at_;
        for (std::size_t i = 0; i < count; ++i)
            if (const std::int32_t p = position(i); p >= 0)
                list_[static_cast<std::size_t>(fill[static_cast<std::size_t>(p)]++)] =
                    static_cast<std::int32_t>(i);
    }
    std::span<const std::int32_t> operator[](std::int32_t p) const {
        const auto at = static_cast<std::size_t>(p);
        return {list_.data() + at_[at], list_.data() + at_[at + 1]};
    }

  private:
    std::vector<std::int32_t> at_, list_;
};

class Retimer {
  public:
    Retimer(const Setting& setting, std::span<const Stay> stays, const Places& places,
            const RetimeOptions& options, Dispatch& into)
        : problem_(setting.problem),
          setting_(setting),
          stays_(stays),
          options_(options),
          result_(into),
          link_(setting.problem.rates),
          host_(setting.problem.graph, setting.sequence.order),
          n_(setting.ops),
          follows_(order_of_holders(stays, places)),
          follows_at_(stays.size() + 1),
          wanted_(stays.size(), 4 * n_),
          births_(n_, stays.size(), [&](std::size_t i) { return stays[i].birth ? stays[i].begin : -1; }),
          ins_(n_, stays.size(), [&](std::size_t i) { return stays[i].by_in ? stays[i].begin : -1; }),
          saves_(n_, stays.size(), [&](std::size_t i) { return stays[i].save_after; }),
          releases_(n_, stays.size(),
                    [&](std::size_t i) { return stays[i].release < n_ ? stays[i].release : -1; }),
          now_state_(stays.size()),
          last_state_(stays.size()) {
        for (const Follows& f : follows_) {
            ++follows_at_[static_cast<std::size_t>(f.after) + 1];
            std::int32_t& wanted = wanted_[static_cast<std::size_t>(f.after)];
            wanted = std::min(wanted, stays[static_cast<std::size_t>(f.stay)].begin + (f.wraps ? n_ : 0));
        }
        std::partial_sum(follows_at_.begin(), follows_at_.end(), follows_at_.begin());
        for (std::size_t i = 0; i < stays.size(); ++i)  // what follows the end of a stay over the boundary
            if (stays[i].initial && stays[i].partner >= 0)
                wanted_[static_cast<std::size_t>(stays[i].partner)] = wanted_[i] + n_;
        for (std::int32_t p = 0; p <= n_; ++p)
            for (const std::int32_t i : ins_[p]) need_order_.push_back(i);
    }

    bool run() {
        carried_.clear();
        for (int pass = 0; pass < options_.passes; ++pass)
            if (!iterate(pass == 0)) return false;
        // What the recorded iteration leaves to the next one goes on in the same order.
        for (const std::int32_t i : need_order_)
            if (!now_state_[static_cast<std::size_t>(i)].started) result_.in_order.push_back(i);
        std::sort(heap_.begin(), heap_.end(), [](const Ready& a, const Ready& b) { return b > a; });
        for (const Ready& r : heap_) result_.out_order.push_back(r.stay);
        return true;
    }

  private:
    const Stay& stay(std::int32_t i) const { return stays_[static_cast<std::size_t>(i)]; }
    Progress& now(std::int32_t i) { return now_state_[static_cast<std::size_t>(i)]; }
    Progress& last(std::int32_t i) { return last_state_[static_cast<std::size_t>(i)]; }

    void try_release(std::int32_t i, bool of_last) {
        Progress& p = of_last ? last(i) : now(i);
        if (p.released || !p.used || !p.saved) return;
        if (stay(i).waits_last_iteration && !of_last && !last(stay(i).partner).saved) return;
        p.released = true;
        const auto at = static_cast<std::size_t>(i);
        for (auto k = static_cast<std::size_t>(follows_at_[at]);
             k < static_cast<std::size_t>(follows_at_[at + 1]); ++k) {
            const Follows& f = follows_[k];
            if (!of_last && !f.wraps) --now(f.stay).waits;
            if (of_last && !f.wraps) --last(f.stay).waits;
            if (of_last && f.wraps) --now(f.stay).waits;
        }
    }
    void saved(std::int32_t i, bool of_last) {
        (of_last ? last(i) : now(i)).saved = true;
        if (stay(i).release < n_)
            try_release(i, of_last);
        else if (stay(i).partner >= 0 && of_last)
            try_release(stay(i).partner, false);
    }
    bool start_op() {
        if (running_ >= 0 || done_ == n_ || carried_pending_ > 0 || time_ < host_.ready() ||
            ins_missing_[static_cast<std::size_t>(done_)] > 0)
            return false;
        for (const std::int32_t i : births_[done_])
            if (now(i).waits > 0) return false;
        running_ = done_;
        result_.op_start[static_cast<std::size_t>(done_)] = time_ - base_;
        op_end_ = time_ +
                  problem_.graph
                      .ops[static_cast<std::size_t>(setting_.sequence.order[static_cast<std::size_t>(done_)])]
                      .duration_ns;
        return true;
    }
    bool start_in() {
        if (in_.busy) return false;
        std::int32_t found = -1;
        const bool carry = carried_at_ < carried_.size();
        if (carry) {
            if (last(carried_[carried_at_]).waits > 0) return false;
            found = carried_[carried_at_++];
        } else {
            while (next_in_ < need_order_.size() && now(need_order_[next_in_]).started) ++next_in_;
            int overtaken = 0;
            for (std::size_t k = next_in_; k < need_order_.size() && overtaken <= options_.look_ahead; ++k) {
                const Progress& p = now(need_order_[k]);
                if (p.started) continue;
                if (p.waits == 0) {
                    found = need_order_[k];
                    break;
                }
                ++overtaken;
            }
            if (found < 0) return false;
            now(found).started = true;
            result_.in_order.push_back(found);
        }
        start(in_, found, carry, problem_.in_ns);
        return true;
    }
    bool start_out() {
        if (out_.busy) return false;
        const bool of_last = left_over_at_ < left_over_.size();
        std::int32_t found = -1;
        if (of_last) {
            found = left_over_[left_over_at_++].stay;
        } else {
            if (heap_.empty()) return false;
            std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
            found = heap_.back().stay;
            heap_.pop_back();
            result_.out_order.push_back(found);
        }
        start(out_, found, of_last, problem_.out_ns);
        return true;
    }
    /// `alone_ns`: by tensor, of a transfer in this direction.
    void start(Lane& lane, std::int32_t of, bool last_iteration, const std::vector<std::int64_t>& alone_ns) {
        const auto t = static_cast<std::size_t>(stay(of).tensor);
        lane.stay = of;
        lane.last_iteration = last_iteration;
        link_.start(lane, time_, problem_.graph.device.transfer_latency_ns, alone_ns[t],
                    problem_.graph.tensors[t].bytes);
    }
    void op_done() {
        const std::int32_t p = running_;
        running_ = -1;
        op_end_ = never;
        ++done_;
        host_.reach(static_cast<std::size_t>(done_), time_);
        for (const std::int32_t i : saves_[p]) {
            heap_.push_back({wanted_[static_cast<std::size_t>(i)], i});
            std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
        }
        for (const std::int32_t i : releases_[p]) {
            now(i).used = true;
            try_release(i, false);
        }
    }
    void begin_iteration(bool first) {
        base_ = time_;
        last_state_ = now_state_;
        left_over_.erase(left_over_.begin(), left_over_.begin() + static_cast<std::ptrdiff_t>(left_over_at_));
        left_over_at_ = 0;
        std::sort(heap_.begin(), heap_.end(), [](const Ready& a, const Ready& b) { return b > a; });
        left_over_.insert(left_over_.end(), heap_.begin(), heap_.end());
        heap_.clear();
        in_.last_iteration = out_.last_iteration = true;
        carried_.clear();
        carried_at_ = 0;
        if (!first)
            for (const std::int32_t i : need_order_)
                if (!now(i).started) carried_.push_back(i);
        carried_pending_ = carried_.size() + (in_.busy ? 1 : 0);
        result_.in_order.clear();
        result_.out_order.clear();
        result_.op_start.assign(static_cast<std::size_t>(n_), 0);
        done_ = 0;
        host_.reach(0, time_);
        next_in_ = 0;
        for (std::size_t i = 0; i < stays_.size(); ++i)
            now_state_[i] = {stays_[i].save_after < 0, false, false, !stays_[i].by_in, 0};
        for (const Follows& f : follows_)
            if (!f.wraps || !last(f.after).released) ++now(f.stay).waits;
        ins_missing_.assign(static_cast<std::size_t>(n_) + 1, 0);
        for (std::int32_t p = 0; p <= n_; ++p)
            ins_missing_[static_cast<std::size_t>(p)] = static_cast<std::int32_t>(ins_[p].size());
    }
    bool iterate(bool first) {
        begin_iteration(first);
        while (true) {
            if (link_.advance(in_, out_, true, time_)) {
                if (in_.last_iteration)
                    --carried_pending_;
                else
                    --ins_missing_[static_cast<std::size_t>(stay(in_.stay).begin)];
            }
            if (link_.advance(out_, in_, false, time_)) saved(out_.stay, out_.last_iteration);
            if (running_ >= 0 && op_end_ <= time_) op_done();
            if (done_ == n_ && running_ < 0) break;
            bool started = false;
            started |= start_op();
            started |= start_in();
            started |= start_out();
            const std::int64_t issued = running_ >= 0 || host_.ready() <= time_ ? never : host_.ready();
            const std::int64_t next = std::min({op_end_, in_.event, out_.event, issued});
            if (next == never) {
                if (started) continue;
                return false;
            }
            time_ = std::max(time_, next);
        }
        result_.period_ns = time_ - base_;
        return true;
    }

    const Problem& problem_;
    const Setting& setting_;
    std::span<const Stay> stays_;
    const RetimeOptions& options_;
    Dispatch& result_;
    Link link_;
    HostPace host_;
    std::int32_t n_;
    std::vector<Follows> follows_;
    std::vector<std::int32_t> follows_at_;
    std::vector<std::int32_t>
        wanted_;  // position of the next holder of its chunks, n more in the next iteration
    ByPosition births_, ins_, saves_, releases_;
    std::vector<std::int32_t> need_order_;  // stays by `in`

    std::vector<Progress> now_state_, last_state_;
    std::vector<Ready> heap_, left_over_;
    std::size_t left_over_at_ = 0;
    std::vector<std::int32_t> carried_;  // `in`s of the last iteration that have not started
    std::size_t carried_at_ = 0, carried_pending_ = 0;
    std::vector<std::int32_t> ins_missing_;  // by position
    Lane in_, out_;
    std::int64_t time_ = 0, base_ = 0, op_end_ = never;
    std::int32_t done_ = 0, running_ = -1;
    std::size_t next_in_ = 0;
};

}  // namespace

bool retime(const Setting& setting, std::span<const Stay> stays, const Places& places,
            const RetimeOptions& options, Dispatch& into) {
    return Retimer(setting, stays, places, options, into).run();
}

}  // namespace swapadvisor::planner
