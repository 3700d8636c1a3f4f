// Reduces a plan to what each queue entry waits for, in counts of done ops and transfers.
#include <algorithm>

#include "planner/machine/simulator.h"

namespace swapadvisor::planner {

namespace {

constexpr std::int32_t none = INT32_MIN;

/// One residency of a tensor and what its release waits for.
struct Stay {
    bool released = false;
    std::int32_t release_ops = none, release_outs = none;
    std::int32_t saves = none;   // outs done once every save of this residency is
    std::int32_t own_in = none;  // ins done once it has arrived
};

struct Taker {
    std::int32_t key = 0;    // birth: position; `in`: largest `after` up to it in the queue
    std::int32_t kind = 0;   // 0 birth, 1 in
    std::int32_t index = 0;  // position of the birth, place in the in queue
    std::int32_t stay = 0;
    const Placement* at = nullptr;
};

Placement merged(const Placement& at) {
    Placement out;
    for (const ChunkRange& r : at) {
        if (r.count == 0) continue;
        if (!out.empty() && out.back().first + out.back().count == r.first)
            out.back().count += r.count;
        else
            out.push_back(r);
    }
    return out;
}

bool same_place(const Placement& a, const Placement& b) {
    return &a == &b || a == b || merged(a) == merged(b);
}

/// Chunks between two neighbouring boundaries of placements never part; they are one atom.
class Atoms {
  public:
    explicit Atoms(const Plan& plan) {
        for (const auto& i : plan.initial) add(i.at);
        for (const auto& a : plan.actions) add(a.at);
        std::sort(edges_.begin(), edges_.end());
        edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    }
    std::size_t size() const { return edges_.size(); }
    template <class F>
    void each(const Placement& at, F&& f) const {
        for (const ChunkRange& r : at) {
            const std::int64_t end = std::int64_t{r.first} + r.count;
            for (auto it = std::lower_bound(edges_.begin(), edges_.end(), r.first);
                 it != edges_.end() && *it < end; ++it)
                f(static_cast<std::size_t>(it - edges_.begin()));
        }
    }

  private:
    void add(const Placement& at) {
        for (const ChunkRange& r : at) {
            edges_.push_back(r.first);
            edges_.push_back(std::int64_t{r.first} + r.count);
        }
    }
    std::vector<std::int64_t> edges_;
};

void raise(std::int32_t& value, std::int32_t at_least) {
    value = std::max(value, at_least);
}

class Compiler {
  public:
    Compiler(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan) {}
    SimProgram run();

  private:
    void read_actions();
    void close_iteration();
    void chunk_order();
    void writes_after_saves();
    void fail(const std::string& why) {
        if (program_.error.empty()) program_.error = why;
    }
    std::int32_t new_stay(TensorId t) {
        stays_.emplace_back();
        return current_[t] = static_cast<std::int32_t>(stays_.size()) - 1;
    }

