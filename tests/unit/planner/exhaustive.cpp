#include "exhaustive.h"

#include <algorithm>
#include <numeric>

#include "planner/machine/checker.h"

namespace swapadvisor::planner::testing {
namespace {

struct Access {
    int position;
    bool write;
};

class Enumeration {
  public:
    Enumeration(const Graph& graph, int chunks) : graph_(graph), chunks_(chunks) {
        base_.graph = graph.name;
        base_.chunk_bytes = graph.tensors.empty() ? 1 : graph.tensors[0].bytes;
        base_.chunks = chunks;
        base_.limit_bytes = base_.chunk_bytes * chunks;
        for (const Op& op : graph.ops) compute_ns_ += op.duration_ns;
    }

    void order(const std::vector<OpId>& schedule) {
        base_.schedule = schedule;
        n_ = static_cast<int>(schedule.size());
        accesses_.assign(graph_.tensors.size(), {});
        for (int p = 0; p < n_; ++p) {
            const auto note = [&](TensorId t, bool write) {
                auto& list = accesses_[t];
                if (list.empty() || list.back().position != p) list.push_back({p, false});
                list.back().write |= write;
            };
            for (TensorId t : graph_.ops[schedule[p]].reads) note(t, false);
            for (TensorId t : graph_.ops[schedule[p]].writes) note(t, true);
        }
        actions_.clear();
        initial_.clear();
        choose_gaps(0);
    }
    std::optional<Exhaustive> best() const { return best_; }
    /// Nothing is faster than the ops one after the other.
    bool done() const { return best_ && best_->period_ns <= compute_ns_; }

  private:
    // A tensor's actions in order; `stay` numbers its stays for the choice of chunks.
    struct Step {
        Action action;
        int stay = 0;
    };
    struct Initial {
        TensorId tensor;
        int stay;
    };

    void choose_gaps(TensorId t) {
        if (done()) return;
        if (t == static_cast<TensorId>(graph_.tensors.size())) return order_queues();
        const auto& list = accesses_[t];
        if (list.empty()) return choose_gaps(t + 1);
        const bool persistent = graph_.tensors[t].persistent;
        std::vector<int> inner;  // index of the access before a gap worth leaving
        for (int i = 0; i + 1 < static_cast<int>(list.size()); ++i)
            if (list[i + 1].position - list[i].position > 1) inner.push_back(i);
        const bool wraps = persistent && list[0].position + n_ - list.back().position > 1;
        for (int set = 0; set < (1 << inner.size()); ++set) {
            std::vector<bool> left(list.size());
            for (std::size_t k = 0; k < inner.size(); ++k) left[inner[k]] = (set >> k & 1) != 0;
            if (!persistent) {
                one(t, left, Wrap::none);
            } else {
                one(t, left, Wrap::kept);
                if (wraps) one(t, left, Wrap::in_at_start);
                if (wraps) one(t, left, Wrap::in_at_end);
            }
        }
    }

