// A report for ui.perfetto.dev: the trace event format (JSON), one iteration.
#pragma once

#include <string>

#include "recorder/report_model.h"

namespace swapadvisor {

std::string report_perfetto(const ReportModel& model);

}  // namespace swapadvisor
