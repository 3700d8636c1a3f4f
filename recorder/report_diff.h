// Two reports side by side: figures that differ, and what changed by op and by call site.
#pragma once

#include <string>

#include "recorder/report_model.h"

namespace swapadvisor {

std::string report_diff_text(const ReportModel& before, const ReportModel& after);
/// "swapadvisor-diff" version 1.
std::string report_diff_json(const ReportModel& before, const ReportModel& after);

/// A condition such as "peak>+5%": the figure (its name in JSON, or that without its unit) of B is more than
/// so much above that of A.
struct Regression {
    std::string text;  ///< as given
    std::string field;
    double per_cent = 0;
};
/// Throws std::runtime_error with one line that says what conditions look like.
Regression parse_regression(const std::string& text);
/// One line if it holds; empty if not. A figure that a report lacks throws std::runtime_error.
std::string find_regression(const ReportModel& before, const ReportModel& after, const Regression& condition);

}  // namespace swapadvisor
