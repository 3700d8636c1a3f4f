// Finds the repeating iteration in a program's op sequence, online, without help.
//
// Method. Every op has a token (match key and bytes live); a polynomial prefix hash compares any two
// stretches in O(1). The last place where the same four tokens were met proposes a period, and so does the
// last place where the same work touched the same buffers (TurnTable): buffers that take turns, however many,
// make the period a multiple of the distance at which the work repeats. A period is accepted
// when two whole instances have equal tokens *and* each op touches the same buffers as its twin (or buffers
// born at the same place of their own instance, see History::same_place), and the bytes live close. That
// refuses loops over layers, initialisation, and anything that grows. Where only the buffers differ, the
// distance at which the differing op's buffers come back is joined in (least common multiple). While a period
// holds, one comparison per op keeps it. A longer period that contains several instances of a known one
// (gradient accumulation, several
// critic steps, but also evaluation every k steps or a short last batch) replaces it only when what it adds
// belongs to the step: work on persistent buffers or with functions of its own, and not just a pass over
// other input; or when it is instances of the known one on other buffers each time (equal launches in a row).
// Marks by the program override all that from the second mark on.
//
// Amortised O(1) per op, memory bounded by `max_ops`. Not thread-safe. Deterministic.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "recorder/history.h"
#include "recorder/iteration.h"
#include "recorder/iteration_builder.h"
#include "recorder/turn_table.h"

namespace swapadvisor {

class IterationFinder {
  public:
    /// Periods up to half of `max_ops` (a power of two) are found.
    explicit IterationFinder(std::size_t max_ops = std::size_t{1} << 17);

    void allocate(BufferId buffer, std::int64_t bytes, bool small, std::uint64_t site, bool paged = false) {
        history_.allocate(buffer, bytes, small, site, paged);
    }
    void release(BufferId buffer) { history_.release(buffer); }
    void set_range(std::uint64_t range) { history_.set_range(range); }
    void escaped(BufferId buffer) { history_.escaped(buffer); }
    std::uint64_t op(const OpView& op);
    void op_duration(std::uint64_t seq, std::int64_t ns) { history_.op_duration(seq, ns); }
    /// Whether the contents of what touch `touch` of op `seq` names were the same before and after it.
    void content(std::uint64_t seq, std::uint64_t touch, bool changed) {
        history_.content(seq, touch, changed);
    }
    void mark();

    /// The newest steady state, null before the first. Each delivery is a new object.
    const std::shared_ptr<const Iteration>& steady() const { return steady_; }
    std::uint64_t version() const { return version_; }  ///< number of deliveries
    /// Whole instances of steady() seen, its first recognition included.
    std::uint64_t instances() const { return instances_; }
    /// A copy of steady() with medians over the durations, and what is, known by now (null if there is none).
    std::shared_ptr<const Iteration> with_durations() const;

    /// For readers of whole traces: called when a loop ends (by finish() at the latest), whether it was
    /// delivered or not, with its newest whole instance and the number of ops that it went on for.
    std::function<void(std::shared_ptr<Iteration> newest, std::uint64_t ops)> on_loop_end;
    void finish() { end_loop(history_.op_count()); }

    const History& history() const { return history_; }

    /// While steady() is null: in words, why. `name_of(function)` names a kernel.
    std::string why_none(const std::function<std::string(std::uint64_t function)>& name_of) const;

  private:
    struct Lock {
        std::uint64_t period = 0;  // 0: no loop at the moment
        std::uint64_t run = 0;     // ops that equalled their twin one period earlier, up to now
        bool delivered = false;
        std::uint64_t next_try = 0;  // run length at which delivery is considered again
        std::shared_ptr<Iteration> iteration;
    };
    struct Mark {
        std::uint64_t op = 0;     // next op
        std::uint64_t event = 0;  // next event
    };

    void note_first_seen(std::uint64_t i);
    std::uint64_t first_seen(std::uint64_t i) const;
    std::uint64_t previous_same_window(std::uint64_t i);
    bool try_periods(std::uint64_t i, std::uint64_t distance);
    bool try_period(std::uint64_t i, std::uint64_t period);
    void note_other_buffers(std::uint64_t period, const OpHistory& op);
    bool lock_on(std::uint64_t i, std::uint64_t period);
    std::uint64_t last_mismatch(std::uint64_t i, std::uint64_t period, std::uint64_t length) const;
    bool litters(std::uint64_t i, std::uint64_t period) const;
    bool belongs_together(std::uint64_t i, std::uint64_t period) const;
    bool recently_refused(std::uint64_t period, std::uint64_t i) const;
    void refuse(std::uint64_t period, std::uint64_t until);
    std::uint64_t remember_period(std::uint64_t period, std::uint64_t signature);
    void end_loop(std::uint64_t end);
    void consider_delivery();
    void deliver();
    bool try_marked(std::size_t sections);

    History history_;
    std::uint64_t max_period_;
    Lock lock_;
    std::uint64_t unlocked_ops_ = 0;  // since the last lock
    std::shared_ptr<const Iteration> steady_;
    std::uint64_t steady_period_ = 0;
    std::vector<std::uint64_t>
        inner_periods_;  // of steady_, when it is composed of instances of shorter ones
    std::uint64_t version_ = 0;
    std::uint64_t instances_ = 0;

    struct Known {
        std::uint64_t period = 0, signature = 0;
        std::uint64_t seen = 0;  // ops of its instances when it was recognised, all times together
    };
    std::vector<Known> known_;  // recognised lately, newest last
    struct Refusal {
        std::uint64_t period = 0, until = 0;
    };
    // For why_none().
    struct Misses {
        std::uint64_t met = 0;             // ops whose last few tokens had been met before
        std::uint64_t other_buffers = 0;   // times that two whole instances differed in buffers alone,
        std::uint64_t other_period = 0;    // the shortest such period,
        std::uint64_t other_function = 0;  // and the function of the op that differed
        bool other_kernel = false;
        std::uint64_t litter = 0, lives = 0, nested = 0;  // refused since small buffers grew, ...
    };
    Misses misses_;
    std::array<Refusal, 32> refusals_{};
    std::size_t next_refusal_ = 0;

    struct Place {
        std::uint64_t window = 0, op = kNever;
    };
    std::vector<Place> last_place_;  // direct-mapped by window hash
    TurnTable turns_;
    std::vector<Place> first_place_;  // open addressing; stops taking entries when three quarters full
    std::size_t first_place_used_ = 0;

    Window marked_window_;     // the newest instance of the marked loop in force
    std::vector<Mark> marks_;  // the newest few
    std::uint64_t mark_count_ = 0;
};

}  // namespace swapadvisor
