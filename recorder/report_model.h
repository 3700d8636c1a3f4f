// All that a report shows, as plain values. Text, JSON and HTML are rendered from this one struct, so they
// agree. Filled from a trace, from a plan, or by the runtime at exit. Bytes and nanoseconds; kUnknown where
// nobody knows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/device_model.h"

namespace swapadvisor {

constexpr std::int64_t kUnknown = -1;

struct ReportModel {
    // --- the runtime fills these at exit
    // ------------------------------------------------------------------------
    std::string source;   ///< "run", "trace" or "plan"
    std::string program;  ///< command line, or the name of the graph
    std::int64_t pid = kUnknown;
    std::int64_t rank = kUnknown;
    DeviceModel device;
    std::int64_t limit_bytes = kUnknown;
    std::int64_t peak_bytes = kUnknown;           ///< what the program held at most (its own view of memory)
    std::int64_t peak_resident_bytes = kUnknown;  ///< what of it was on the device at most
    std::int64_t pinned_bytes = kUnknown;         ///< host memory taken for copies, at most
    std::string mode;  ///< "all resident", "on demand", "planned", "mixed", "unmanaged"
    std::string
        mode_reason;    ///< why, where it is not obvious ("no iteration found", "plan of signature ...")
    std::string ended;  ///< how, if not by its own end: "by SIGTERM in iteration 929"; empty: it did
    std::string plan;   ///< whose plan was followed: a file's name, or "own search"; empty: none was

    std::int64_t iterations = kUnknown;          ///< seen
    std::int64_t planned_iterations = kUnknown;  ///< of them followed a plan to the end
    std::int64_t ops_per_iteration = kUnknown;
    std::int64_t measured_ns_per_iteration = kUnknown;  ///< steady state
    std::int64_t host_ns_per_iteration = kUnknown;      ///< by the host's clock, where recorded
    std::int64_t infinite_ns_per_iteration = kUnknown;  ///< ops alone: no limit
    std::int64_t lower_bound_ns = kUnknown;             ///< no plan at this limit can be faster
    std::int64_t predicted_ns = kUnknown;               ///< the plan's own figure
    std::int64_t in_bytes_per_iteration = kUnknown;     ///< host to device, swaps only, steady state
    std::int64_t out_bytes_per_iteration = kUnknown;
    std::int64_t in_bytes_total = kUnknown;
    std::int64_t out_bytes_total = kUnknown;
    std::int64_t stall_ns_per_iteration = kUnknown;  ///< compute waiting for copies

    std::int64_t divergences = kUnknown;    ///< the program left the plan
    std::int64_t strict_faults = kUnknown;  ///< uses the recorder had missed
    std::int64_t remaps = kUnknown;         ///< mapping calls in steady state
    std::int64_t clean_drops = kUnknown;

    struct Count {
        std::string what;
        std::int64_t count = 0;
        bool operator==(const Count&) const = default;
    };
    std::vector<Count> fallbacks;  ///< served in a simpler way, by reason

    struct Unmovable {
        std::string site;  ///< of the allocation ("" unknown)
        std::string reason;
        std::int64_t buffers = 0;
        std::int64_t bytes = 0;
        bool operator==(const Unmovable&) const = default;
    };
    std::vector<Unmovable> unmovable;

    std::vector<std::string> notes;  ///< whole sentences, shown as they are

    // --- one iteration in detail (from a trace or a plan; the runtime may leave them empty)
    // ----------------------
    struct PeakEntry {
        std::string site;
        std::int64_t buffers = 0;
        std::int64_t bytes = 0;
        bool persistent = false;
        bool operator==(const PeakEntry&) const = default;
    };
    std::vector<PeakEntry> peak;      ///< what was live at the peak, biggest first
    std::int64_t peak_op = kUnknown;  ///< op of the iteration at which the peak is
    std::string peak_op_name;

    struct OpRow {
        std::int64_t op = 0;  ///< index in the iteration
        std::string name;
        std::string site;
        std::int64_t stream = 0;
        std::int64_t start_ns = kUnknown;  ///< from the start of the iteration
        std::int64_t duration_ns = 0;
        std::int64_t touched_bytes = 0;
        std::int64_t in_bytes = 0;   ///< swapped in for it
        std::int64_t out_bytes = 0;  ///< swapped out to make room for it
        std::int64_t stall_ns = 0;
        bool operator==(const OpRow&) const = default;
    };
    std::vector<OpRow> ops;

