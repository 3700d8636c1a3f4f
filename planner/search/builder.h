// From an order and keep-or-evict choices to a finished plan and its simulated period.
#pragma once

#include <functional>
#include <optional>

#include "planner/place/placement.h"
#include "planner/swap/select.h"
#include "planner/swap/swap_planner.h"

namespace swapadvisor::planner {

struct Built {
    Plan plan;
    SimResult sim;
    std::int64_t dispatch_ns = 0;  ///< what the period would be if places did not matter
    std::int64_t delay_ns = 0;
};

struct BuildOptions {
    SwapOptions swap;
    PlaceOptions place;
    int passes = 3;
    std::function<bool()> stop;  ///< asked now and then in long work; the best so far is then the result
};

/// The period, with what a remap is deemed to cost on hardware.
double judged_ns(const Built& built);
bool better(const Built& a, const Built& b);

/// Empty when the choices exceed the pool or find no places.
std::optional<Built> build(const Setting& setting, std::span<const GapChoice> choice,
                           const BuildOptions& options);

}  // namespace swapadvisor::planner
