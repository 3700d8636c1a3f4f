// What a program's records add up to besides its iteration: what it held, at its peak and by call site; which
// loop was its main one; what was swapped and how long compute waited. Shared by the readers of traces and
// the live recorder, so that the report at exit says what the report of the trace does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "recorder/export.h"
#include "recorder/flat_map.h"
#include "recorder/history.h"
#include "recorder/iteration.h"
#include "recorder/iteration_finder.h"
#include "recorder/iteration_report.h"
#include "recorder/report_model.h"
#include "recorder/run_course.h"

namespace swapadvisor {

class RunSummary {
  public:
    /// Listens to the finder's ends of loops. `history`: swaps and stalls remembered, a power of two.
    RunSummary(IterationFinder& finder, std::size_t history);
    RunSummary(const RunSummary&) = delete;
    RunSummary& operator=(const RunSummary&) = delete;

    /// After the finder was fed the same record.
    void record(const std::uint64_t* words);

    std::size_t live_buffers() const { return live_buffers_; }
    std::uint64_t allocations() const { return allocations_; }

    /// The main loop: of all loops the one with the most ops times bytes, the one in force counted up to now.
    /// Null: nothing repeats. `instances`: of it, about.
    std::shared_ptr<const Iteration> main_loop(std::int64_t& instances);
    /// All that the model can know from records; the device must be in it already. `names` names sites too.
    void fill(ReportModel& model, const Iteration* iteration, std::int64_t instances,
              const GraphNames& names);

  private:
    struct SiteTotal {
        std::int64_t buffers = 0, bytes = 0;
    };
    struct SwapSeen {
        BufferId buffer = kNoBuffer;
        std::int64_t bytes = 0;
        std::uint64_t seq = 0;
        SwapKind kind = SwapKind::in;
    };
    struct StallSeen {
        std::uint64_t seq = 0;
        std::int64_t ns = 0;
    };
    struct Escaped {
        std::int64_t bytes = 0;
        std::uint64_t site = 0;
        std::string reason;
    };
    struct Loop {
        std::shared_ptr<Iteration> newest;
        std::uint64_t ops = 0;
    };

    void follow_events();
    static bool is_page(const BufferHistory& buffer);
    void allocated(BufferSlot slot);
    void released(BufferSlot slot);
    void escape(const std::uint64_t* words);
    void swap(const std::uint64_t* words);
    void figure(const std::uint64_t* words);
    void note_peak();
    void loop_ended(const std::shared_ptr<Iteration>& newest, std::uint64_t ops);
    static double weight(const Loop& loop);
    IterationTraffic traffic_of(const Iteration& iteration, bool& stalls_known) const;
    void fill_peak(ReportModel& model, const GraphNames& names) const;
    void fill_unmovable(ReportModel& model, const GraphNames& names) const;

    IterationFinder& finder_;
    std::uint64_t next_event_ = 0;     // of the finder's history
    std::vector<std::uint8_t> state_;  // by slot of the history: kAnnounced, kAbsent
    static constexpr std::uint8_t kAnnounced = 1, kAbsent = 2;
    std::size_t live_buffers_ = 0;
    FlatMap<SiteTotal> by_site_, at_peak_;
    std::int64_t live_bytes_ = 0, peak_bytes_ = 0, absent_bytes_ = 0, peak_resident_ = 0;
    std::uint64_t peak_seq_ = 0, allocations_ = 0;
    bool peak_is_noted_ = true;
    std::map<BufferId, Escaped> escaped_;
    Ring<SwapSeen> swaps_;
    Ring<StallSeen> stalls_;
    Ring<std::uint64_t> host_ns_;
    std::int64_t in_total_ = 0, out_total_ = 0, drops_ = 0;
    std::int64_t predicted_ns_ = kUnknown, measured_ns_ = kUnknown, lower_bound_ns_ = kUnknown;
    bool any_swap_ = false;
    std::map<std::uint64_t, Loop> loops_;
    RunCourse course_;
};

}  // namespace swapadvisor
