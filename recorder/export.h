// Iterations and traces as graphs of the interchange format.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "recorder/device_model.h"
#include "recorder/iteration.h"

namespace swapadvisor {

struct GraphNames {
    std::string graph;  ///< name of the graph
    std::string source;
    std::function<std::string(std::uint64_t function)> function_name;  ///< may be empty
    std::function<std::string(std::uint64_t site)> site_name;          ///< may be empty
    std::function<std::string(BufferId)> buffer_name;                  ///< may be empty
    std::function<std::string(std::uint64_t range)> range_name;        ///< may be empty
};

/// The graph ("swapadvisor-graph" version 1) of one iteration, as JSON text. Tensor and op ids are the
/// iteration's indices. A tensor whose life wraps the boundary is exported as persistent, since it holds
/// something across it. Ops that were never timed get an estimate from the bytes they touch.
std::string graph_json(const Iteration& iteration, const DeviceModel& device, const GraphNames& names);

// The pieces of it, for reports that must say the same.
const char* op_kind_name(OpKind kind);
/// "" if the program named none.
std::string range_display_name(std::uint64_t range, const GraphNames& names);
std::string op_display_name(const OpRecord& op, const GraphNames& names);
std::string tensor_display_name(const Iteration& iteration, std::size_t index, const GraphNames& names);
std::int64_t op_duration_or_estimate(const Iteration& iteration, const OpRecord& op,
                                     const DeviceModel& device);

/// trace_graph_json() (recorder/trace_analysis.h) of a trace file. Throws std::runtime_error with one line that
/// says what is wrong.
std::string trace_to_graph_json(const std::string& path, std::int64_t limit_bytes = 0, bool ideal = false);

}  // namespace swapadvisor
