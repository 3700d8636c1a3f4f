// The swap planner: from an order of ops and a choice per gap (keep or evict) to the swaps, in two steps.
//
// stays():    what the choices mean: when each tensor is resident, in positions of the order. Pure logic, no
// time. dispatch(): runs the machine of simulator.h with free choice at every moment and so fixes what the
// choices leave
//             open: when each write-back goes out (as soon as the last write before the eviction is done and
//             the out queue is idle, the one whose memory is wanted first first), and how early each `in` may
//             start (in order of need, as soon as memory is free and no op before its need would lack memory
//             for it). Passes repeat until the iteration closes on itself.
//
// Memory is counted in units of each region here, without places; placement.h gives the places.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/problem/setting.h"

namespace swapadvisor::planner {

/// One residency of a tensor. Positions are those of the order; n = number of ops.
struct Stay {
    TensorId tensor = 0;
    std::int32_t units = 0;  ///< of its region
    std::uint16_t region = 0;
    std::int32_t begin =
        0;  ///< birth: position; `in`: position that needs it (n: the next iteration); initial: 0
    std::int32_t end = 0;  ///< last position that uses it here; n: stays into the next iteration
    std::int32_t release =
        0;  ///< position after which it is released (end, or later when evicted on demand); n likewise
    std::int32_t save_after = -1;  ///< write back once the op there is done; -1: nothing to write back
    bool birth = false, by_in = false, initial = false;
    bool dead = false;  ///< its release is a `free`
    bool waits_last_iteration =
        false;  ///< initial, released here, written back by `save` of the stay before the boundary
    std::int32_t partner =
        -1;  ///< initial and not end == n: the stay that ends with n (and the other way round)
};

struct SwapOptions {
    bool prefetch = true;    ///< false: `in` starts when the op before the need is done
    bool early_save = true;  ///< false: nothing leaves before its release
    /// Position after which an evicted tensor leaves, by use number that opens the gap; empty: at once.
    std::span<const std::int32_t> release_at;
};

/// All stays of the pool tensors, those of one tensor adjacent and in order of time.
void stays(const Setting& setting, std::span<const GapChoice> choice, const SwapOptions& options,
           std::vector<Stay>& into);

/// What dispatch() decides and measures. Times in ns, relative to the end of the iteration before. Takes and
/// releases of chunks, and op starts, are numbered in the order in which they happen; a release that belongs
/// to the iteration before is marked as `wraps` (it happens early in the next iteration).
struct Dispatch {
    bool ok = false;
    std::int32_t overfull = -1;            ///< position at which the stays alone exceed the pool, if any
    std::int64_t period_ns = 0;            ///< estimate; the simulator has the last word
    std::vector<std::int32_t> in_order;    ///< stays by `in`, queue order
    std::vector<std::int32_t> out_order;   ///< stays with a write-back, queue order
    std::vector<std::int64_t> op_start;    ///< by position
    std::vector<std::int32_t> op_event;    ///< by position: number of its start
    std::vector<std::int64_t> event_time;  ///< by number
    std::vector<std::int32_t> take_event, release_event;  ///< per stay; -1: not in this iteration
    std::vector<std::uint8_t> wraps;             ///< per stay: its release is that of the iteration before
    std::vector<std::int64_t> in_start, in_end;  ///< per stay by `in`
    std::vector<std::pair<std::int64_t, std::int64_t>>
        out_busy;                                       ///< spans of the out queue's transfers, in order
    std::int64_t stall_in_ns = 0, stall_memory_ns = 0;  ///< compute idle for an `in`; for chunks
};

class Dispatcher {
  public:
    /// Reuses its buffers between calls; one Dispatcher per thread. `passes`: iterations run (the last is
    /// recorded).
    void run(const Setting& setting, std::span<const Stay> stays, const SwapOptions& options, int passes,
             Dispatch& result);

  private:
    struct Pass;
    struct Birth {
        std::uint16_t region;
        std::int32_t units;
    };
    std::vector<std::int32_t> base_usage_, usage_;  // [region * (ops + 1) + position]
    std::vector<std::int32_t> births_at_, release_at_, release_list_, save_at_, save_list_, ins_needed_,
        fill_;
    std::vector<Birth> births_;
};

}  // namespace swapadvisor::planner
