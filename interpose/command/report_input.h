// What the commands about traces and reports share: reading whatever file they are given, progress.
#pragma once

#include <string>

#include "recorder/report_model.h"
#include "recorder/trace_analysis.h"

namespace swapadvisor::command {

/// With progress on standard error, if that is a terminal: a line that is redrawn, none for what is quick. Damage of the file is one line on standard error.
TraceAnalysis analyse_with_progress(const std::string& path);

/// The report of a trace, a plan (with its graph, if given) or a report in JSON. Throws with one line.
ReportModel load_report(const std::string& path, const std::string& graph_path);

}  // namespace swapadvisor::command
