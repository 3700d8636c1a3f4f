// The text page of a report, and the files written at exit.
#include <algorithm>
#include <cstdio>

#include "recorder/report_model.h"
#include "recorder/report_sections.h"

namespace swapadvisor {
namespace {

// Characters, not bytes: for alignment.
std::size_t width(const std::string& text) {
    std::size_t n = 0;
    for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return n;
}

std::string printable(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
    return text;
}

void write_table(std::string& out, const ReportTable& table) {
    if (!table.title.empty()) out += "  " + table.title + "\n";
    std::vector<std::size_t> widths;
    for (const std::string& column : table.columns) widths.push_back(width(column));
    for (const auto& row : table.rows)
        for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
    const auto line = [&](const std::vector<std::string>& cells) {
        std::string text = "   ";
        for (std::size_t c = 0; c < cells.size(); ++c) {
            const std::string padding(widths[c] - width(cells[c]), ' ');
            text += ' ';
            text += table.numeric[c] ? padding + printable(cells[c]) : printable(cells[c]) + padding;
            text += ' ';
        }
        text.erase(text.find_last_not_of(' ') + 1);
        out += text + "\n";
    };
    line(table.columns);
    for (const auto& row : table.rows) line(row);
    if (!table.more.empty()) out += "    " + table.more + "\n";
}

bool write_file(const std::string& path, const std::string& text) {
    std::FILE* file = std::fopen(path.c_str(), "we");
    if (!file) return false;
    const bool all = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    return std::fclose(file) == 0 && all;
}

}  // namespace

std::string report_text(const ReportModel& model) {
    std::string out = "SwapAdvisor report of a " + model.source + ": " + printable(model.program);
    if (model.pid != kUnknown) out += ", process " + std::to_string(model.pid);
    if (model.rank != kUnknown) out += ", rank " + std::to_string(model.rank);
    out += "\n";
    for (const ReportSection& section : report_sections(model)) {
        out += "\n" + section.title + "\n";
        std::size_t labels = 0;
        for (const ReportLine& line : section.lines) labels = std::max(labels, width(line.label));
        for (const ReportLine& line : section.lines)
            out += "  " + line.label + std::string(labels - width(line.label) + 2, ' ') +
                   printable(line.value) + "\n";
        for (const ReportTable& table : section.tables) write_table(out, table);
        for (const std::string& text : section.paragraphs) out += "  " + printable(text) + "\n";
    }
    return out;
}

bool write_exit_report(const ReportModel& model, const std::string& path) noexcept {
    try {
        const std::string text = report_text(model);
        if (path.empty() || path == "-")
            return std::fwrite(text.data(), 1, text.size(), stderr) == text.size();
        const bool text_written = write_file(path, text);
        return write_file(path + ".json", report_json(model)) && text_written;
    } catch (...) {
        return false;
    }
}

}  // namespace swapadvisor
