// A time budget: what is left of some seconds since it was made.
#pragma once

#include <chrono>

namespace swapadvisor::planner {

class TimeLeft {
  public:
    explicit TimeLeft(double seconds) : seconds_(seconds), begin_(std::chrono::steady_clock::now()) {}
    /// Seconds, negative once it is over.
    double operator()() const {
        return seconds_ - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    }

  private:
    double seconds_;
    std::chrono::steady_clock::time_point begin_;
};

}  // namespace swapadvisor::planner
