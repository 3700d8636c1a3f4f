// A time budget: what is left of some seconds of this thread's processor time since it was made.
#pragma once

#include <time.h>

namespace swapadvisor::planner {

class TimeLeft {
  public:
    explicit TimeLeft(double seconds) : end_(now() + seconds) {}
    /// Seconds, negative once it is over. Ask on the thread that made it.
    double operator()() const { return end_ - now(); }

  private:
    static double now() {
        timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    }
    double end_;
};

}  // namespace swapadvisor::planner
