// Durations of ops from pairs of events on their streams. Answers come late and without blocking anyone.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "recorder/recorder.h"
#include "replayer/driver_api.h"

namespace swapadvisor {

/// Not thread-safe; the context must be current.
class EventTimer {
  public:
    explicit EventTimer(const DriverApi& api) : api_(api) {}
    /// Before the op, behind whatever it waits for. False: this one is not timed.
    bool begin(CUstream stream);
    void end(std::uint64_t seq);
    /// Hands over what is known by now.
    void poll(Recorder& recorder, std::size_t most = 64);
    void set_enabled(bool enabled) { enabled_ = enabled; }
    bool enabled() const { return enabled_; }
    std::uint64_t timed() const { return timed_; }

  private:
    struct Pair {
        CUevent start = nullptr, stop = nullptr;
        std::uint64_t seq = 0;
    };
    const DriverApi& api_;
    bool enabled_ = true;
    std::vector<Pair> spare_;
    std::deque<Pair> pending_;
    Pair current_;
    CUstream stream_ = nullptr;
    std::size_t made_ = 0;
    std::uint64_t timed_ = 0;
};

}  // namespace swapadvisor
