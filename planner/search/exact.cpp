#include "planner/search/exact.h"

#include <algorithm>
#include <numeric>

#include "planner/base/uint128.h"

namespace swapadvisor::planner {

namespace {

constexpr std::int64_t most_candidates = 20000;  // orders times choices
constexpr std::int64_t most_steps = 3000000;     // simulations, or pieces of memory tried: some seconds
// Where the search is told how many generations to do, likewise, each:
constexpr std::int64_t steps_a_generation = 3000, candidates_a_generation = 800;
constexpr std::int32_t most_split = 4;  // units of a piece that are taken in every number
constexpr std::int32_t none = -1;

/// Chunks that hold the same residencies.
struct Piece {
    std::int32_t count = 0;
    std::uint64_t held = 0;
    std::int32_t last = none;  // the residency that took it last
};

void raise(std::int32_t& value, std::int32_t at_least) {
    value = std::max(value, at_least);
}

/// One transfer after another at full rate: no plan with these transfers is faster.
std::int64_t alone_ns(std::int64_t bytes, std::uint64_t rate, std::int64_t latency) {
    const uint128 work = uint128(static_cast<std::uint64_t>(bytes)) * 1'000'000'000u;
    return latency + static_cast<std::int64_t>((work + rate - 1) / rate);
}

/// The best plan for one order and one choice of swaps, if it is faster than `best`.
class Solver {
  public:
    Solver(const Problem& problem, std::int64_t most, const std::function<bool()>& stop)
        : problem_(problem), counted_(problem), most_(most), stop_(stop) {
        // Without places: each residency has a chunk of its own.
        counted_.chunks = static_cast<std::int32_t>(most_exact_stays);
        for (const std::int32_t s : problem.size)
            if (s > 0) grain_ = std::gcd(grain_, s);
    }

    std::optional<Built> best;
    bool remaps = false;

    bool out_of_steps() const { return steps_ >= most_ || stopped_; }
    bool done(std::int64_t bound) const {
        return out_of_steps() || (best && best->sim.period_ns <= bound && best->sim.remaps == 0);
    }
    void solve(const Setting& setting, const Choices& choice);
    std::int64_t least(const Setting& setting, const Choices& choice);
    bool all_splits() const { return all_splits_; }

  private:
    std::int64_t compute_bound(const Setting& setting);
    bool faster(std::int64_t period) const { return !best || period < best->sim.period_ns; }
    bool step() {
        if (++steps_ % 256 == 0 && stop_ && stop_()) stopped_ = true;
        return !out_of_steps();
    }
    bool same_tensor_before(std::size_t i) const { return i > 0 && stays_[i - 1].tensor == stays_[i].tensor; }
    void order_ins();
    void order_outs();
    void place_all();
    void place_from(std::size_t k, const std::vector<Piece>& pieces, const SimProgram& program);
    void take(std::size_t k, const std::vector<std::size_t>& usable, std::size_t at, std::int32_t left,
              const std::vector<Piece>& pieces, const SimProgram& program);
    void judge(const std::vector<Piece>& pieces);
    Plan plan_for(const Setting& setting, const Places& places) {
        dispatch_.in_order.assign(ins_.begin(), ins_.end());
        dispatch_.out_order.assign(outs_.begin(), outs_.end());
        return write_plan(setting, stays_, dispatch_, places);
    }

