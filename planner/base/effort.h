// What a piece of work has cost so far: seconds of the clock, and of processors. On a busy machine they differ, and
// what a search is worth follows the processors.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace swapadvisor::planner {

struct Spent {
    double seconds = 0, processor_seconds = 0;
};

/// Begins where it is made, on a thread that works all the time; others join with a Share. spent() from any thread
/// while the first one lives; what another thread does counts once its Share ends.
class Effort {
  public:
    Effort() : owner_(pthread_self()), begin_ns_(now(CLOCK_MONOTONIC)) {
        pthread_getcpuclockid(owner_, &clock_);
        processor_begin_ns_ = now(clock_);
    }
    Effort(const Effort&) = delete;
    Effort& operator=(const Effort&) = delete;
    Spent spent() const {
        return {1e-9 * static_cast<double>(now(CLOCK_MONOTONIC) - begin_ns_),
                1e-9 * static_cast<double>(now(clock_) - processor_begin_ns_ +
                                           others_ns_.load(std::memory_order_relaxed))};
    }

    class Share {
      public:
        explicit Share(Effort& effort)
            : effort_(pthread_equal(pthread_self(), effort.owner_) ? nullptr : &effort),
              begin_ns_(now(CLOCK_THREAD_CPUTIME_ID)) {}
        ~Share() {
            if (effort_)
                effort_->others_ns_.fetch_add(now(CLOCK_THREAD_CPUTIME_ID) - begin_ns_,
                                              std::memory_order_relaxed);
        }
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;

      private:
        Effort* effort_;
        std::int64_t begin_ns_;
    };

  private:
    static std::int64_t now(clockid_t clock) {
        timespec t{};
        clock_gettime(clock, &t);
        return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
    }
    pthread_t owner_;
    clockid_t clock_{};
    std::int64_t begin_ns_, processor_begin_ns_ = 0;
    std::atomic<std::int64_t> others_ns_{0};
};

}  // namespace swapadvisor::planner
