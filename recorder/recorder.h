// The live recorder: the runtime tells it what the program does, it finds the iteration and writes the trace.
//
// Callers: one at a time (the runtime's lock), in program order. The calls marked [hot] only append to a
// preallocated ring: no allocation, system call, log or lock. A thread of the recorder's own, started at the
// first event, drains the ring into the iteration finder and the trace writer; it makes no CUDA call. When
// the ring is full the caller waits: memory is bounded and nothing is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "recorder/device_model.h"
#include "recorder/iteration.h"
#include "recorder/op.h"
#include "recorder/record.h"

namespace swapadvisor {

struct ReportModel;
enum class SwapKind : std::uint8_t { in, out, drop };

class Recorder {
  public:
    struct Options {
        std::string trace_path;        ///< "": no trace file
        std::string program;           ///< for the trace's header
        DeviceModel device;            ///< for the trace's header; may be given later by set_device()
        std::int64_t limit_bytes = 0;  ///< 0: none
        bool synchronous = false;      ///< no thread: each call does all the work itself (tests, tools)
        std::size_t ring_bytes = std::size_t{4} << 20;
    };
    explicit Recorder(Options options);
    ~Recorder();  ///< close()
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    // --- what the program does
    // ----------------------------------------------------------------------------------
    /// `paged`: a small one lies in a page, a large one is a page of small ones (replayer/residency_pages.cpp).
    void allocate(BufferId buffer, std::int64_t bytes, bool small, std::uint64_t site, void* stream,
                  bool paged = false);   ///< [hot]
    void release(BufferId buffer);       ///< [hot]
    std::uint64_t op(const OpView& op);  ///< [hot] its sequence number: 0, 1, 2, ...
    /// How long the op took on the device, once known. Late answers are fine.
    void op_duration(std::uint64_t seq, std::int64_t ns);  ///< [hot]
    /// The contents of what touch `touch` of op `seq` names were the same before and after it, or not.
    void content(std::uint64_t seq, std::uint32_t touch, bool changed);
    /// The program's own statement that an iteration ends here. From the second on, marks alone define
    /// iterations.
    void mark();  ///< [hot]
    void escaped(BufferId buffer, const char* reason);

    // --- what the runtime does about it (trace and reports only)
    // ------------------------------------------------
    /// A swap that was issued before op `seq`. `planned`: by the plan, else on demand.
    void swap(BufferId buffer, SwapKind kind, std::int64_t bytes, std::uint64_t seq,
              bool planned);  ///< [hot]
    /// How long compute waited for copies before op `seq`.
    void stall(std::uint64_t seq, std::int64_t ns);  ///< [hot]
    /// A figure of one iteration of the loop that the program is in.
    void figure(FigureKind kind, std::int64_t ns);  ///< [hot]

    // --- names
    // --------------------------------------------------------------------------------------------------
    /// Once per function, before or after its first op. Mangled names are fine.
    void name_function(std::uint64_t function, std::string_view name);
    std::string function_name(std::uint64_t function) const;  ///< demangled; "" if unknown
    void name_buffer(BufferId buffer, std::string_view name);
    /// Of a site that capture_site() did not give: what describe_site() would say.
    void name_site(std::uint64_t site, std::string_view text);
    void set_device(const DeviceModel& device, std::int64_t limit_bytes);

    // --- the iteration
    // ------------------------------------------------------------------------------------------
    /// Changes whenever steady() does; one relaxed load. 0: nothing found yet.
    std::uint64_t version() const;  ///< [hot]
    /// The steady state, or null. Given anew (same signature) when the program comes back to it after
    /// something else, and with a different signature when it settles in another loop.
    std::shared_ptr<const Iteration> steady() const;
    /// Whole instances of steady() seen so far.
    std::uint64_t instances() const;
    /// While there is none: in words, why.
    std::string why_none();
    /// As steady(), with the durations known by now: for a caller that waited for timings.
    std::shared_ptr<const Iteration> steady_with_durations();

    /// Fills in what the report of a trace would say up to here: peak by call site, the main iteration op by
    /// op, swaps, stalls, what could not be moved. model.device must be known. For the end of the program:
    /// the loop in force counts as ended.
    void fill_report(ReportModel& model);

    /// The trace file's name, "" if there is none.
    std::string trace_path() const;
    /// "" or one line: why the trace could not be written (in full).
    std::string trace_error() const;

    // --- ends
    // ---------------------------------------------------------------------------------------------------
    void flush();  ///< waits until everything said so far is processed (not: on disk)
    void close();  ///< flush, finish the trace file, stop the thread. Idempotent. Later calls are ignored.
    /// In a forked child: forget the thread and the file without touching either. Later calls are ignored.
    void abandon_after_fork();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace swapadvisor
