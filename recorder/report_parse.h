// Reads reports back (JSON). For the command-line tool; not linked into the preload object.
#pragma once

#include <string>

#include "recorder/report_model.h"

namespace swapadvisor {

/// Throws std::runtime_error with one line that names the field on anything wrong.
ReportModel parse_report_json(const std::string& text);

}  // namespace swapadvisor
