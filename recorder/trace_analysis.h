// What a trace file says: its iteration, and the model of its report.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "recorder/device_model.h"
#include "recorder/export.h"
#include "recorder/iteration.h"
#include "recorder/report_model.h"

namespace swapadvisor {

struct TraceAnalysis {
    std::string program;
    std::int64_t pid = kUnknown;
    DeviceModel device;
    std::int64_t limit_bytes = kUnknown;
    std::string damage;  ///< "" or one line: the file is good only up to somewhere

    /// The main loop: of all loops the one with the most ops times bytes. Null: nothing repeats.
    std::shared_ptr<const Iteration> iteration;
    std::int64_t instances = 0;  ///< of it, about
    std::uint64_t ops = 0, allocations = 0, events = 0;
    std::int64_t small_peak_bytes =
        0;  ///< small allocations that were live at once, as the runtime packs them

    std::unordered_map<std::uint64_t, std::string> functions, sites, ranges;  ///< functions demangled
    std::unordered_map<BufferId, std::string> buffers;

    ReportModel model;  ///< complete but for lower_bound_ns

    GraphNames names() const;
};

struct AnalysisOptions {
    /// Called now and then with the bytes read and the bytes there are. May be empty.
    std::function<void(std::uint64_t done, std::uint64_t total)> progress;
    /// Makes a call site's text (describe_site()) better to read. May be empty.
    std::function<std::string(const std::string& site)> resolve_site;
};

/// Throws TraceError.
TraceAnalysis analyse_trace(const std::string& path, const AnalysisOptions& options = {});

/// The iteration (not null) as a graph for plans within `limit_bytes` (0: the device's memory) that the
/// runtime can follow: planned_graph_json(). `ideal`: all of it, for plans that only a framework could follow.
std::string trace_graph_json(const TraceAnalysis& trace, std::int64_t limit_bytes, bool ideal);

}  // namespace swapadvisor