    const Problem& problem_;
    Problem counted_;
    std::int64_t most_;
    const std::function<bool()>& stop_;
    const Setting* setting_ = nullptr;
    std::optional<Setting> counted_setting_;
    std::vector<Stay> stays_;
    std::vector<std::int32_t> ins_, outs_, ins_left_, outs_left_;
    std::vector<std::size_t> by_begin_;
    std::vector<std::int32_t> out_at_, in_at_;  // by stay: place in its queue
    Dispatch dispatch_;
    std::int32_t grain_ = 0;  // chunks that all sizes are multiples of
    std::int64_t steps_ = 0;
    bool stopped_ = false, all_splits_ = true;
};

/// A lower bound of the period; INT64_MAX when the residencies exceed the pool.
std::int64_t Solver::least(const Setting& setting, const Choices& choice) {
    stays(setting, choice, {}, stays_);
    if (stays_.size() > most_exact_stays) return INT64_MAX;
    const Device& device = problem_.graph.device;
    std::vector<std::int64_t> usage(static_cast<std::size_t>(setting.ops) + 2, 0);
    std::int64_t in_ns = 0, out_ns = 0;
    for (const Stay& s : stays_) {
        usage[static_cast<std::size_t>(s.begin)] += s.units;
        usage[static_cast<std::size_t>(std::min(s.release, setting.ops)) + 1] -= s.units;
        const std::int64_t bytes = problem_.graph.tensors[static_cast<std::size_t>(s.tensor)].bytes;
        if (s.by_in) in_ns += alone_ns(bytes, problem_.rates.in_alone, device.transfer_latency_ns);
        if (s.save_after >= 0)
            out_ns += alone_ns(bytes, problem_.rates.out_alone, device.transfer_latency_ns);
    }
    std::int64_t held = 0;
    for (std::size_t p = 0; p <= static_cast<std::size_t>(setting.ops); ++p)
        if ((held += usage[p]) > problem_.chunks) return INT64_MAX;
    return std::max({in_ns, out_ns, compute_bound(setting)});
}

/// The end of the ops if memory were no matter: an `in` starts in its own iteration, once its tensor has
/// left, and one after another; an op waits for all that it and those before it need.
std::int64_t Solver::compute_bound(const Setting& setting) {
    const Device& device = problem_.graph.device;
    std::vector<std::int64_t> end(static_cast<std::size_t>(setting.ops), 0);
    struct In {
        std::int64_t from, took;
    };
    std::vector<In> needed;
    std::int64_t now = 0;
    for (std::int32_t p = 0; p < setting.ops; ++p) {
        for (std::size_t i = 0; i < stays_.size(); ++i) {
            const Stay& s = stays_[i];
            if (!s.by_in || s.begin != p) continue;
            const std::int64_t bytes = problem_.graph.tensors[static_cast<std::size_t>(s.tensor)].bytes;
            std::int64_t from = 0;
            if (same_tensor_before(i)) {
                const Stay& left = stays_[i - 1];
                from = end[static_cast<std::size_t>(left.release)];
                if (left.save_after >= 0)
                    from = std::max(
                        from, end[static_cast<std::size_t>(left.save_after)] +
                                  alone_ns(bytes, problem_.rates.out_alone, device.transfer_latency_ns));
            }
            needed.push_back({from, alone_ns(bytes, problem_.rates.in_alone, device.transfer_latency_ns)});
        }
        for (const In& first : needed) {
            std::int64_t arrived = first.from;
            for (const In& other : needed)
                if (other.from >= first.from) arrived += other.took;
            now = std::max(now, arrived);
        }
        const OpId op = setting.sequence.order[static_cast<std::size_t>(p)];
        now += problem_.graph.ops[static_cast<std::size_t>(op)].duration_ns;
        end[static_cast<std::size_t>(p)] = now;
    }
    return now;
}

void Solver::solve(const Setting& setting, const Choices& choice) {
    const std::int64_t bound = least(setting, choice);
    if (bound == INT64_MAX || !faster(bound)) return;
    setting_ = &setting;
    counted_setting_.emplace(counted_, setting.sequence.order, setting.allocation);
    ins_.clear();
    outs_.clear();
    ins_left_.clear();
    outs_left_.clear();
    for (std::size_t i = 0; i < stays_.size(); ++i) {
        if (stays_[i].by_in) ins_left_.push_back(static_cast<std::int32_t>(i));
        if (stays_[i].save_after >= 0) outs_left_.push_back(static_cast<std::int32_t>(i));
    }
    std::stable_sort(ins_left_.begin(), ins_left_.end(),
                     [&](std::int32_t a, std::int32_t b) { return stays_[a].begin < stays_[b].begin; });
    std::stable_sort(outs_left_.begin(), outs_left_.end(), [&](std::int32_t a, std::int32_t b) {
        return stays_[a].save_after < stays_[b].save_after;
    });
    by_begin_.resize(stays_.size());
    std::iota(by_begin_.begin(), by_begin_.end(), std::size_t{0});
    std::stable_sort(by_begin_.begin(), by_begin_.end(), [&](std::size_t a, std::size_t b) {
        if (stays_[a].initial != stays_[b].initial) return stays_[a].initial;
        return stays_[a].begin < stays_[b].begin;
    });
    out_at_.assign(stays_.size(), none);
    in_at_.assign(stays_.size(), none);
    order_ins();
}

void Solver::order_ins() {
    if (out_of_steps()) return;
    if (ins_left_.empty()) return order_outs();
    for (std::size_t k = 0; k < ins_left_.size(); ++k) {
        const std::int32_t i = ins_left_[k];
        // One that leaves only after the op that another is needed for cannot go ahead of it.
        const std::int32_t left =
            same_tensor_before(static_cast<std::size_t>(i)) ? stays_[i - 1].release : none;
        if (std::any_of(ins_left_.begin(), ins_left_.end(),
                        [&](std::int32_t j) { return j != i && stays_[j].begin <= left; }))
            continue;
        ins_left_.erase(ins_left_.begin() + static_cast<std::ptrdiff_t>(k));
        in_at_[i] = static_cast<std::int32_t>(ins_.size());
        ins_.push_back(i);
        order_ins();
        ins_.pop_back();
        ins_left_.insert(ins_left_.begin() + static_cast<std::ptrdiff_t>(k), i);
    }
}

void Solver::order_outs() {
    if (out_of_steps()) return;
    if (outs_left_.empty()) return place_all();
    for (std::size_t k = 0; k < outs_left_.size(); ++k) {
        const std::int32_t i = outs_left_[k];
        // Likewise: what has to be out before its tensor comes back for an earlier op goes first.
        if (std::any_of(outs_left_.begin(), outs_left_.end(), [&](std::int32_t j) {
                const auto next = static_cast<std::size_t>(j) + 1;
                return j != i && next < stays_.size() && same_tensor_before(next) &&
                       stays_[next].begin <= stays_[i].save_after;
            }))
            continue;
        outs_left_.erase(outs_left_.begin() + static_cast<std::ptrdiff_t>(k));
        out_at_[i] = static_cast<std::int32_t>(outs_.size());
        outs_.push_back(i);
        order_outs();
        outs_.pop_back();
        outs_left_.insert(outs_left_.begin() + static_cast<std::ptrdiff_t>(k), i);
    }
}

/// Both queues have their order: first as if places did not matter, then with places.
void Solver::place_all() {
    if (!step()) return;
    Places apart;
    apart.ok = true;
    for (std::size_t i = 0; i < stays_.size(); ++i) {
        const Stay& s = stays_[i];
        const bool shared = s.partner >= 0 && static_cast<std::size_t>(s.partner) < i;
        apart.at.push_back({{shared ? s.partner : static_cast<std::int32_t>(i), 1}});
    }
    const SimProgram program = compile(problem_.graph, plan_for(*counted_setting_, apart));
    // Orders that wait for each other leave transfers unlisted.
    if (program.ins.size() != ins_.size() || program.outs.size() != outs_.size()) return;
    const SimResult sim = swapadvisor::planner::run(program, problem_.rates);
    if (!sim.ok || !faster(sim.period_ns)) return;
    place_from(0, {{problem_.chunks / std::max(1, grain_), 0, none}}, program);
}

void Solver::place_from(std::size_t k, const std::vector<Piece>& pieces, const SimProgram& program) {
    if (k == stays_.size()) return judge(pieces);
    const std::size_t i = by_begin_[k];
    const Stay& s = stays_[i];
    // Chunks that it must have, and those where the tensor was before: a change of place comes last.
    std::uint64_t own = 0;
    for (std::size_t j = 0; j < stays_.size(); ++j)
        if (stays_[j].tensor == s.tensor) own |= std::uint64_t{1} << j;
    const bool back = std::any_of(pieces.begin(), pieces.end(), [&](const Piece& p) { return p.held & own; });
    std::uint64_t must = 0;
    if (!remaps && back) must = own;
    if (s.partner >= 0 && !s.initial) must = std::uint64_t{1} << s.partner;
    std::vector<std::size_t> usable;
    for (const bool first : {true, false})
        for (std::size_t p = 0; p < pieces.size(); ++p) {
            if (((pieces[p].held & own) != 0) != first) continue;
            if (must != 0 && (pieces[p].held & must) == 0) continue;
            if (pieces[p].last == none || stays_[pieces[p].last].release < s.begin) usable.push_back(p);
        }
    take(k, usable, 0, s.units / std::max(1, grain_), pieces, program);
}

/// Takes `left` more from the usable pieces, in every way.
void Solver::take(std::size_t k, const std::vector<std::size_t>& usable, std::size_t at, std::int32_t left,
                  const std::vector<Piece>& pieces, const SimProgram& program) {
    if (!step()) return;
    const std::size_t i = by_begin_[k];
    if (left == 0) {
        std::vector<Piece> next = pieces;
        SimProgram bound = program;
        bool waits = false;
        for (Piece& p : next) {
            if ((p.held >> i & 1) == 0) continue;
            const std::int32_t before = p.last;
            p.last = static_cast<std::int32_t>(i);
            if (before == none) continue;
            const Stay &s = stays_[i], &b = stays_[before];
            if (s.birth && out_at_[before] >= 0) {
                raise(bound.ops[s.begin].need_outs, out_at_[before] + 1);
                waits = true;
            } else if (s.by_in) {
                raise(bound.ins[in_at_[i]].need_ops, b.release + 1);
                if (out_at_[before] >= 0) raise(bound.ins[in_at_[i]].need_other, out_at_[before] + 1);
                waits = true;
            }
        }
        if (waits) {
            const SimResult sim = swapadvisor::planner::run(bound, problem_.rates);
            if (!sim.ok || !faster(sim.period_ns)) return;
        }
        return place_from(k + 1, next, bound);
    }
    std::int64_t room = 0;
    for (std::size_t u = at; u < usable.size(); ++u) room += pieces[usable[u]].count;
    if (room < left) return;
    const std::size_t p = usable[at];
    const std::int32_t most = std::min(left, pieces[p].count);
    for (std::int32_t count = most; count >= 0; --count) {
        const std::int64_t short_by = left - (room - pieces[p].count + count);
        if (short_by > 0) return;
        // Of many ways to split only the ends: all that it holds or is wanted, nothing, or what is wanted in
        // the end.
        if (most > most_split && count < most && count > 0 && short_by < 0) {
            all_splits_ = false;
            continue;
        }
        std::vector<Piece> next = pieces;
        if (count > 0) {
            if (count < pieces[p].count) {
                Piece rest = pieces[p];
                rest.count -= count;
                next.push_back(rest);
            }
            next[p].count = count;
            next[p].held |= std::uint64_t{1} << i;
        }
        take(k, usable, at + 1, left - count, next, program);
        if (out_of_steps()) return;
    }
}

void Solver::judge(const std::vector<Piece>& pieces) {
    if (!step()) return;
    Places places;
    places.ok = true;
    places.at.resize(stays_.size());
    std::int32_t first = 0;
    for (const Piece& p : pieces) {
        const std::int32_t count = p.count * grain_;
        for (std::size_t i = 0; i < stays_.size(); ++i)
            if (p.held >> i & 1) places.at[i].push_back({first, count});
        first += count;
    }
    Built built;
    built.plan = plan_for(*setting_, places);
    built.sim = swapadvisor::planner::run(compile(problem_.graph, built.plan), problem_.rates);
    if (!built.sim.ok || !faster(built.sim.period_ns)) return;
    built.plan.predicted_ns = built.dispatch_ns = built.sim.period_ns;
    best = std::move(built);
}

struct Candidate {
    std::int64_t estimate = INT64_MAX;  // the dispatcher's period
    std::int64_t least = 0;
    std::size_t setting = 0;
    Choices choice;
};

class AllCandidates {
  public:
    AllCandidates(const Problem& problem, bool reorder, std::size_t most, Solver& solver)
        : problem_(problem), solver_(solver), most_(most) {
        std::vector<OpId> program(problem.graph.ops.size());
        std::iota(program.begin(), program.end(), 0);
        add_order(program);
        if (!reorder) return;
        std::vector<std::size_t> waits(program.size());
        for (const OpId op : program)
            waits[static_cast<std::size_t>(op)] = problem.dependencies.before(op).size();
        std::vector<OpId> order;
        orders(order, waits, program);
    }
    bool complete() const { return complete_; }
    const Setting& setting(const Candidate& c) const { return settings_[c.setting]; }