    const Graph& graph_;
    const Plan& plan_;
    SimProgram program_;
    std::vector<Stay> stays_;
    std::vector<std::int32_t> current_;       // stay of each tensor, -1 absent
    std::vector<const Placement*> where_;     // last place of each tensor
    std::vector<std::int32_t> left_stay_;     // its last residency that ended in this iteration, -1 none
    std::vector<std::int32_t> in_left_stay_;  // per `in`: the residency before it
    std::vector<std::int32_t> initial_stay_;
    std::vector<Taker> births_, arrivals_;
    struct Save {
        TensorId tensor;
        std::int32_t after, index;
    };
    std::vector<Save> saves_;
    struct FirstIn {
        TensorId tensor;
        std::int32_t index;
        const Placement* at;
    };
    std::vector<FirstIn> first_ins_;  // `in`s of tensors that left in the iteration before
};

void Compiler::read_actions() {
    const auto n = static_cast<std::int32_t>(plan_.schedule.size());
    const auto tensors = static_cast<TensorId>(graph_.tensors.size());
    std::vector<std::int32_t> before_n;
    std::int32_t max_after = -1;
    for (const Action& a : plan_.actions) {
        const TensorId t = a.tensor;
        if (t < 0 || t >= tensors) return fail("an action names an unknown tensor");
        if (a.kind != ActionKind::alloc && a.kind != ActionKind::in && current_[t] < 0)
            return fail("tensor " + std::to_string(t) + " is released or saved while absent");
        const auto in_count = static_cast<std::int32_t>(program_.ins.size());
        const auto out_count = static_cast<std::int32_t>(program_.outs.size());
        switch (a.kind) {
            case ActionKind::alloc: {
                if (a.before < 0 || a.before >= n) return fail("an alloc's `before` is out of range");
                if (current_[t] >= 0)
                    return fail("tensor " + std::to_string(t) + " is allocated while resident");
                const std::int32_t stay = new_stay(t);
                births_.push_back({a.before, 0, a.before, stay, &a.at});
                where_[t] = &a.at;
                break;
            }
            case ActionKind::in: {
                if (a.before < 0 || a.before > n) return fail("an in's `before` is out of range");
                if (current_[t] >= 0) return fail("tensor " + std::to_string(t) + " comes in while resident");
                SimProgram::Transfer in;
                in.bytes = graph_.tensors[t].bytes;
                in.need_ops = a.after + 1;
                if (where_[t] == nullptr) {
                    first_ins_.push_back({t, in_count, &a.at});
                } else {
                    program_.remaps += !same_place(*where_[t], a.at);
                }
                where_[t] = &a.at;
                in_left_stay_.push_back(left_stay_[t]);
                const std::int32_t stay = new_stay(t);
                stays_[stay].own_in = in_count + 1;
                max_after = std::max(max_after, a.after);
                arrivals_.push_back({max_after, 1, in_count, stay, &a.at});
                program_.ins.push_back(in);
                if (a.before == n)
                    raise(program_.ops[0].need_ins, in_count + 1);  // less one iteration, in close_iteration
                else
                    before_n.push_back(a.before);
                if (a.before == n) before_n.push_back(-1);
                break;
            }
            case ActionKind::save:
            case ActionKind::out: {
                Stay& stay = stays_[current_[t]];
                SimProgram::Transfer out;
                out.bytes = graph_.tensors[t].bytes;
                out.need_ops = a.after + 1;
                out.need_other = stay.own_in;
                program_.outs.push_back(out);
                raise(stay.saves, out_count + 1);
                if (a.kind == ActionKind::save) {
                    saves_.push_back({t, a.after, out_count});
                    break;
                }
                [[fallthrough]];
            }
            case ActionKind::free:
            case ActionKind::drop: {
                Stay& stay = stays_[current_[t]];
                stay.released = true;
                stay.release_ops = a.after + 1;
                stay.release_outs = stay.saves;
                left_stay_[t] = current_[t];
                current_[t] = -1;
                break;
            }
        }
    }
    // Gates of the `in`s: those before n count for the next iteration's first op.
    const auto ins = static_cast<std::int32_t>(program_.ins.size());
    if (n > 0 && program_.ops[0].need_ins != none) program_.ops[0].need_ins -= ins;
    for (std::int32_t i = 0; i < ins; ++i)
        if (before_n[i] >= 0) raise(program_.ops[before_n[i]].need_ins, i + 1);
}

/// What the iteration's end hands to the next one: tensors that stay, saves still under way.
void Compiler::close_iteration() {
    const auto outs = static_cast<std::int32_t>(program_.outs.size());
    for (std::size_t i = 0; i < plan_.initial.size(); ++i) {
        const TensorId t = plan_.initial[i].tensor;
        if (current_[t] < 0)
            return fail("tensor " + std::to_string(t) + " is initial but not resident at the end");
        Stay& first = stays_[initial_stay_[i]];
        const Stay& last = stays_[current_[t]];
        if (first.released && last.saves != none) raise(first.release_outs, last.saves - outs);
        if (!same_place(*where_[t], plan_.initial[i].at))
            return fail("tensor " + std::to_string(t) + " does not end where it begins");
    }
    for (std::size_t i = 0; i < program_.ins.size(); ++i)
        if (in_left_stay_[i] >= 0) {  // its previous `out` or `drop` is done
            const Stay& left = stays_[in_left_stay_[i]];
            raise(program_.ins[i].need_ops, left.release_ops);
            raise(program_.ins[i].need_other, left.release_outs);
        }
    for (const FirstIn& f : first_ins_) {
        if (left_stay_[f.tensor] < 0) continue;
        const std::int32_t release = stays_[left_stay_[f.tensor]].release_outs;
        if (release != none) raise(program_.ins[f.index].need_other, release - outs);
        program_.remaps += !same_place(*where_[f.tensor], *f.at);
    }
}

void Compiler::chunk_order() {
    const auto outs = static_cast<std::int32_t>(program_.outs.size());
    const auto n = static_cast<std::int32_t>(plan_.schedule.size());
    const Atoms atoms(plan_);
    std::vector<std::int32_t> holder(atoms.size(), -1), first(atoms.size(), -1);
    for (std::size_t i = 0; i < plan_.initial.size(); ++i)
        atoms.each(plan_.initial[i].at, [&](std::size_t a) { holder[a] = initial_stay_[i]; });
    std::stable_sort(births_.begin(), births_.end(),
                     [](const Taker& a, const Taker& b) { return a.key < b.key; });
    std::vector<Taker> takers(births_.size() + arrivals_.size());
    std::merge(
        births_.begin(), births_.end(), arrivals_.begin(), arrivals_.end(), takers.begin(),
        [](const Taker& a, const Taker& b) { return a.key != b.key ? a.key < b.key : a.kind < b.kind; });
    auto follow = [&](const Taker& taker, const Stay& before, std::int32_t ops_back, std::int32_t outs_back) {
        if (!before.released) return fail("a chunk is taken while its holder is never released");
        const std::int32_t need_ops = before.release_ops - ops_back;
        const std::int32_t need_outs = before.release_outs == none ? none : before.release_outs - outs_back;
        if (taker.kind == 0) {
            if (need_ops > taker.index)
                return fail("the op at position " + std::to_string(taker.index) +
                            " takes a chunk that is released later");
            raise(program_.ops[taker.index].need_outs, need_outs);
        } else {
            raise(program_.ins[taker.index].need_ops, need_ops);
            raise(program_.ins[taker.index].need_other, need_outs);
        }
    };
    for (std::size_t i = 0; i < takers.size(); ++i)
        atoms.each(*takers[i].at, [&](std::size_t a) {
            if (holder[a] >= 0)
                follow(takers[i], stays_[holder[a]], 0, 0);
            else
                first[a] = static_cast<std::int32_t>(i);
            holder[a] = takers[i].stay;
        });
    for (std::size_t a = 0; a < first.size(); ++a)
        if (first[a] >= 0) follow(takers[first[a]], stays_[holder[a]], n, outs);
}

/// An op that writes a tensor waits for the saves of it that come before.
void Compiler::writes_after_saves() {
    if (saves_.empty()) return;
    std::vector<std::vector<std::int32_t>> writes(graph_.tensors.size());
    std::vector<char> wanted(graph_.tensors.size(), 0);
    for (const Save& s : saves_) wanted[s.tensor] = 1;
    for (std::size_t p = 0; p < plan_.schedule.size(); ++p)
        for (const TensorId t : graph_.ops[plan_.schedule[p]].writes)
            if (wanted[t]) writes[t].push_back(static_cast<std::int32_t>(p));
    const auto outs = static_cast<std::int32_t>(program_.outs.size());
    for (const Save& s : saves_) {
        const auto& w = writes[s.tensor];
        const auto next = std::upper_bound(w.begin(), w.end(), s.after);
        if (next != w.end())
            raise(program_.ops[*next].need_outs, s.index + 1);
        else if (!w.empty())
            raise(program_.ops[w.front()].need_outs, s.index + 1 - outs);
    }
}

SimProgram Compiler::run() {
    const std::size_t tensors = graph_.tensors.size();
    program_.latency = graph_.device.transfer_latency_ns;
    program_.ops.resize(plan_.schedule.size());
    for (std::size_t p = 0; p < plan_.schedule.size(); ++p) {
        const OpId op = plan_.schedule[p];
        if (op < 0 || static_cast<std::size_t>(op) >= graph_.ops.size()) {
            fail("the schedule names an unknown op");
            return std::move(program_);
        }
        program_.ops[p].duration = graph_.ops[op].duration_ns;
    }
    if (plan_.schedule.size() == graph_.ops.size()) program_.host = HostPace(graph_, plan_.schedule);
    current_.assign(tensors, -1);
    where_.assign(tensors, nullptr);
    left_stay_.assign(tensors, -1);
    for (const auto& i : plan_.initial) {
        if (i.tensor < 0 || static_cast<std::size_t>(i.tensor) >= tensors) {
            fail("`initial` names an unknown tensor");
            return std::move(program_);
        }
        initial_stay_.push_back(new_stay(i.tensor));
        where_[i.tensor] = &i.at;
    }
    if (plan_.schedule.empty()) return std::move(program_);
    read_actions();
    if (program_.error.empty()) close_iteration();
    if (program_.error.empty()) chunk_order();
    if (program_.error.empty()) writes_after_saves();
    return std::move(program_);
}

}  // namespace

SimProgram compile(const Graph& graph, const Plan& plan) {
    return Compiler(graph, plan).run();
}

}  // namespace swapadvisor::planner
