#include "planner/machine/simulator.h"

#include <algorithm>
#include <array>

#include "planner/base/uint128.h"

namespace swapadvisor::planner {

namespace {

constexpr std::int64_t never = INT64_MAX;
constexpr std::uint64_t work_per_byte = 1'000'000'000;

std::uint64_t scaled(std::int64_t rate, std::int64_t duplex, std::int64_t sum) {
    return std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(uint128(rate) * uint128(duplex) / uint128(sum)));
}

/// Whole nanoseconds until `work` is gone at `rate`.
std::int64_t duration_of(uint128 work, std::uint64_t rate) {
    if (work >> 64 == 0) {
        const auto w = static_cast<std::uint64_t>(work);
        return static_cast<std::int64_t>(w / rate + (w % rate != 0));
    }
    return static_cast<std::int64_t>((work + rate - 1) / rate);
}

/// One direction of the link.
struct Direction {
    const std::vector<SimProgram::Transfer>* queue = nullptr;
    std::int64_t done = 0;  // in total, all iterations
    std::size_t next = 0;   // index of the head in the iteration `round`
    std::int64_t round = 0;
    bool busy = false, moving = false;
    std::int64_t event = never;  // end of the latency, or of the move at the present rate
    uint128 work = 0;            // left at time `as_of`, while moving
    std::int64_t as_of = 0;
    std::uint64_t rate = 1;
};

struct BoundaryState {
    std::int64_t ins = 0, outs = 0;
    std::array<std::int64_t, 2> latency{-1, -1};  // -1: none in flight or past it
    std::array<uint128, 2> work{0, 0};
    std::int64_t since_wait = 0;
    bool operator==(const BoundaryState&) const = default;
};

class Machine {
  public:
    Machine(const SimProgram& program, const LinkRates& rates, bool detail)
        : program_(program), host_(program.host), rates_(rates), detail_(detail) {
        in_.queue = &program.ins;
        out_.queue = &program.outs;
    }

    SimResult run(int max_iterations);

  private:
    void settle(Direction& d) {  // account for what has moved since
        const uint128 moved = uint128(d.rate) * static_cast<std::uint64_t>(now_ - d.as_of);
        d.work = moved >= d.work ? 0 : d.work - moved;
        d.as_of = now_;
    }
    void set_rate(Direction& d, std::uint64_t rate) {
        d.rate = rate;
        d.event = now_ + duration_of(d.work, rate);
    }
    void begin_move(Direction& d, Direction& other, bool is_in);
    void end_move(Direction& d, Direction& other, bool other_is_in);
    bool advance(Direction& d, Direction& other, bool is_in);
    bool start(Direction& d, Direction& other, bool is_in);
    void finish(Direction& d, bool is_in);
    BoundaryState state(std::int64_t k) const;
    void push_detail(std::vector<std::int64_t>& into) const { into.push_back(now_); }

