// A report as one page that needs nothing else: charts (Chart.js inlined), sortable tables, light and dark.
// The page embeds the report's JSON; a report too large for that is reduced first, so the page stays below 5
// MB whatever it shows.
#pragma once

#include <cstddef>
#include <string>

#include "recorder/report_model.h"

namespace swapadvisor {

constexpr std::size_t kMaxHtmlBytes = 5'000'000;

std::string report_html(const ReportModel& model);

/// What the page embeds: the model itself if it is small enough, else its biggest rows and a thinned-out
/// timeline that keeps every peak; figures are never changed. `reduced`: whether anything was left out.
ReportModel reduced_model(const ReportModel& model, bool& reduced);

}  // namespace swapadvisor
