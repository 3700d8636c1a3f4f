// A trace's iteration time against memory, by quick plans: for reports, which must not take long.
#pragma once

#include "recorder/report_model.h"
#include "recorder/trace_analysis.h"

namespace swapadvisor::command {

/// Fills `what_if`, `least_limit_bytes` and `enough_bytes` of the model from the trace's iteration (not null). Leaves them as they are where
/// nothing can be planned or the iteration is so large that it would take long.
void fill_what_if(ReportModel& model, const TraceAnalysis& trace);

}  // namespace swapadvisor::command
