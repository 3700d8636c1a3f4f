// A parallel loop over few and long pieces of work, on oneTBB.
#pragma once

#include <tbb/parallel_for.h>

#include <atomic>
#include <cstddef>

#include "planner/base/effort.h"

namespace swapadvisor::planner {

/// Calls body(i) for each i below `count`, on the threads of the current arena; returns when all calls have.
/// What they cost counts in `effort`.
/// What came before is ordered before every call, and every call before what follows. oneTBB sees to that by
/// itself; it is said once more with an atomic because its library comes without the instrumentation by which
/// ThreadSanitizer would know.
template <class Body>
void in_parallel(Effort& effort, std::size_t count, Body body) {
    std::atomic<std::size_t> order{0};
    order.store(0, std::memory_order_release);
    tbb::parallel_for(
        std::size_t{0}, count,
        [&](std::size_t i) {
            order.fetch_add(1, std::memory_order_acq_rel);
            {
                const Effort::Share share(effort);
                body(i);
            }
            order.fetch_add(1, std::memory_order_acq_rel);
        },
        tbb::simple_partitioner());
    static_cast<void>(order.load(std::memory_order_acquire));
}

}  // namespace swapadvisor::planner
