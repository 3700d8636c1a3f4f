// A report in a few sentences: what the program needs, what the limit costs and why, what the floor is.
#pragma once

#include <string>
#include <vector>

#include "recorder/report_model.h"

namespace swapadvisor {

/// Whole sentences, the most important first; of what is not known nothing is said.
std::vector<std::string> report_verdict(const ReportModel& model);

}  // namespace swapadvisor
