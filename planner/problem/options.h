// What a caller may ask of the planner. Sizes in bytes, times in seconds unless named otherwise. Plain values.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "planner/base/effort.h"
#include "planner/model/plan.h"

namespace swapadvisor::planner {

struct PlanOptions {
    std::string planner = "ga";    ///< ga, fast, lru, belady, belady-prefetch
    std::int64_t limit_bytes = 0;  ///< device memory the plan may use, arena included
    std::int64_t chunk_bytes = 0;  ///< 0: chosen by the planner (2 MiB multiples for plans that will run)
    std::int64_t arena_below_bytes =
        0;  ///< tensors smaller than this always go to the arena (runtime: 1 MiB)
    bool choose_arena =
        true;  ///< the arena may take larger tensors too, where that wins (not in plans that will run)
    double seconds = 10;           ///< search budget, of the clock
    double processor_seconds = 0;  ///< likewise, of all processors together; 0: only the clock counts
    int threads = 0;               ///< 0: all
    std::uint64_t seed = 1;
    bool reorder = true;
    bool no_remaps = false;  ///< true: every tensor keeps one place for good, or PlanError
    int generations = 0;     ///< search: stop after so many (0: when time is up); same result on any machine
    // What the search may change (for comparison; all by default). `reorder` is the order of ops.
    bool vary_allocation = true;   ///< size classes and their slots
    bool vary_swaps = true;        ///< which gaps are evicted, beyond what the simple ranks say
    bool guided = true;            ///< seeds from the lower bound's linear programme as well
    bool genetic = true;           ///< false: local search from the seeds alone, no populations, no crossover
    std::int64_t bound_ns = 0;     ///< a known lower bound: the search stops when it gets there
    std::string classes = "ours";  ///< or "paper": strict same-class reuse
    std::function<void(const Plan& best, Spent)> on_better;  ///< called from one thread at a time
    const std::atomic<bool>* cancel = nullptr;

    bool cancelled() const { return cancel && cancel->load(std::memory_order_relaxed); }
    /// Cancelled, or `part` of the budget is spent, where time counts.
    bool over(const Spent& spent, double part = 1) const {
        return cancelled() ||
               (generations <= 0 &&
                (spent.seconds >= part * seconds ||
                 (processor_seconds > 0 && spent.processor_seconds >= part * processor_seconds)));
    }
};

}  // namespace swapadvisor::planner
