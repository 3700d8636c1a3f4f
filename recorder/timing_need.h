// Which ops are worth timing. Events around an op cost the program two calls, so while all its memory is
// resident and far from the limit nothing is timed but a few instances of each loop that is found; when memory
// is short, the first few thousand ops, and from then on a small share of them in bursts.
//
// Callers: one at a time, with rising `seq`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace swapadvisor {

class TimingNeed {
  public:
    static constexpr std::uint64_t kFirst = 4096;                      ///< ops timed under pressure at once
    static constexpr std::uint64_t kBurst = 64, kPause = 16 * kBurst;  ///< ops timed and not timed after that
    static constexpr std::uint64_t kInstances = 3;                     ///< of a found loop that are timed
    static constexpr std::uint64_t kLoops = 4096;  ///< ops of found loops in all, besides the first loop
    static constexpr std::uint64_t kShare = 64;    ///< and one in so many after that

    /// A loop of `ops` was found before op `seq`. One that was met lately is not timed again.
    void loop_found(std::uint64_t seq, std::uint64_t ops, std::uint64_t signature) {
        look_at_ = seq;
        if (std::find(met_.begin(), met_.end(), signature) != met_.end()) return;
        const std::uint64_t credit = kLoops + seq / kShare;
        const std::uint64_t wanted = kInstances * ops;
        if (spent_ != 0 && spent_ + wanted > credit) return;
        met_[next_met_++ % met_.size()] = signature;
        spent_ += std::min(wanted, kLoops / 2);
        loop_until_ = std::max(loop_until_, seq + wanted);
    }
    /// Is it time to ask wanted() anew?
    bool look(std::uint64_t seq) const { return seq >= look_at_; }
    /// Are the ops from `seq` on to be timed, until look()? `short_of_memory`: not all of it is resident, or
    /// nearly so; `all`: whatever it costs.
    bool wanted(std::uint64_t seq, bool short_of_memory, bool all) {
        if (timing_since_ != kNot) timed_ += seq - timing_since_;
        timing_since_ = kNot;
        bool wanted = all || seq < loop_until_;
        look_at_ = seq + kBurst;
        if (!wanted && short_of_memory) {
            wanted = timed_ < kFirst || seq >= pause_until_;
            if (wanted) {
                timing_since_ = seq;
                pause_until_ = seq + kBurst + kPause;
            }
        }
        return wanted;
    }

  private:
    static constexpr std::uint64_t kNot = ~std::uint64_t{0};
    std::uint64_t look_at_ = 0, loop_until_ = 0, pause_until_ = 0;
    std::array<std::uint64_t, 64> met_{};
    std::size_t next_met_ = 0;
    std::uint64_t spent_ = 0;  // on loops
    std::uint64_t timed_ = 0;  // under pressure, those of the stretch in progress not counted
    std::uint64_t timing_since_ = kNot;
};

}  // namespace swapadvisor