    enum class Wrap { none, kept, in_at_start, in_at_end };
    void one(TensorId t, const std::vector<bool>& left, Wrap wrap) {
        const auto& list = accesses_[t];
        const int count = static_cast<int>(list.size());
        const bool leaves_wrap = wrap == Wrap::in_at_start || wrap == Wrap::in_at_end;
        const bool written = std::any_of(list.begin(), list.end(), [](Access a) { return a.write; });
        // Writes whose contents must be saved: those followed by a gap that is left before the next write.
        std::vector<bool> save(count);
        bool save_birth = false;
        const auto needs_save = [&](int gap) {
            int w = gap;
            while (w >= 0 && !list[w].write) --w;
            if (w >= 0)
                save[w] = true;
            else if (wrap == Wrap::none)
                save_birth = true;
            else if (written) {
                w = count - 1;
                while (!list[w].write) --w;
                save[w] = true;
            }
        };
        for (int i = 0; i < count; ++i)
            if (left[i]) needs_save(i);
        if (leaves_wrap) needs_save(count - 1);

        std::vector<Step> steps;
        int stay = 0;
        const bool starts_resident = wrap == Wrap::kept || wrap == Wrap::in_at_end;
        if (wrap == Wrap::none) steps.push_back({{ActionKind::alloc, t, -1, list[0].position, {}}, 0});
        if (wrap == Wrap::in_at_start) steps.push_back({{ActionKind::in, t, -1, list[0].position, {}}, 0});
        if (save_birth) steps.push_back({{ActionKind::save, t, list[0].position, 0, {}}, 0});
        for (int i = 0; i < count; ++i) {
            if (save[i]) steps.push_back({{ActionKind::save, t, list[i].position, 0, {}}, stay});
            const bool last = i + 1 == count;
            if (last && wrap == Wrap::none)
                steps.push_back({{ActionKind::free, t, list[i].position, 0, {}}, stay});
            if ((!last && left[i]) || (last && leaves_wrap)) {
                steps.push_back({{ActionKind::drop, t, list[i].position, 0, {}}, stay});
                if (!last) steps.push_back({{ActionKind::in, t, -1, list[i + 1].position, {}}, ++stay});
            }
        }
        if (wrap == Wrap::in_at_end) steps.push_back({{ActionKind::in, t, -1, n_, {}}, ++stay});
        const std::size_t had = initial_.size();
        const int first_stay = stays_;
        if (starts_resident) initial_.push_back({t, first_stay});
        for (Step& step : steps) step.stay += first_stay;
        stays_ += stay + 1;
        windows_.resize(stays_, {0, n_ - 1});
        for (const Step& step : steps) {
            if (step.action.kind == ActionKind::alloc || step.action.kind == ActionKind::in)
                windows_[step.stay].first = step.action.before;
            if (step.action.kind == ActionKind::free || step.action.kind == ActionKind::drop)
                windows_[step.stay].second = step.action.after;
        }
        // The last stay of a tensor that starts resident is in the same chunk as the first.
        if (starts_resident && stay > 0) same_.push_back({first_stay, first_stay + stay});
        actions_.push_back(steps);
        choose_gaps(t + 1);
        actions_.pop_back();
        if (starts_resident && stay > 0) same_.pop_back();
        stays_ -= stay + 1;
        windows_.resize(stays_);
        initial_.resize(had);
    }

    void order_queues() {
        std::vector<Step> ins, outs;
        for (const auto& steps : actions_)
            for (const Step& step : steps) {
                if (step.action.kind == ActionKind::in) ins.push_back(step);
                if (step.action.kind == ActionKind::save) outs.push_back(step);
            }
        std::vector<int> in_order(ins.size()), out_order(outs.size());
        std::iota(in_order.begin(), in_order.end(), 0);
        do {
            std::iota(out_order.begin(), out_order.end(), 0);
            do {
                std::vector<Step> merged;
                if (merge(ins, in_order, outs, out_order, merged)) place(merged);
            } while (std::next_permutation(out_order.begin(), out_order.end()));
        } while (std::next_permutation(in_order.begin(), in_order.end()));
    }
    static bool same(const Step& a, const Step& b) {
        return a.action.tensor == b.action.tensor && a.action.kind == b.action.kind && a.stay == b.stay &&
               a.action.after == b.action.after;
    }
    // One list that keeps each tensor's order and both queues' order.
    bool merge(const std::vector<Step>& ins, const std::vector<int>& in_order, const std::vector<Step>& outs,
               const std::vector<int>& out_order, std::vector<Step>& merged) const {
        std::vector<std::size_t> next(actions_.size());
        std::size_t next_in = 0, next_out = 0, total = 0;
        for (const auto& steps : actions_) total += steps.size();
        while (merged.size() < total) {
            bool moved = false;
            for (std::size_t t = 0; t < actions_.size(); ++t)
                while (next[t] < actions_[t].size()) {
                    const Step& step = actions_[t][next[t]];
                    if (step.action.kind == ActionKind::in) {
                        if (!same(ins[in_order[next_in]], step)) break;
                        ++next_in;
                    } else if (step.action.kind == ActionKind::save) {
                        if (!same(outs[out_order[next_out]], step)) break;
                        ++next_out;
                    }
                    merged.push_back(step);
                    ++next[t];
                    moved = true;
                }
            if (!moved) return false;
        }
        return true;
    }

