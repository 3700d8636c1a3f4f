// The machine of the plan format, event by event: three queues, the link between host and device, chunks with
// holders. Times are whole nanoseconds. A transfer that moves bytes ends at the first nanosecond by which its
// bytes have moved; when both directions are limited by `duplex`, each gets its share rounded down to whole
// bytes per second.
#include <algorithm>
#include <deque>
#include <optional>

#include "planner/base/uint128.h"
#include "planner/machine/checker_model.h"

namespace swapadvisor::planner::checker {
namespace {

using Wide = uint128;
using Origin = Residency::Origin;

constexpr int most_iterations = 64;
constexpr int look_back = 8;                       // iterations between which the steady state may alternate
constexpr std::int64_t byte_work = 1'000'000'000;  // a byte at r bytes/s needs byte_work / r ns

struct Transfer {
    int iteration = 0;
    int action = 0;
    std::int64_t latency_left = 0;
    Wide work_left = 0;
    bool moving() const { return latency_left == 0 && work_left > 0; }
    bool done() const { return latency_left == 0 && work_left == 0; }
};

// What the machine has ahead of it at the end of an iteration. Two equal ones: it repeats.
struct Snapshot {
    std::int64_t ins_ahead = 0, outs_ahead = 0, since_wait = 0;
    std::optional<std::pair<std::int64_t, Wide>> in, out;
    bool operator==(const Snapshot&) const = default;
};

// What has happened in one iteration.
struct Progress {
    std::vector<bool> op_done, action_done, arrived, released;
};

class Machine {
  public:
    Machine(const Model& model, CheckResult& result) : model_(model), plan_(model.plan), result_(result) {
        const Device& device = model.graph.device;
        const Wide in = device.h2d_bytes_per_s, out = device.d2h_bytes_per_s,
                   duplex = device.duplex_bytes_per_s;
        in_alone_ = in_both_ = in;
        out_alone_ = out_both_ = out;
        if (in + out > duplex) {
            in_both_ = std::max<Wide>(1, in * duplex / (in + out));
            out_both_ = std::max<Wide>(1, out * duplex / (in + out));
        }
        for (int i = 0; i < static_cast<int>(plan_.actions.size()); ++i) {
            const ActionKind kind = plan_.actions[i].kind;
            if (kind == ActionKind::in) ins_.push_back(i);
            if (kind == ActionKind::save || kind == ActionKind::out) outs_.push_back(i);
        }
        ins_before_.resize(model.n() + 1);
        for (int i : ins_) ins_before_[plan_.actions[i].before].push_back(i);
        born_at_.resize(model.n());
        released_after_.resize(model.n());
        for (int r = 0; r < static_cast<int>(model.residencies.size()); ++r) {
            const Residency& stay = model.residencies[r];
            if (stay.origin == Origin::alloc) born_at_[stay.begin].push_back(r);
            if (stay.released_by >= 0) released_after_[plan_.actions[stay.released_by].after].push_back(r);
        }
        holder_.assign(model.pieces, -1);
        for (const Op& op : model.graph.ops) host_ever_waits_ |= op.host_waits;
    }

    void run() {
        if (model_.n() == 0) return;
        progress_.resize(1);
        open(progress_[0]);
        for (int r = 0; r < static_cast<int>(model_.residencies.size()); ++r) {
            if (model_.residencies[r].origin != Origin::initial) continue;
            progress_[0].arrived[r] = true;
            take(r);
        }
        while (true) {
            bool changed = true;
            while (changed) {
                changed = register_ends();
                if (finished_) return;
                changed |= start_op();
                changed |= start_in();
                changed |= start_out();
                // A start may have ended at once (an op or transfer of no length).
            }
            if (!advance()) return stuck();
        }
    }

  private:
    void open(Progress& progress) const {
        progress.op_done.resize(model_.n());
        progress.action_done.resize(plan_.actions.size());
        progress.arrived.resize(model_.residencies.size());
        progress.released.resize(model_.residencies.size());
    }
    Progress& at(int iteration) {
        while (static_cast<int>(progress_.size()) <= iteration) {
            progress_.emplace_back();
            open(progress_.back());
        }
        return progress_[iteration];
    }

    // ---- conditions ----
    bool op_done(int iteration, int position) {
        if (iteration < 0) return true;
        return at(iteration).op_done[position];
    }
    bool action_done(int iteration, int action) { return iteration < 0 || at(iteration).action_done[action]; }
    bool arrived(int iteration, int r) {
        const Residency& stay = model_.residencies[r];
        if (stay.origin == Origin::initial && iteration > 0) return arrived(iteration - 1, stay.previous);
        return at(iteration).arrived[r];
    }
    bool released(int iteration, int r) { return iteration < 0 || at(iteration).released[r]; }
    bool chunks_free(int r) const {
        return std::all_of(model_.residencies[r].pieces.begin(), model_.residencies[r].pieces.end(),
                           [&](int piece) { return holder_[piece] < 0; });
    }
    int stay_at(TensorId tensor, int position) const {
        for (int r : model_.of_tensor[tensor])
            if (model_.residencies[r].begin <= position && position <= model_.residencies[r].end) return r;
        return -1;
    }