    const SimProgram& program_;
    HostPace host_;
    const LinkRates& rates_;
    bool detail_;
    std::int64_t now_ = 0;
    std::int64_t ops_done_ = 0;
    Direction in_, out_;
    // Absolute times of every entry, for the detail.
    std::vector<std::int64_t> op_start_, in_start_, in_end_, out_start_, out_end_;
};

void Machine::begin_move(Direction& d, Direction& other, bool is_in) {
    d.moving = true;
    d.as_of = now_;
    const bool both = other.moving && rates_.coupled;
    set_rate(
        d, both ? (is_in ? rates_.in_both : rates_.out_both) : (is_in ? rates_.in_alone : rates_.out_alone));
    if (both) {
        settle(other);
        set_rate(other, is_in ? rates_.out_both : rates_.in_both);
    }
}

void Machine::end_move(Direction& d, Direction& other, bool other_is_in) {
    d.moving = false;
    if (other.moving && rates_.coupled) {
        settle(other);
        set_rate(other, other_is_in ? rates_.in_alone : rates_.out_alone);
    }
}

void Machine::finish(Direction& d, bool is_in) {
    d.busy = false;
    d.event = never;
    ++d.done;
    if (++d.next == d.queue->size()) {
        d.next = 0;
        ++d.round;
    }
    if (detail_) push_detail(is_in ? in_end_ : out_end_);
}

/// Handles d's event if it is due; true if the transfer ended.
bool Machine::advance(Direction& d, Direction& other, bool is_in) {
    if (!d.busy || d.event > now_) return false;
    if (!d.moving && d.work != 0) {
        begin_move(d, other, is_in);
        if (d.event > now_) return false;
    }
    if (d.moving) end_move(d, other, !is_in);
    finish(d, is_in);
    return true;
}

bool Machine::start(Direction& d, Direction& other, bool is_in) {
    if (d.busy || d.queue->empty()) return false;
    const auto& t = (*d.queue)[d.next];
    const std::int64_t ops = static_cast<std::int64_t>(program_.ops.size());
    if (ops_done_ < d.round * ops + t.need_ops) return false;
    if (t.need_other != INT32_MIN &&
        other.done < d.round * static_cast<std::int64_t>(other.queue->size()) + t.need_other)
        return false;
    d.busy = true;
    d.work = uint128(static_cast<std::uint64_t>(t.bytes)) * work_per_byte;
    d.event = now_ + program_.latency;
    if (detail_) push_detail(is_in ? in_start_ : out_start_);
    if (program_.latency == 0 && d.work != 0) begin_move(d, other, is_in);
    return true;
}

BoundaryState Machine::state(std::int64_t k) const {
    BoundaryState s;
    s.since_wait = host_.since_wait(now_);
    s.ins = in_.done - (k + 1) * static_cast<std::int64_t>(program_.ins.size());
    s.outs = out_.done - (k + 1) * static_cast<std::int64_t>(program_.outs.size());
    const std::array<const Direction*, 2> both{&in_, &out_};
    for (int i = 0; i < 2; ++i) {
        const Direction& d = *both[i];
        if (!d.busy) continue;
        if (d.moving) {
            const uint128 moved = uint128(d.rate) * static_cast<std::uint64_t>(now_ - d.as_of);
            s.latency[i] = 0;
            s.work[i] = moved >= d.work ? 0 : d.work - moved;
        } else {
            s.latency[i] = d.event - now_;
            s.work[i] = d.work;
        }
    }
    return s;
}

SimResult Machine::run(int max_iterations) {
    SimResult result;
    const auto n = static_cast<std::int64_t>(program_.ops.size());
    const auto ins = static_cast<std::int64_t>(program_.ins.size());
    const auto outs = static_cast<std::int64_t>(program_.outs.size());
    std::vector<std::int64_t> ends;
    std::vector<BoundaryState> states;
    bool op_busy = false;
    std::int64_t op_end = never, k = 0, p = 0;
    std::int64_t steady = -1, since = -1;
    host_.reach(0, 0);
    while (steady < 0) {
        // Register everything that ends now.
        bool ended = false;
        ended |= advance(in_, out_, true);
        ended |= advance(out_, in_, false);
        if (op_busy && op_end <= now_) {
            op_busy = false;
            op_end = never;
            ++ops_done_;
            ended = true;
            if (++p == n) {
                ends.push_back(now_);
                states.push_back(state(k));
                for (std::int64_t j = k - 1; j >= 0 && j >= k - 8 && steady < 0; --j)
                    if (states[j] == states[k]) steady = k, since = j;
                p = 0;
                ++k;
                if (steady < 0 && k >= max_iterations) {
                    steady = k - 1;
                    since = max_iterations >= 64 ? 31 : std::max<std::int64_t>(0, k - 2);
                }
                if (steady >= 0) break;
            }
            host_.reach(static_cast<std::size_t>(p), now_);
        }
        // Start what can start.
        bool started = false;
        if (!op_busy) {
            const auto& op = program_.ops[p];
            if (now_ >= host_.ready() && (op.need_ins == INT32_MIN || in_.done >= k * ins + op.need_ins) &&
                (op.need_outs == INT32_MIN || out_.done >= k * outs + op.need_outs)) {
                op_busy = true;
                op_end = now_ + op.duration;
                started = true;
                if (detail_) push_detail(op_start_);
            }
        }
        started |= start(in_, out_, true);
        started |= start(out_, in_, false);
        const std::int64_t issued = op_busy || host_.ready() <= now_ ? never : host_.ready();
        const std::int64_t next = std::min({op_end, in_.event, out_.event, issued});
        if (next == never) {
            result.error = "the plan waits for itself before the op at position " + std::to_string(p);
            return result;
        }
        if (next <= now_ && (ended || started)) continue;
        now_ = std::max(now_, next);
    }
    const std::int64_t span = steady - since;
    result.period_ns = span > 0 ? (ends[steady] - ends[since] + span - 1) / span : ends[steady];
    result.ok = true;
    if (detail_) {
        // The newest iteration all of whose entries are known, transfers included, is the one before
        // `steady`; with transfers that overhang by more, fall back to what is known.
        const std::int64_t it = std::max<std::int64_t>(0, steady);
        const std::int64_t base = it > 0 ? ends[it - 1] : 0;
        auto slice = [base](const std::vector<std::int64_t>& all, std::int64_t iteration,
                            std::int64_t count) {
            std::vector<std::int64_t> part(static_cast<std::size_t>(count), -1);
            for (std::int64_t i = 0; i < count; ++i) {
                const auto at = static_cast<std::size_t>(iteration * count + i);
                if (at < all.size()) part[static_cast<std::size_t>(i)] = all[at] - base;
            }
            return part;
        };
        result.op_start = slice(op_start_, it, n);
        result.in_start = slice(in_start_, it, ins);
        result.in_end = slice(in_end_, it, ins);
        result.out_start = slice(out_start_, it, outs);
        result.out_end = slice(out_end_, it, outs);
        result.op_stall.resize(static_cast<std::size_t>(n));
        std::int64_t previous = 0;
        for (std::int64_t i = 0; i < n; ++i) {
            const auto at = static_cast<std::size_t>(i);
            result.op_stall[at] = result.op_start[at] - previous;
            previous = result.op_start[at] + program_.ops[at].duration;
        }
    }
    return result;
}

}  // namespace

