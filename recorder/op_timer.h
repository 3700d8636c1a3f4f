// The timing of ops as the runtime uses it: CUPTI where it can be had, event pairs elsewhere, and stalls by
// events in either case. Chosen while it runs: events measure until CUPTI has delivered a first record, so
// that a CUPTI that opens but does not deliver costs no measurement; one that stays silent is let go.
#pragma once

#include <cstdint>
#include <memory>

#include "recorder/cupti_timer.h"
#include "recorder/event_timer.h"
#include "recorder/timing_source.h"

namespace swapadvisor {

class OpTimer {
  public:
    OpTimer(const DriverApi& api, TimingSource wanted) : events_(api), wanted_(wanted) {}

    /// Whether durations are wanted; stalls are measured all the same.
    void set_enabled(bool enabled);
    bool enabled() const { return enabled_; }

    /// An op between begin() and end(): ops of other threads may begin and end meanwhile.
    struct Begun {
        bool events = false;
        std::uint64_t cupti = 0;
        explicit operator bool() const { return events || cupti != 0; }
    };
    // As EventTimer's, in its order: arrive() if the op has to wait, begin(), the real call, end() or
    // cancel().
    void arrive(CUstream stream) { events_.arrive(stream); }
    Begun begin(CUstream stream);
    void end(CUstream stream, std::uint64_t seq, const Begun& begun);
    void cancel(CUstream stream, const Begun& begun);
    /// Cheap: to be called after every op. Hands over what is known now and then.
    void after_op(Recorder& recorder) {
        if ((++ops_ & kPollMask) != 0) return;
        if (events_.pending() > 0) events_.poll(recorder);
        if (enabled_ && cupti_ && (ops_ & kCuptiPollMask) == 0) poll(recorder);
    }
    void poll(Recorder& recorder);

    /// Where durations come from at the moment; "" before the first.
    const char* source() const;
    /// The stand-in of tests instead of the library.
    void use_cupti(std::unique_ptr<CuptiTimer> timer);

  private:
    static constexpr std::uint64_t kPollMask = 15;
    static constexpr std::uint64_t kCuptiPollMask = 255;
    static constexpr std::uint64_t kPatience = 4096;  ///< ops that CUPTI may be silent for
    void open_cupti();
    void let_cupti_go();
    bool cupti_delivers() const { return cupti_ && cupti_->delivered() > 0; }

    EventTimer events_;
    std::unique_ptr<CuptiTimer> cupti_;
    TimingSource wanted_;
    bool enabled_ = true, opened_ = false;
    std::uint64_t ops_ = 0, asked_ = 0;  ///< after_op() calls; ops that CUPTI was to measure
};

}  // namespace swapadvisor