    bool op_may_start(int k, int p) {
        for (int i : ins_before_[p])
            if (!action_done(k, i)) return false;
        if (p == 0)
            for (int i : ins_before_[model_.n()])
                if (!action_done(k - 1, i)) return false;
        for (int r : born_at_[p])
            if (!chunks_free(r)) return false;
        const Op& op = model_.graph.ops[plan_.schedule[p]];
        for (const auto* list : {&op.reads, &op.writes})
            for (TensorId t : *list) {
                if (model_.in_arena[t]) continue;
                const int r = stay_at(t, p);
                const Residency& stay = model_.residencies[r];
                const bool newborn = stay.origin == Origin::alloc && stay.begin == p;
                if (!newborn && !arrived(k, r)) return false;
            }
        // Saves of the tensor from before, those of the previous iteration included.
        for (TensorId t : op.writes)
            for (int r : model_.of_tensor[t])
                for (int save : model_.residencies[r].saves)
                    if (!action_done(plan_.actions[save].after < p ? k : k - 1, save)) return false;
        return true;
    }

    // When the host has issued the next op.
    std::int64_t issued_at() const {
        return host_ever_waits_ ? host_waited_until_ + model_.graph.ops[plan_.schedule[op_position_]].issue_ns
                                : 0;
    }
    // The op at op_position_ is next. No op crosses a host wait, so it is at this position in any order.
    void let_host_on() {
        if (model_.graph.ops[op_position_].host_waits) host_waited_until_ = now_;
    }

    bool in_may_start(int k, int i) {
        const Action& action = plan_.actions[i];
        if (action.after >= 0 ? !op_done(k, action.after) : !op_done(k - 1, model_.n() - 1)) return false;
        const int r = model_.of_action[i];
        const Residency& stay = model_.residencies[r];
        if (!released(stay.previous_is_last_iteration ? k - 1 : k, stay.previous)) return false;
        return chunks_free(r);
    }

    bool out_may_start(int k, int i) {
        return op_done(k, plan_.actions[i].after) && arrived(k, model_.of_action[i]);
    }

    // ---- starts ----
    bool start_op() {
        if (op_running_ || now_ < issued_at() || !op_may_start(op_iteration_, op_position_)) return false;
        op_running_ = true;
        op_ends_ = now_ + model_.graph.ops[plan_.schedule[op_position_]].duration_ns;
        for (int r : born_at_[op_position_]) {
            take(r);
            at(op_iteration_).arrived[r] = true;
        }
        return true;
    }
    bool start_in() {
        if (in_ || ins_.empty()) return false;
        const int k = static_cast<int>(ins_started_ / static_cast<std::int64_t>(ins_.size()));
        const int i = ins_[ins_started_ % static_cast<std::int64_t>(ins_.size())];
        if (k > op_iteration_ + 1 || !in_may_start(k, i)) return false;
        take(model_.of_action[i]);
        in_ = begin(k, i);
        ++ins_started_;
        return true;
    }
    bool start_out() {
        if (out_ || outs_.empty()) return false;
        const int k = static_cast<int>(outs_started_ / static_cast<std::int64_t>(outs_.size()));
        const int i = outs_[outs_started_ % static_cast<std::int64_t>(outs_.size())];
        if (k > op_iteration_ || !out_may_start(k, i)) return false;
        out_ = begin(k, i);
        ++outs_started_;
        return true;
    }
    Transfer begin(int k, int i) const {
        const std::int64_t bytes = model_.graph.tensors[plan_.actions[i].tensor].bytes;
        return {k, i, model_.graph.device.transfer_latency_ns, Wide(bytes) * byte_work};
    }
    void take(int r) {
        for (int piece : model_.residencies[r].pieces) holder_[piece] = r;
    }

