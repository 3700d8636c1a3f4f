// How long ops take on the device, and how long each waited for copies, from events around them. Durations
// are measured in the warm-up, where CUPTI is not; stalls of every op that has something to wait for.
//
// Callers: one at a time (the runtime's lock), with the program's context current. arrive() comes before
// anything that the op has to wait for is put into its stream, if there is anything; begin() right before the
// real call; end() right after it. Never on a stream that is being captured. Nothing here blocks or
// synchronises; the results of the program do not change. When all event sets are in flight, ops go
// unmeasured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "recorder/driver_api.h"

namespace swapadvisor {

class Recorder;

class EventTimer {
  public:
    explicit EventTimer(const DriverApi& api, std::size_t max_sets = 4096) : api_(api), max_sets_(max_sets) {}
    ~EventTimer() = default;  // events go with their context
    EventTimer(const EventTimer&) = delete;
    EventTimer& operator=(const EventTimer&) = delete;

    /// Whether durations are wanted; stalls are measured all the same.
    void set_enabled(bool enabled) { enabled_ = enabled; }
    bool enabled() const { return enabled_; }

    /// The stream is about to wait for copies.
    void arrive(CUstream stream);
    /// False: this op is not measured, do not call end().
    bool begin(CUstream stream);
    /// `seq`: the op's number from Recorder::op(). Ops on other streams may have begun in between.
    void end(CUstream stream, std::uint64_t seq);
    /// The op failed, before its begin() or after it: forget what was begun.
    void cancel(CUstream stream);
    /// Hands over what is known of all ops that are done. Does not wait.
    void poll(Recorder& recorder);
    /// Ops in flight.
    std::size_t pending() const { return in_flight_.size() - first_in_flight_; }
    /// The context is gone and its events with it: forget them without a call.
    void forget_context();
    /// Destroys the idle events (the context still stands).
    void release_events();

  private:
    struct Set {
        CUevent arrived = nullptr, start = nullptr, stop = nullptr;  // made when first needed
    };
    struct Begun {
        CUstream stream;
        std::uint32_t set;
        bool arrived, started, timed;
    };
    struct InFlight {
        std::uint64_t seq;
        std::uint32_t set;
        bool arrived, timed;
    };
    bool take_set(std::uint32_t& set);
    bool record(CUevent& event, CUstream stream);
    std::size_t find(CUstream stream, bool started) const;
    void drop(std::size_t begun);
    /// Between two events; negative: unknown.
    std::int64_t between(CUevent from, CUevent to) const;

    const DriverApi& api_;
    std::size_t max_sets_;
    bool enabled_ = true;
    std::vector<Set> sets_;
    std::vector<std::uint32_t> free_;
    std::vector<Begun> begun_;
    std::vector<InFlight> in_flight_;  // FIFO from first_in_flight_
    std::size_t first_in_flight_ = 0;
};

}  // namespace swapadvisor