    void place(const std::vector<Step>& merged) {
        std::vector<int> chunk(stays_, 0);
        place_from(0, merged, chunk);
    }
    // Stays that overlap in the schedule cannot share a chunk: no need to ask the checker.
    void place_from(int stay, const std::vector<Step>& merged, std::vector<int>& chunk) {
        if (done()) return;
        if (stay == stays_) return judge(merged, chunk);
        for (int c = 0; c < chunks_; ++c) {
            bool possible = true;
            for (int other = 0; other < stay && possible; ++other)
                possible = chunk[other] != c || windows_[other].second < windows_[stay].first ||
                           windows_[stay].second < windows_[other].first;
            for (const auto& [first, last] : same_) possible &= last != stay || chunk[first] == c;
            if (!possible) continue;
            chunk[stay] = c;
            place_from(stay + 1, merged, chunk);
            if (stay == 0) break;  // chunks are alike
        }
    }
    void judge(const std::vector<Step>& merged, const std::vector<int>& chunk) {
        Plan plan = base_;
        for (const Initial& entry : initial_)
            plan.initial.push_back({entry.tensor, {{chunk[entry.stay], 1}}});
        for (const Step& step : merged) {
            Action action = step.action;
            if (action.kind == ActionKind::alloc || action.kind == ActionKind::in)
                action.at = {{chunk[step.stay], 1}};
            if (action.kind == ActionKind::in)
                for (const Step& other : merged)
                    if (other.action.kind == ActionKind::alloc && chunk[other.stay] == chunk[step.stay] &&
                        other.action.before < action.before)
                        action.after = std::max(action.after, other.action.before);
            plan.actions.push_back(action);
        }
        if (!best_) best_.emplace(Exhaustive{INT64_MAX, {}, 0});
        ++best_->plans;
        const CheckResult result = check_plan(graph_, plan);
        if (!result.valid() || result.period_ns >= best_->period_ns) return;
        best_->period_ns = result.period_ns;
        best_->plan = plan;
    }

    const Graph& graph_;
    int chunks_;
    int n_ = 0;
    std::int64_t compute_ns_ = 0;
    Plan base_;
    std::vector<std::vector<Access>> accesses_;
    std::vector<std::vector<Step>> actions_;  // by tensor that is used
    std::vector<Initial> initial_;
    std::vector<std::pair<int, int>> same_;
    std::vector<std::pair<int, int>> windows_;  // of a stay: first and last position of use
    int stays_ = 0;
    std::optional<Exhaustive> best_;
};

}  // namespace

std::optional<Exhaustive> best_of_all(const Graph& graph, int chunks, bool reorder) {
    Enumeration enumeration(graph, chunks);
    std::vector<OpId> order(graph.ops.size());
    std::iota(order.begin(), order.end(), 0);
    do {
        // The checker refuses schedules that are no topological order; look before enumerating their plans.
        Plan empty;
        empty.graph = graph.name;
        empty.schedule = order;
        const CheckResult result = check_plan(graph, empty);
        if (!result.valid() && result.violations[0].rfind("schedule: op", 0) == 0) continue;
        enumeration.order(order);
        if (enumeration.done()) break;
    } while (reorder && std::next_permutation(order.begin(), order.end()));
    auto best = enumeration.best();
    if (best && best->period_ns == INT64_MAX) return std::nullopt;
    return best;
}

}  // namespace swapadvisor::planner::testing
