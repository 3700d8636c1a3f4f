// The discrete-event simulation behind the driver: operations, their dependencies, the engines of each device
// and the virtual clock. Everything here is called with the driver's lock held. Timing rule: a copy spends
// `latency` moving nothing, then moves bytes; while both directions of a device move and h2d + d2h > duplex
// both rates are scaled by duplex / (h2d + d2h), rounded down. Work is counted in whole byte * 1e9 units, so
// that equal programs take equal nanoseconds.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/softgpu/driver/options.h"

struct CUctx_st;
struct CUstream_st;

namespace softgpu {

using Lock = std::unique_lock<std::mutex>;
/// What an operation (or the host) knows to be complete: by stream slot, the last sequence number.
using VectorClock = std::vector<std::uint64_t>;

void join(VectorClock& into, const VectorClock& from);
inline bool knows(const VectorClock& clock, unsigned slot, std::uint64_t sequence) {
    return slot < clock.size() && clock[slot] >= sequence;
}

enum class Engine : std::uint8_t { none, compute, h2d, d2h };
const char* engine_name(Engine e);

struct Op;
using OpRef = std::shared_ptr<Op>;
using Name = std::shared_ptr<const std::string>;

enum class Resumed : std::uint8_t { ended, advanced, waiting };

/// One stream operation. Ready when all it depends on is done and its gate (if any) is open.
struct Op {
    enum class State : std::uint8_t { waiting, ready, running, done };

    std::uint64_t id = 0;  ///< enqueue order
    Name name;
    int device = 0;
    CUctx_st* context = nullptr;
    std::shared_ptr<CUstream_st> stream;
    Engine engine = Engine::none;
    State state = State::waiting;
    bool quiet =
        false;  ///< bookkeeping (event records, markers): not part of the timeline or the queue bound
    bool low_priority = false;

    Time enqueued = 0, ready = 0, start = 0, end = 0;
    unsigned pending = 0;  ///< operations still to be waited for
    std::vector<OpRef> dependents;

    unsigned slot = 0;  ///< the stream (or graph branch) it belongs to, for vector clocks
    std::uint64_t sequence = 0;
    VectorClock clock;        ///< includes itself
    bool late_clock = false;  ///< learnt something while running: dependents must hear of it
    bool tells_host = false;  ///< its end is seen by host code (host functions)

    std::uint64_t bytes = 0;  ///< of a copy
    Time duration = 0;        ///< engine none/compute; on_start may set it
    double slow_down = 1;     ///< fault: a slow copy
    bool stuck = false;       ///< fault: never ends
    std::function<bool()> gate;
    std::function<void(Op&)> on_start;
    /// Set by on_start: the kernel polls memory that somebody else must write. Takes it up again, to its end
    /// or until it only waits.
    std::function<Resumed(Op&)> resume;
    std::function<void()> host_function;  ///< run on the callback thread, without the driver's lock
    std::function<void(Op&)> on_end;
};

struct EngineUse {
    Time busy = 0;
    std::uint64_t ops = 0, bytes = 0;
};

class Sim {
  public:
    Sim();
    /// `op->enqueued` is set, dependencies that are done are skipped. Nothing runs before the next advance.
    void enqueue(const OpRef& op, const std::vector<OpRef>& after);
    /// Runs everything that happens up to `until`. Does not block on a host function that itself waits for
    /// us.
    void advance(Lock& lock, Time until);
    /// Runs all that can run, whatever the host's time.
    void drain(Lock& lock) { run(lock, kNever, nullptr); }
    /// Runs until `finished()`; waits for other host threads when nothing can run.
    void run_until(Lock& lock, const std::function<bool()>& finished);
    Time now() const { return now_; }
    void add_device();
    const EngineUse& use(int device, Engine e) const {
        return devices_[static_cast<std::size_t>(device)].use[static_cast<int>(e)];
    }
    std::uint64_t undone() const { return undone_; }
    /// Wakes threads in run_until (host memory or queues may have changed).
    void notify() { changed_.notify_all(); }

    std::function<void(const Op&)> on_complete;  ///< statistics, timeline

  private:
    __extension__ using Wide = unsigned __int128;
    struct ByReady {
        bool operator()(const OpRef& a, const OpRef& b) const;
    };
    struct CopyEngine {
        OpRef op;
        Time moving_from = 0;  ///< end of the latency phase
        Wide left = 0;         ///< bytes * 1e9 still to move
        bool moving = false;
    };
    struct DeviceEngines {
        OpRef computing;
        CopyEngine in, out;
        std::set<OpRef, ByReady> queue[4];
        EngineUse use[4];
        Time copies_at = 0;  ///< time to which `left` has been brought
        std::uint64_t rate_in = 0, rate_out = 0;
    };
    struct Event {
        Time time;
        std::uint64_t order;
        OpRef op;
        bool operator>(const Event& o) const { return time != o.time ? time > o.time : order > o.order; }
    };

    bool run(Lock& lock, Time until, const std::function<bool()>* finished);
    Time next_time();
    void process(Time t);
    void post(Time t, const OpRef& op);
    void arrive(const OpRef& op);
    void complete(const OpRef& op);
    void drain_worklist();
    void poll_gates();
    bool resume_waiting();
    void dispatch();
    bool start_copy(DeviceEngines& d, CopyEngine& e, Engine which);
    void settle_copies(DeviceEngines& d, Time t);
    void set_rates(DeviceEngines& d);
    Time copy_event(const DeviceEngines& d, const CopyEngine& e, std::uint64_t rate) const;
    void callback_loop();

    Time now_ = 0;
    std::uint64_t order_ = 0, undone_ = 0;
    std::vector<DeviceEngines> devices_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<OpRef> gated_, finished_;
    std::vector<OpRef> resumable_;  ///< kernels that hold their compute engine and only poll memory
    std::condition_variable changed_, callback_ready_;
    // The host function being run by the callback thread, if any.
    OpRef calling_;
    std::deque<OpRef> calls_;
    bool call_done_ = false, call_overdue_ = false, callback_thread_started_ = false;
};

}  // namespace softgpu
