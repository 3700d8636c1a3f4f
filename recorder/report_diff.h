// Two reports side by side: figures that differ, and what changed by op and by call site.
#pragma once

#include <string>

#include "recorder/report_model.h"

namespace swapadvisor {

std::string report_diff_text(const ReportModel& before, const ReportModel& after);
/// "swapadvisor-diff" version 1.
std::string report_diff_json(const ReportModel& before, const ReportModel& after);

}  // namespace swapadvisor
