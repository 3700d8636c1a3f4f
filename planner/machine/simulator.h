// The machine that a plan describes, as fast as a search needs it: three first-in-first-out queues (compute,
// out, in), duplex-limited transfers, chunk occupancy, cyclic iterations. checker.h judges the same plans
// slowly and obviously; both follow the rule below to the nanosecond.
//
// Transfers. A transfer that starts at s spends [s, s + latency) moving nothing, then moves. Remaining work
// is counted in bytes * 10^9; during dt ns at rate r (bytes/s) it shrinks by r * dt. Alone, a direction has
// its own rate. While both move, each keeps its rate if h2d + d2h <= duplex, else it has floor(rate * duplex
// / (h2d + d2h)), at least 1. A transfer ends at the first whole nanosecond at which nothing remains; rates
// change at whole nanoseconds only. Transfers of zero bytes end with their latency and never count as moving.
//
// Starts. A queue's head starts at the earliest time at which its queue is idle and its conditions hold; what
// ends at t is done at t.
//
// The host. An op starts no earlier than the host has issued it: `issue_ns` after its last wait ended, which is when
// the ops before the one that waits are done (before the first wait: 0).
//
// Period. Iterations follow each other in the queues; iteration 0 starts at 0 with everything before it done.
// E_k is the end of iteration k's last op. The state at E_k (before any further start) is: transfers done in
// each direction relative to k, what remains of those in flight, and the time since the host last waited. At the first k >= 1 whose state equals
// that of a j in [k - 8, k - 1] (nearest first) the period is ceil((E_k - E_j) / (k - j)); if none does by k
// = 63 it is ceil((E_63 - E_31) / 32).
//
// Why counters are enough: every queue is first in, first out, so "these transfers and ops are done" is three
// numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/machine/host_pace.h"
#include "planner/model/graph.h"
#include "planner/model/plan.h"

namespace swapadvisor::planner {

struct SimResult {
    bool ok = false;
    std::string error;                         ///< why not, when !ok (a plan that waits for itself, ...)
    std::int64_t period_ns = 0;                ///< of one steady-state iteration
    std::int64_t compute_ns = 0;               ///< sum of the ops' durations
    std::int64_t out_bytes = 0, in_bytes = 0;  ///< per iteration
    std::int32_t outs = 0, ins = 0;
    std::int32_t remaps = 0;  ///< `in`s whose place differs from where the tensor was last
    // One steady iteration, times relative to the end of the iteration before it (filled when asked for):
    std::vector<std::int64_t> op_start, op_stall;  ///< by position; stall = start - end of the op before
    std::vector<std::int64_t> in_start, in_end;    ///< by place in the in queue
    std::vector<std::int64_t> out_start, out_end;  ///< by place in the out queue
};

/// The rates of a transfer: alone and while the other direction moves too.
struct LinkRates {
    std::uint64_t in_alone = 1, out_alone = 1, in_both = 1, out_both = 1;
    bool coupled = false;  ///< the directions slow each other
    explicit LinkRates(const Device& device);
};

/// A plan reduced to counters: what each queue entry waits for. Counts are "done in total" of one iteration's
/// entries; zero or below reaches into the iteration before.
struct SimProgram {
    struct Compute {
        std::int64_t duration = 0;
        std::int32_t need_ins = INT32_MIN, need_outs = INT32_MIN;
    };
    struct Transfer {
        std::int64_t bytes = 0;
        std::int32_t need_ops = 0;            ///< ops done
        std::int32_t need_other = INT32_MIN;  ///< transfers of the other direction done
    };
    std::vector<Compute> ops;
    std::vector<Transfer> ins, outs;
    HostPace host;
    std::int64_t latency = 0;
    std::int32_t remaps = 0;
    std::string error;  ///< not empty: the plan makes no sense (use the checker to learn more)
};

/// Compiles `plan`. Assumes a plan that the checker accepts; notices most others.
SimProgram compile(const Graph& graph, const Plan& plan);

/// Runs a compiled plan to its steady state. `max_iterations` below 64 trades exactness for time in a search.
SimResult run(const SimProgram& program, const LinkRates& rates, bool detail = false,
              int max_iterations = 64);

/// compile + run.
SimResult simulate(const Graph& graph, const Plan& plan, bool detail = false);

}  // namespace swapadvisor::planner
