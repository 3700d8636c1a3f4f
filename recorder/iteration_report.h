// The part of a report that shows one iteration op by op.
#pragma once

#include <cstdint>
#include <vector>

#include "recorder/export.h"
#include "recorder/iteration.h"
#include "recorder/recorder.h"
#include "recorder/report_model.h"

namespace swapadvisor {

/// What was seen of swapping in one instance.
struct IterationTraffic {
    struct Swap {
        std::int32_t tensor = -1;  ///< -1: a buffer that the iteration does not touch
        SwapKind kind = SwapKind::in;
        std::int64_t bytes = 0;
        std::int64_t op = 0;  ///< issued before it
    };
    std::vector<Swap> swaps;
    std::vector<std::int64_t> stall_ns;  ///< by op
};

/// Fills ops, buffers, swaps, timeline and the figures per iteration from the iteration: ops one after the
/// other.
void fill_iteration(ReportModel& model, const Iteration& iteration, const GraphNames& names,
                    const IterationTraffic& traffic);

/// Entries of the same site and kind become one; biggest first.
void merge_and_sort(std::vector<ReportModel::PeakEntry>& peak);

}  // namespace swapadvisor
