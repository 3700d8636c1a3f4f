// A plan: what the runtime does about a graph ("swapadvisor-plan" version 1). Its meaning, and the machine it
// describes (three FIFO queues, duplex-limited transfers, chunk occupancy, cyclic iteration), are defined by the
// interchange format; planner/format/FORMATS.md.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/model/graph.h"

namespace swapadvisor::planner {

/// `count` chunks of the pool from `first` on.
struct ChunkRange {
    std::int32_t first = 0;
    std::int32_t count = 0;
    bool operator==(const ChunkRange&) const = default;
};
using Placement = std::vector<ChunkRange>;  ///< no chunk twice; together at least the tensor's size

enum class ActionKind : std::uint8_t { alloc, free, save, out, drop, in };

/// `after` / `before` are positions in Plan::schedule (not op ids).
/// alloc: at, before. free/save/out/drop: after. in: at, after (-1 allowed), before (n allowed).
struct Action {
    ActionKind kind = ActionKind::alloc;
    TensorId tensor = 0;
    std::int32_t after = -1;
    std::int32_t before = 0;
    Placement at;
};

struct InitialTensor {
    TensorId tensor = 0;
    Placement at;
};

struct Plan {
    std::string graph;  ///< name of the graph it belongs to
    std::int64_t limit_bytes = 0;
    std::vector<OpId> schedule;
    std::int64_t chunk_bytes = 0;
    std::int32_t chunks = 0;
    std::int64_t arena_bytes = 0;
    std::vector<TensorId> arena;  ///< resident for good, each rounded up to 512 bytes
    std::vector<InitialTensor> initial;
    std::vector<Action> actions;  ///< issue order
    std::int64_t predicted_ns = 0;
    std::string extra;  ///< JSON text of unknown top-level fields, kept as they came
    /// Unknown fields further in: path ("pool", "actions[3]") and JSON text. Whoever edits the lists clears it.
    std::vector<std::pair<std::string, std::string>> element_extra;
};

}  // namespace swapadvisor::planner