    struct BufferRow {
        std::int64_t tensor = 0;
        std::string name;
        std::string site;
        std::int64_t bytes = 0;
        bool persistent = false;
        bool page = false;         ///< holds small buffers, which are rows of their own
        std::int64_t born_ns = 0;        ///< persistent: 0
        std::int64_t dead_ns = 0;        ///< persistent: end of the iteration
        std::vector<std::int64_t> uses;  ///< ops that touch it, rising; of very many the first
        bool operator==(const BufferRow&) const = default;
    };
    std::vector<BufferRow> buffers;

    struct SwapRow {
        std::int64_t tensor = kUnknown;  ///< unknown: not used in the iteration
        std::string name;
        std::string kind;  ///< "in", "out", "save"
        std::int64_t bytes = 0;
        std::int64_t start_ns = 0;
        std::int64_t end_ns = 0;
        std::int64_t after_op = kUnknown;   ///< may start once this op is done
        std::int64_t before_op = kUnknown;  ///< done before this op starts
        bool operator==(const SwapRow&) const = default;
    };
    std::vector<SwapRow> swaps;

    struct Sample {
        std::int64_t ns = 0;  ///< from the start of the iteration
        std::int64_t live_bytes = 0;
        std::int64_t resident_bytes = 0;
        std::int64_t swapped_bytes = 0;  ///< live, not resident
        std::int64_t pinned_bytes = 0;
        bool operator==(const Sample&) const = default;
    };
    std::vector<Sample> timeline;

    struct StallRow {
        std::int64_t op = 0;
        std::int64_t stall_ns = 0;
        std::int64_t tensor = kUnknown;  ///< whose copy it waits for
        std::string cause;               ///< "bus", "room", "no earlier chance", "on demand", "unknown"
        std::string why;                 ///< which copy, and why it is late
        std::string remedy;              ///< what would remove it
        bool operator==(const StallRow&) const = default;
    };
    std::vector<StallRow> stalls;  ///< explain_stalls() (recorder/report_stalls.h), longest first

    // --- the whole run, from its first op to its last
    // ----------------------------------------------------------------------------
    struct RunSample {
        std::int64_t ops = 0;     ///< that it covers
        std::int64_t end_ns = 0;  ///< host's clock, from the first op; 0: not recorded
        std::int64_t least_live_bytes = 0;
        std::int64_t most_live_bytes = 0;
        std::int64_t most_resident_bytes = 0;
        std::int64_t in_bytes = 0, out_bytes = 0;  ///< copied in the meantime
        std::int64_t stall_ns = 0;
        bool operator==(const RunSample&) const = default;
    };
    std::vector<RunSample> run;
    std::int64_t plan_began_op = kUnknown;  ///< ops of the run before the first that followed a plan

    struct GrowthRow {
        std::string site;
        std::int64_t from_bytes = 0, to_bytes = 0;  ///< held at least, early on and at the end
        std::int64_t bytes_per_iteration = 0;  ///< 0: no iteration is known
        bool operator==(const GrowthRow&) const = default;
    };
    std::vector<GrowthRow> growing;  ///< call sites that hold more with each iteration, most first

    // --- what if: iteration time against memory, by quick plans
    // --------------------------------------------------------------------
    struct WhatIf {
        std::int64_t limit_bytes = 0;
        std::int64_t period_ns = 0;
        bool operator==(const WhatIf&) const = default;
    };
    std::vector<WhatIf> what_if;                ///< by rising memory
    std::int64_t least_limit_bytes = kUnknown;  ///< no plan runs in less
    std::int64_t enough_bytes = kUnknown;       ///< least limit tried that costs at most 5 %
};

/// A page of text.
std::string report_text(const ReportModel& model);
/// Schema "swapadvisor-report", version 1, units in the names. parse_report_json reads it back.
std::string report_json(const ReportModel& model);

/// Writes the text report to `path` ("-" or "": standard error), and its JSON next to it as `path`.json when
/// `path` names a file. Makes no CUDA call, throws nothing; false when a file could not be written.
bool write_exit_report(const ReportModel& model, const std::string& path) noexcept;

}  // namespace swapadvisor
