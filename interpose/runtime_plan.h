// Decides, for one context, between on demand and plans: finds out where the program is, has plans made in the
// background for the iterations that the recorder finds, installs them at boundaries, and leaves them when the program does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "recorder/event_timer.h"
#include "recorder/recorder.h"
#include "replayer/iteration_matcher.h"
#include "replayer/plan_follower.h"
#include "replayer/residency.h"

namespace swapadvisor {

struct RuntimeState;
struct ManagedContext;

class PlanDirector {
  public:
    PlanDirector(RuntimeState& state, ManagedContext& managed);
    ~PlanDirector();

    // --- under the runtime's lock -----------------------------------------------------------------------------------
    std::int32_t expect(std::size_t bytes);       ///< tensor that an allocation stands for, or -1
    void allocated(Buffer& buffer);
    void released(Buffer& buffer);
    void before_op(const OpView& view, const std::vector<BufferUse>& uses);
    void after_op(Mark mark);
    bool time_begin(CUstream stream) { return timer_.enabled() && timer_.begin(stream); }
    void time_end(CUstream stream, std::uint64_t seq, bool issued) {
        if (issued) timer_.end(stream, seq);
        else timer_.cancel(stream);
    }
    std::uint64_t next_seq() const { return next_seq_; }

    /// Ends the background thread (waits for it).
    void stop();

    struct Counts {
        std::uint64_t iterations = 0, planned_iterations = 0, installs = 0, divergences = 0, refused_plans = 0;
        std::int64_t predicted_ns = -1, infinite_ns = -1, measured_ns = -1;
        std::uint64_t in_bytes = 0, out_bytes = 0;   ///< of the newest whole planned (else any) iteration
        std::uint64_t ops_per_iteration = 0;
        std::uint64_t late = 0, left_out = 0, mapping_calls_steady = 0;
        std::uint64_t signature = 0;
        std::string reason;
    };
    const Counts& counts() const { return counts_; }
    bool planned() const { return follower_ != nullptr; }

  private:
    /// An iteration that the program was seen in.
    struct Known {
        std::size_t number = 0;
        std::shared_ptr<const IterationScript> script;
        std::uint64_t signature = 0;
        std::shared_ptr<const PlanScript> best;    ///< what to install
        std::uint64_t best_version = 0;
        std::uint64_t failures = 0;                ///< stamps, for taking turns between look-alikes
        bool requested = false;
        int short_lives = 0;                       ///< installations that did not last one iteration
        bool hopeless = false;                     ///< its plans could not be installed, or never last
    };
    struct Job {
        std::size_t known = 0;
        std::shared_ptr<const Iteration> iteration;
        std::int64_t limit_bytes = 0;
        DeviceModel model;
    };
    struct Ready {
        std::size_t known = 0;
        std::shared_ptr<const PlanScript> script;
        std::int64_t infinite_ns = -1;
    };

    void sync(std::uint64_t key, const std::vector<BufferUse>& uses);
    void lose(const char* why);
    void boundary();
    void look_at_recorder();
    void request(std::size_t known);
    void collect_ready();
    void install(Known& known);
    void left(const char* reason);
    void work();
    void run_job(const Job& job);
    std::uint64_t next_use(const Buffer& buffer) const;
    void time_boundary();

    RuntimeState& state_;
    ManagedContext& managed_;
    Residency& residency_;
    EventTimer timer_;
    std::vector<std::unique_ptr<Known>> known_;
    Known* current_ = nullptr;
    std::unique_ptr<IterationMatcher> matcher_;    ///< null: not in step with anything
    std::unique_ptr<PlanFollower> follower_;
    std::uint64_t installed_version_ = 0;
    std::int32_t position_ = -1;                   ///< of the op in progress
    std::int32_t pending_tensor_ = -1;
    std::uint64_t next_seq_ = 0;
    std::uint64_t seen_version_ = 0;
    std::uint64_t plan_at_seq_ = ~0ull;            ///< when timings will have come in
    std::uint64_t turn_ = 0;
    std::uint64_t bytes_in_before_ = 0, bytes_out_before_ = 0, mapping_before_ = 0;
    bool switching_ = false;
    bool reached_boundary_ = false;                ///< since the plan was installed
    std::uint64_t unsynced_ops_ = 0;
    std::deque<std::pair<CUevent, bool>> boundary_events_;   ///< with: planned
    CUstream boundary_stream_ = nullptr;
    Counts counts_;

    std::mutex mutex_;                             ///< guards what follows
    std::condition_variable wake_;
    std::thread thread_;
    std::vector<Job> jobs_;
    std::vector<Ready> ready_;
    std::atomic<bool> any_ready_{false};
    std::atomic<bool> stopping_{false};
};

}  // namespace swapadvisor
