// How long ops take on the device, from CUPTI activity records: finer than event pairs, and nothing is put
// into the program's streams. Used where libcupti can be opened and NVIDIA's driver lets it collect;
// everywhere else available() is false and nothing happens. Warm-up only.
//
// Each op is given a number of its own as CUPTI's "external correlation" while the real call runs; records of
// kernels, copies and memsets come back on a thread of CUPTI's and are joined by correlation. CUPTI serves
// one tool per process: if the program profiles itself, enabling fails and available() is false.
#pragma once

#include <cstdint>
#include <memory>

namespace swapadvisor {

class Recorder;
struct CuptiApi;  // the functions used, for tests

class CuptiTimer {
  public:
    /// Opens libcupti.so.13 (RTLD_LOCAL) and enables the activities. Call with the driver initialised.
    CuptiTimer();
    explicit CuptiTimer(const CuptiApi& api);
    ~CuptiTimer();  ///< disables the activities
    CuptiTimer(const CuptiTimer&) = delete;
    CuptiTimer& operator=(const CuptiTimer&) = delete;

    bool available() const;
    /// Off: the activities are disabled, nothing is collected.
    void set_enabled(bool enabled);
    bool enabled() const;
    /// Durations that came so far.
    std::uint64_t delivered() const;

    /// Around the real call, on the thread that makes it: names the op. 0: not measured, do not call end().
    std::uint64_t begin();
    void end(std::uint64_t id, std::uint64_t seq);
    void cancel();
    /// Hands over the durations that have arrived. Asks CUPTI for what is complete; does not wait for the
    /// device.
    void poll(Recorder& recorder);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace swapadvisor
