// How long ops take on the device, from pairs of events around them: for where CUPTI is not. Used in the
// warm-up only.
//
// Callers: one at a time (the runtime's lock), with the program's context current. begin() comes right before
// the real call, after anything that the op has to wait for; end() right after it. Never on a stream that is
// being captured. Nothing here blocks or synchronises; the results of the program do not change. When all
// pairs are in flight, ops go unmeasured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replayer/driver_api.h"

namespace swapadvisor {

class Recorder;

class EventTimer {
  public:
    explicit EventTimer(const DriverApi& api, std::size_t max_pairs = 4096)
        : api_(api), max_pairs_(max_pairs) {}
    ~EventTimer() = default;  // events go with their context
    EventTimer(const EventTimer&) = delete;
    EventTimer& operator=(const EventTimer&) = delete;

    void set_enabled(bool enabled) { enabled_ = enabled; }
    bool enabled() const { return enabled_; }

    /// False: this op is not measured, do not call end().
    bool begin(CUstream stream);
    /// `seq`: the op's number from Recorder::op(). Ops on other streams may have begun in between.
    void end(CUstream stream, std::uint64_t seq);
    /// The real call failed: forget the begin.
    void cancel(CUstream stream);
    /// Hands over the durations of all ops that are done. Does not wait.
    void poll(Recorder& recorder);
    /// Pairs in flight.
    std::size_t pending() const { return in_flight_.size() - first_in_flight_; }
    /// The context is gone and its events with it: forget them without a call.
    void forget_context();
    /// Destroys the idle events (the context still stands).
    void release_events();

  private:
    struct Pair {
        CUevent start = nullptr, stop = nullptr;
    };
    struct Begun {
        CUstream stream;
        std::uint32_t pair;
    };
    struct InFlight {
        std::uint64_t seq;
        std::uint32_t pair;
    };
    bool take_pair(std::uint32_t& pair);

    const DriverApi& api_;
    std::size_t max_pairs_;
    bool enabled_ = true;
    std::vector<Pair> pairs_;
    std::vector<std::uint32_t> free_;
    std::vector<Begun> begun_;
    std::vector<InFlight> in_flight_;  // FIFO from first_in_flight_
    std::size_t first_in_flight_ = 0;
};

}  // namespace swapadvisor