LinkRates::LinkRates(const Device& device) {
    in_alone = static_cast<std::uint64_t>(std::max<std::int64_t>(1, device.h2d_bytes_per_s));
    out_alone = static_cast<std::uint64_t>(std::max<std::int64_t>(1, device.d2h_bytes_per_s));
    in_both = in_alone;
    out_both = out_alone;
    const uint128 sum = uint128(in_alone) + out_alone;
    if (sum > uint128(static_cast<std::uint64_t>(device.duplex_bytes_per_s))) {
        coupled = true;
        const auto total = static_cast<std::int64_t>(sum);
        in_both = scaled(static_cast<std::int64_t>(in_alone), device.duplex_bytes_per_s, total);
        out_both = scaled(static_cast<std::int64_t>(out_alone), device.duplex_bytes_per_s, total);
    }
}

SimResult run(const SimProgram& program, const LinkRates& rates, bool detail, int max_iterations) {
    SimResult result;
    if (!program.error.empty()) {
        result.error = program.error;
        return result;
    }
    if (program.ops.empty()) {
        result.ok = true;
    } else {
        result = Machine(program, rates, detail).run(max_iterations);
    }
    for (const auto& op : program.ops) result.compute_ns += op.duration;
    for (const auto& t : program.ins) result.in_bytes += t.bytes;
    for (const auto& t : program.outs) result.out_bytes += t.bytes;
    result.ins = static_cast<std::int32_t>(program.ins.size());
    result.outs = static_cast<std::int32_t>(program.outs.size());
    result.remaps = program.remaps;
    return result;
}

SimResult simulate(const Graph& graph, const Plan& plan, bool detail) {
    return run(compile(graph, plan), LinkRates(graph.device), detail);
}

}  // namespace swapadvisor::planner