    std::vector<Candidate> all;

  private:
    void orders(std::vector<OpId>& order, std::vector<std::size_t>& waits, const std::vector<OpId>& program) {
        if (!complete_) return;
        if (order.size() == program.size()) {
            if (order != program) add_order(order);
            return;
        }
        for (std::size_t op = 0; op < waits.size(); ++op) {
            if (waits[op] != 0) continue;
            waits[op] = SIZE_MAX;
            order.push_back(static_cast<OpId>(op));
            for (const OpId next : problem_.dependencies.after(static_cast<OpId>(op))) --waits[next];
            orders(order, waits, program);
            for (const OpId next : problem_.dependencies.after(static_cast<OpId>(op))) ++waits[next];
            order.pop_back();
            waits[op] = 0;
        }
    }
    void add_order(const std::vector<OpId>& order) {
        settings_.emplace_back(problem_, order, Allocation(problem_));
        Choices choice(problem_.use_count(), GapChoice::keep);
        choose(0, choice);
    }
    void choose(std::size_t gap, Choices& choice) {
        if (!complete_) return;
        const Setting& setting = settings_.back();
        if (gap < setting.gaps.size()) {
            const Gap& g = setting.gaps[gap];
            for (const GapChoice c : {GapChoice::keep, GapChoice::evict, GapChoice::evict_tail}) {
                if (c == GapChoice::evict_tail && !g.wrap) continue;
                choice[g.use] = c;
                choose(gap + 1, choice);
            }
            choice[g.use] = GapChoice::keep;
            return;
        }
        if (++looked_ > most_) {
            complete_ = false;
            return;
        }
        Candidate candidate;
        candidate.least = solver_.least(setting, choice);
        if (candidate.least == INT64_MAX ||
            (solver_.best && candidate.least >= solver_.best->sim.period_ns && solver_.best->sim.remaps == 0))
            return;
        stays(setting, choice, {}, stays_);
        dispatcher_.run(setting, stays_, {}, 3, dispatch_);
        if (dispatch_.ok) candidate.estimate = dispatch_.period_ns;
        candidate.setting = settings_.size() - 1;
        candidate.choice = choice;
        all.push_back(std::move(candidate));
    }

