// A sweep as JSON and as a page with a plot that needs no network, in light and dark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/command/plan_figures.h"

namespace swapadvisor::command {

struct SweepResult {
    std::string graph;
    std::vector<PlanFigures> points;  ///< by rising memory
    double slowdown_per_cent = 5;
    std::int64_t enough_bytes = 0;  ///< least limit within the slowdown; 0: none
    std::int64_t least_memory_bytes = 0, peak_memory_bytes = 0, device_memory_bytes = 0;
};

nlohmann::ordered_json as_json(const SweepResult& result);
std::string sweep_page(const SweepResult& result);

}  // namespace swapadvisor::command
