// What a candidate is worth to the search: its period if places did not matter, and where it loses time.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planner/search/chromosome.h"
#include "planner/swap/swap_planner.h"

namespace swapadvisor::planner {

/// Keeps its working memory from one candidate to the next: one for each thread.
class Judge {
  public:
    /// INT64_MAX: the choices do not fit.
    std::int64_t period(const Setting& setting, const Choices& choice);
    /// Where the candidate judged last loses time.
    Pressure pressure(const Setting& setting) const;

  private:
    void price(const std::vector<std::pair<std::int64_t, std::int64_t>>& busy,
               std::span<const std::int64_t> times, std::span<const std::int64_t> starts,
               std::span<const std::int64_t> stalls, std::vector<float>& into) const;

    SwapOptions options_;
    Dispatcher dispatcher_;
    Dispatch dispatch_;
    std::vector<Stay> stays_;
};

}  // namespace swapadvisor::planner
