// Why ops wait: of each stall the copy that it waits for, why that copy is late, and what would remove it.
#pragma once

#include "recorder/report_model.h"

namespace swapadvisor {

/// Fills `stalls` from the ops and swaps that are in the model, longest first. Judged by the model's own times: a copy is late because of
/// what ends when it begins.
void explain_stalls(ReportModel& model);

}  // namespace swapadvisor
