// The dataflow graph of one training iteration: the planner's input ("swapadvisor-graph" version 1).
// Sizes in bytes, times in nanoseconds, rates in bytes per second. Ids are indices.
// Plain values: copy freely, share const across threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace swapadvisor::planner {

using TensorId = std::int32_t;
using OpId = std::int32_t;

struct Tensor {
    std::int64_t bytes = 0;
    bool persistent = false;  ///< lives across iterations: weights, optimiser state
    std::string name;         ///< optional
    std::string site;         ///< optional call site of the allocation
};

struct Op {
    std::string name;
    std::int64_t duration_ns = 0;
    std::vector<TensorId> reads;  ///< in place = in reads and writes
    std::vector<TensorId> writes;
    std::int64_t stream = 0;  ///< optional
    std::vector<OpId> after;  ///< ops it must follow beyond its data hazards
    // What a launch window allows (all optional).
    std::int64_t keeps_order = -1;  ///< group within which ops keep program order; -1: none
    std::int64_t issue_ns = 0;      ///< the host issues it so long after its last wait
    bool host_waits = false;        ///< before the host issues it, it waits for all ops before it
};

struct Device {
    std::int64_t memory_bytes = 0;
    std::int64_t h2d_bytes_per_s =
        0;  ///< rate of one host-to-device transfer while the other direction is idle
    std::int64_t d2h_bytes_per_s = 0;     ///< likewise, device to host
    std::int64_t duplex_bytes_per_s = 0;  ///< both directions together, both busy
    std::int64_t transfer_latency_ns = 0;
};

struct Graph {
    std::string name;
    std::string source;
    Device device;
    std::vector<Tensor> tensors;
    std::vector<Op> ops;  ///< index = program order
    std::optional<bool>
        may_reorder;    ///< of a graph that plans are to run for: may they change the order of the ops?
    std::string extra;  ///< JSON text of unknown top-level fields, kept as they came ("" if none)
    /// Unknown fields further in: path ("device", "ops[3]") and JSON text. Whoever renumbers clears it.
    std::vector<std::pair<std::string, std::string>> element_extra;
};

}  // namespace swapadvisor::planner
