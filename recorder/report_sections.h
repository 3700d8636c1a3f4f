// A report as titles, lines and tables of finished texts: what the text page and the HTML page both print.
#pragma once

#include <string>
#include <vector>

#include "recorder/report_model.h"

namespace swapadvisor {

struct ReportLine {
    std::string key;  ///< the JSON field, "" if none
    std::string label;
    std::string value;
};

struct ReportTable {
    std::string title;
    std::vector<std::string> columns;
    std::vector<bool> numeric;  ///< by column
    std::vector<std::vector<std::string>> rows;
    std::string more;  ///< "" or what was left out
};

struct ReportSection {
    std::string title;
    std::vector<ReportLine> lines;
    std::vector<ReportTable> tables;
    std::vector<std::string> paragraphs;
};

/// The section of sentences that comes first, where there are any.
inline constexpr const char* kVerdictTitle = "In short";

std::vector<ReportSection> report_sections(const ReportModel& model);

/// "1.18 MiB", "12 bytes".
std::string short_bytes_text(std::int64_t bytes);
/// "1.235 ms", "12 ns".
std::string short_ns_text(std::int64_t ns);
/// "1234567 bytes (1.18 MiB)", "1234567 ns (1.235 ms)", "42". The number itself is always exact.
std::string bytes_text(std::int64_t bytes);
std::string ns_text(std::int64_t ns);
/// "1.25x"
std::string ratio_text(std::int64_t value, std::int64_t base);

}  // namespace swapadvisor
