// Lower bounds on the steady-state period of any valid plan that keeps the graph's program order, and the
// least memory the graph can run in at all. Independent of every planner. docs: bound.cpp says why each bound
// is valid. A plan that changes the order of ops may beat the traffic and timed bounds (never the compute
// bound).
#pragma once

#include <cstdint>
#include <string>

#include "planner/model/graph.h"

namespace swapadvisor::planner {

struct BoundOptions {
    std::int64_t limit_bytes = 0;
    bool timed = true;    ///< false: stop at the traffic bound
    double seconds = 60;  ///< stop tightening after this long; what is reached by then is valid
};

/// For reports: what comes in a fraction of a second, the same every time. (Of large graphs the timed bound
/// would be cut short, here or there.)
inline BoundOptions quick_bound(const Graph& graph, std::int64_t limit_bytes) {
    constexpr std::size_t kSmall = 600;
    return {limit_bytes, true, graph.ops.size() <= kSmall ? 5.0 : 0.0};
}

struct Bounds {
    std::int64_t compute_ns = 0;  ///< sum of durations: the period with infinite memory
    std::int64_t traffic_ns = 0;  ///< the least traffic that the limit forces, at full rate (0: none)
    std::int64_t timed_ns = 0;    ///< compute plus the stalls that transfers force (0: not computed)
    std::int64_t in_bytes = 0,
                 out_bytes = 0;  ///< of the traffic bound's solution: about what a plan must copy
    std::string note;            ///< what was simplified, "" if nothing

    std::int64_t best_ns() const;
    const char* best_name() const;  ///< "compute", "traffic" or "timed"
};

/// Throws PlanError if the graph cannot run in the limit at all.
Bounds bound(const Graph& graph, const BoundOptions& options);

/// The largest working set of one op, in bytes (any order, any plan): no limit below it can work. A limit of
/// this size plus what chunks round up is enough for tensors placed anywhere (placements need not be
/// contiguous).
std::int64_t least_memory_bytes(const Graph& graph);

/// The most that is live at once in program order: with this limit nothing needs to move. Persistent tensors
/// always count.
std::int64_t peak_memory_bytes(const Graph& graph);

}  // namespace swapadvisor::planner
