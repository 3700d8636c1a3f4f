// Decides, for one context, between on demand and plans: finds out where the program is, has plans made in
// the background for the iterations that the recorder finds, installs them at boundaries, and leaves them
// when the program does.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "interpose/content_sampler.h"
#include "recorder/op_timer.h"
#include "recorder/recorder.h"
#include "recorder/timing_need.h"
#include "replayer/plan_switch.h"
#include "replayer/residency.h"

namespace swapadvisor {

struct RuntimeState;
struct ManagedContext;

class PlanDirector {
  public:
    PlanDirector(RuntimeState& state, ManagedContext& managed);
    ~PlanDirector();

    // --- under the runtime's lock
    // -----------------------------------------------------------------------------------
    PlanSwitch& steering() { return switch_; }
    void before_op(const OpView& view, std::vector<BufferUse>& uses);
    void after_op(Mark mark);
    /// Looks at what kernels change; null unless asked for. Between before_op() and after_op().
    ContentSampler* sampler() { return sampling_ ? &sampler_ : nullptr; }
    /// Around every op: how long it takes, and how long its stream waits for copies before it.
    OpTimer& timer() { return timer_; }
    /// Takes in all measurements that are there. At exit nothing else would fetch those of the last
    /// iterations.
    void poll_timings();
    std::uint64_t next_seq() const { return next_seq_; }
    const SwitchCounts& counts() const { return switch_.counts(); }
    bool planned() const { return switch_.planned(); }
    /// The followed plan's file; empty: one of the run's own search, or none.
    const std::string& plan_file() const { return plan_file_; }
    std::int64_t infinite_ns() const { return infinite_ns_; }  ///< the ops of an iteration alone
    std::int64_t lower_bound_ns() const { return lower_bound_ns_.load(); }
    std::int64_t measured_ns() const { return measured_ns_; }  ///< newest iteration, device time

    /// Ends the background thread (waits for it).
    void stop();

  private:
    struct Job {
        std::shared_ptr<const IterationScript> script;
        std::int64_t limit_bytes = 0;
        std::int64_t reserve_bytes = 0;  ///< what the limit could be raised by
        bool again = false;              ///< a former plan did not fit
        DeviceModel model;
    };
    struct Ready {
        std::shared_ptr<const PlanScript> plan;
        std::int64_t infinite_ns = -1;
        int gain_percent = 3;
        bool from_file = false;
    };

    std::int64_t room() const;  ///< device memory that a plan may use
    bool requested(std::uint64_t signature) const;
    void look_at_recorder();
    void choose_timing();
    void request();
    void submit(std::shared_ptr<const IterationScript> script, bool again = false);
    void plan_again();
    void note_search();
    void note_better(std::int64_t predicted_ns);
    void end_idle_search();
    void collect_ready();
    void end_if_misfit();
    void time_boundary(CUstream stream);
    void read_boundaries();
    void note_measured(std::int64_t ns);
    void work();
    void run_job(const Job& job);

    RuntimeState& state_;
    ManagedContext& managed_;
    Residency& residency_;
    PlanSwitch switch_;
    OpTimer timer_;
    TimingNeed timing_need_;
    ContentSampler sampler_;
    bool sampling_ = false;  ///< the op in progress is looked at
    std::uint64_t next_seq_ = 0;
    std::uint64_t seen_version_ = 0;
    std::uint64_t plan_signature_ = 0;   ///< of the iteration to plan for next; 0: none
    std::uint64_t plan_at_seq_ = ~0ull;  ///< when its timings will have come in
    int timings_awaited_ = 0;
    std::vector<std::uint64_t> requested_;  ///< signatures
    std::vector<std::uint64_t> outgrown_;   ///< signatures whose plan has to be made again, for less room
    std::uint64_t reserve_pages_ = 0;       ///< left to small allocations that are still to come
    std::int64_t infinite_ns_ = -1, measured_ns_ = -1;
    std::string plan_file_;
    /// How an iteration is served. What a plan takes while it settles says nothing of either.
    enum class Serving { on_demand, settling, planned };
    struct Boundary {
        CUevent event;
        std::uint64_t seq;
        std::uint64_t installs;  ///< plans installed before it
        Serving serving;
    };
    std::deque<Boundary> boundaries_;
    Serving serving() const;

    std::mutex mutex_;  ///< guards what follows
    std::condition_variable wake_;
    std::thread thread_;
    std::vector<Job> jobs_;
    std::vector<Ready> ready_;
    std::string misfit_;         ///< why the plan file is not for this program
    std::uint64_t running_ = 0;  ///< signature of the job in progress
    bool discard_ = false;       ///< what the job in progress finds is of no use any more
    std::int64_t noted_ns_ = 0;  ///< prediction of the plan that was the last clear gain
    std::chrono::steady_clock::time_point search_began_, noted_at_;
    std::atomic<bool> any_ready_{false};
    std::atomic<std::int64_t> lower_bound_ns_{-1};
    std::uint64_t bound_signature_ = 0;  ///< of the iteration that it is of; the background thread's own
    std::atomic<bool> stopping_{false};
    std::atomic<bool> end_job_{false};  ///< the job in progress should come to its end
};

}  // namespace swapadvisor