    // ---- ends ----
    bool register_ends() {
        bool changed = false;
        if (in_ && in_->done()) {
            at(in_->iteration).action_done[in_->action] = true;
            at(in_->iteration).arrived[model_.of_action[in_->action]] = true;
            in_.reset();
            ++ins_done_;
            changed = true;
        }
        if (out_ && out_->done()) {
            at(out_->iteration).action_done[out_->action] = true;
            out_.reset();
            ++outs_done_;
            changed = true;
        }
        bool iteration_ended = false;
        if (op_running_ && op_ends_ == now_) {
            op_running_ = false;
            at(op_iteration_).op_done[op_position_] = true;
            for (int r : released_after_[op_position_]) leaving_.emplace_back(op_iteration_, r);
            if (++op_position_ == model_.n()) {
                op_position_ = 0;
                ++op_iteration_;
                iteration_ended = true;
            } else {
                let_host_on();
            }
            changed = true;
        }
        if (changed) release();
        if (iteration_ended) {
            end_iteration();
            let_host_on();
        }
        return changed;
    }
    void release() {
        std::erase_if(leaving_, [&](const std::pair<int, int>& entry) {
            const auto [k, r] = entry;
            const Residency& stay = model_.residencies[r];
            if (!arrived(k, r)) return false;
            if (plan_.actions[stay.released_by].kind == ActionKind::out && !action_done(k, stay.released_by))
                return false;
            for (int save : stay.saves)
                if (!action_done(k, save)) return false;
            if (stay.origin == Origin::initial)
                for (int save : model_.residencies[stay.previous].saves)
                    if (!action_done(k - 1, save)) return false;
            at(k).released[r] = true;
            for (int piece : stay.pieces) holder_[piece] = -1;
            return true;
        });
    }
    void end_iteration() {
        const int k = op_iteration_ - 1;  // the one that ended
        const auto left =
            [](const std::optional<Transfer>& t) -> std::optional<std::pair<std::int64_t, Wide>> {
            if (!t) return std::nullopt;
            return std::make_pair(t->latency_left, t->work_left);
        };
        ended_at_.push_back(now_);
        snapshots_.push_back({ins_done_ - std::int64_t{k + 1} * static_cast<std::int64_t>(ins_.size()),
                              outs_done_ - std::int64_t{k + 1} * static_cast<std::int64_t>(outs_.size()),
                              host_ever_waits_ ? now_ - host_waited_until_ : 0, left(in_), left(out_)});
        result_.iterations_simulated = k + 1;
        for (int j = k - 1; j >= std::max(0, k - look_back); --j)
            if (snapshots_[j] == snapshots_[k]) return finish(j, k);
        if (k == most_iterations - 1) finish(most_iterations / 2 - 1, k);
    }
    void finish(int from, int to) {
        const std::int64_t count = to - from;
        result_.period_ns = (ended_at_[to] - ended_at_[from] + count - 1) / count;
        finished_ = true;
    }

    // ---- time ----
    // To the next end of anything; false if nothing is under way.
    bool advance() {
        Wide step = 0;
        bool any = false;
        const auto consider = [&](Wide ns) {
            step = any ? std::min(step, ns) : ns;
            any = true;
        };
        const bool both = in_ && out_ && in_->moving() && out_->moving();
        const Wide in_rate = both ? in_both_ : in_alone_, out_rate = both ? out_both_ : out_alone_;
        if (op_running_)
            consider(static_cast<Wide>(op_ends_ - now_));
        else if (issued_at() > now_)
            consider(static_cast<Wide>(issued_at() - now_));
        const auto remaining = [&](const Transfer& t, Wide rate) {
            consider(t.moving() ? (t.work_left + rate - 1) / rate : static_cast<Wide>(t.latency_left));
        };
        if (in_) remaining(*in_, in_rate);
        if (out_) remaining(*out_, out_rate);
        if (!any) return false;
        const auto pass = [&](Transfer& t, Wide rate) {
            if (t.moving())
                t.work_left -= std::min(t.work_left, step * rate);
            else
                t.latency_left -= static_cast<std::int64_t>(step);
        };
        if (in_) pass(*in_, in_rate);
        if (out_) pass(*out_, out_rate);
        now_ += static_cast<std::int64_t>(step);
        return true;
    }

    void stuck() {
        std::string line = "deadlock in iteration " + std::to_string(op_iteration_) + ": " +
                           op_at(model_, op_position_) + " cannot start";
        if (!ins_.empty())
            line += "; next in is " +
                    action_name(model_, ins_[ins_started_ % static_cast<std::int64_t>(ins_.size())]);
        if (!outs_.empty())
            line += "; next out is " +
                    action_name(model_, outs_[outs_started_ % static_cast<std::int64_t>(outs_.size())]);
        result_.violations.push_back(line);
    }

    const Model& model_;
    const Plan& plan_;
    CheckResult& result_;
    Wide in_alone_, in_both_, out_alone_, out_both_;
    std::vector<int> ins_, outs_;                                          // actions of each queue
    std::vector<std::vector<int>> ins_before_, born_at_, released_after_;  // by position

    std::int64_t now_ = 0;
    std::deque<Progress> progress_;  // by iteration
    bool op_running_ = false;
    int op_iteration_ = 0, op_position_ = 0;  // running or next
    std::int64_t op_ends_ = 0;
    bool host_ever_waits_ = false;
    std::int64_t host_waited_until_ = 0;
    std::optional<Transfer> in_, out_;
    std::int64_t ins_started_ = 0, outs_started_ = 0, ins_done_ = 0, outs_done_ = 0;
    std::vector<int> holder_;                   // by piece: residency or -1
    std::vector<std::pair<int, int>> leaving_;  // iteration and residency: op done, release not yet
    std::vector<std::int64_t> ended_at_;        // by iteration
    std::vector<Snapshot> snapshots_;
    bool finished_ = false;
};

}  // namespace

void run_machine(const Model& model, CheckResult& result) {
    Machine(model, result).run();
}

}  // namespace swapadvisor::planner::checker