    const Problem& problem_;
    Solver& solver_;
    std::vector<Setting> settings_;
    std::vector<Stay> stays_;
    Dispatcher dispatcher_;
    Dispatch dispatch_;
    std::size_t most_;
    std::size_t looked_ = 0;
    bool complete_ = true;
};

}  // namespace

Exact search_all(const Problem& problem, const PlanOptions& options, std::optional<Built> first,
                 const std::function<bool()>& stop) {
    std::int64_t steps = most_steps, looked_at = most_candidates;
    if (options.generations > 0) {
        steps = std::min(steps, options.generations * steps_a_generation);
        looked_at = std::min(looked_at, options.generations * candidates_a_generation);
    }
    Solver solver(problem, steps, stop);
    solver.best = std::move(first);
    Exact found;
    if (solver.done(problem.compute_ns)) {
        found.complete = true;
    } else {
        AllCandidates candidates(problem, options.reorder, static_cast<std::size_t>(looked_at), solver);
        std::stable_sort(candidates.all.begin(), candidates.all.end(),
                         [](const Candidate& a, const Candidate& b) {
                             return std::max(a.estimate, a.least) < std::max(b.estimate, b.least);
                         });
        for (const bool remaps : {false, true}) {
            if (remaps && options.no_remaps) break;
            solver.remaps = remaps;
            for (const Candidate& c : candidates.all) {
                if (solver.done(problem.compute_ns)) break;
                solver.solve(candidates.setting(c), c.choice);
            }
        }
        found.complete =
            candidates.complete() && !solver.out_of_steps() && solver.all_splits() && solver.best;
    }
    found.best = std::move(solver.best);
    return found;
}

}  // namespace swapadvisor::planner
