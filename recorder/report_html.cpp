#include "recorder/report_html.h"

#include <algorithm>

#include "generated/recorder/page.h"
#include "recorder/json_writer.h"
#include "recorder/report_sections.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kMaxRows = 2000;
constexpr std::size_t kMaxSmallRows = 200;
constexpr std::size_t kMaxUses = 12;
constexpr std::size_t kMaxNameBytes = 120;  // as JSON
constexpr std::size_t kMaxJsonBytes = 1'500'000;

constexpr const char* kTools =
    "<div class=\"tools\"><input id=\"search\" type=\"search\" placeholder=\"search: op, buffer, call site\" "
    "aria-label=\"search\"><button id=\"zoom-left\" type=\"button\" aria-label=\"earlier\">&larr;</button>"
    "<button id=\"zoom-in\" type=\"button\" aria-label=\"zoom in\">+</button><button id=\"zoom-out\" "
    "type=\"button\" "
    "aria-label=\"zoom out\">&minus;</button><button id=\"zoom-right\" type=\"button\" "
    "aria-label=\"later\">&rarr;"
    "</button><button id=\"zoom-all\" type=\"button\">all</button><span id=\"zoom-shows\"></span></div>\n";
constexpr const char* kIcicle =
    "<section><h2>Who holds the peak</h2><div class=\"panel\"><div class=\"row\"><span "
    "id=\"icicle-path\"></span><button "
    "id=\"icicle-mode\" type=\"button\">by module</button></div><div id=\"icicle\" "
    "class=\"icicle\"></div></div></section>\n";

std::string escaped(const std::string& text) {
    std::string out;
    const std::string json =
        json_string(text);  // valid UTF-8, '<' still as \u003c: not for HTML, so undo by hand
    out.reserve(text.size());
    for (std::size_t i = 1; i + 1 < json.size(); ++i) {
        const char c = json[i];
        if (c == '\\') {
            const char next = json[++i];
            if (next == 'u') {
                out += json.compare(i, 5, "u003c") == 0 ? "&lt;" : " ";
                i += 4;
            } else {
                out += next == 'n' || next == 't' ? " " : next == '"' ? "&quot;" : std::string(1, next);
            }
        } else if (c == '&') {
            out += "&amp;";
        } else if (c == '>') {
            out += "&gt;";
        } else {
            out += c;
        }
    }
    return out;
}

void cut(std::string& text, std::size_t json_bytes) {
    if (text.size() <= json_bytes / 6) return;
    while (!text.empty() && json_string(text).size() > json_bytes) {
        std::size_t end = text.size() - std::max<std::size_t>(1, text.size() / 8);
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
        text.resize(end);
    }
}

// The `count` largest rows by `weight`, in their old order.
template <class Row, class Weight>
void keep_largest(std::vector<Row>& rows, std::size_t count, Weight weight) {
    if (rows.size() <= count) return;
    std::vector<std::size_t> order(rows.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                     [&](std::size_t a, std::size_t b) {
                         const auto x = weight(rows[a]), y = weight(rows[b]);
                         return x != y ? x > y : a < b;
                     });
    order.resize(count);
    std::sort(order.begin(), order.end());
    std::vector<Row> kept;
    for (const std::size_t i : order) kept.push_back(std::move(rows[i]));
    rows.swap(kept);
}

// One sample of each stretch: the one with the most live bytes; and the last of all.
void thin_out(std::vector<ReportModel::Sample>& timeline, std::size_t count) {
    if (timeline.size() <= count) return;
    std::vector<ReportModel::Sample> kept;
    const std::size_t stretches = count - 1;
    for (std::size_t s = 0; s < stretches; ++s) {
        const auto begin = timeline.begin() + static_cast<std::ptrdiff_t>(timeline.size() * s / stretches);
        const auto end =
            timeline.begin() + static_cast<std::ptrdiff_t>(timeline.size() * (s + 1) / stretches);
        kept.push_back(*std::max_element(
            begin, end, [](const auto& a, const auto& b) { return a.live_bytes < b.live_bytes; }));
    }
    if (!(kept.back() == timeline.back())) kept.push_back(timeline.back());
    timeline.swap(kept);
}

void write_section(std::string& out, const ReportSection& section) {
    out += "<section><h2>" + escaped(section.title) + "</h2><div class=\"panel\">\n";
    if (!section.lines.empty()) {
        out += "<dl>\n";
        for (const ReportLine& line : section.lines) {
            out += "<dt>" + escaped(line.label) + "</dt><dd";
            if (!line.key.empty()) out += " data-field=\"" + escaped(line.key) + "\"";
            out += ">" + escaped(line.value) + "</dd>\n";
        }
        out += "</dl>\n";
    }
    for (const ReportTable& table : section.tables) {
        if (!table.title.empty()) out += "<h3>" + escaped(table.title) + "</h3>\n";
        out += "<div class=\"scroll\"><table><thead><tr>";
        const auto cells = [&](const std::vector<std::string>& texts, const char* tag) {
            for (std::size_t c = 0; c < texts.size(); ++c)
                out += std::string("<") + tag + (table.numeric[c] ? " class=\"n\">" : ">") +
                       escaped(texts[c]) + "</" + tag + ">";
        };
        cells(table.columns, "th");
        out += "</tr></thead><tbody>\n";
        for (const auto& row : table.rows) {
            out += "<tr>";
            cells(row, "td");
            out += "</tr>\n";
        }
        out += "</tbody></table></div>\n";
        if (!table.more.empty()) out += "<p class=\"more\">" + escaped(table.more) + "</p>\n";
    }
    for (const std::string& text : section.paragraphs) out += "<p class=\"note\">" + escaped(text) + "</p>\n";
    out += "</div></section>\n";
}

void write_chart(std::string& out, const char* id, const char* title, const char* style) {
    out += std::string("<section><h2>") + title + "</h2><div class=\"panel\"><div class=\"chart " + style +
           "\"><canvas id=\"" + id + "\" role=\"img\" aria-label=\"" + title +
           "\"></canvas></div></div></section>\n";
}

void write_table(std::string& out, const char* kind, const char* title, std::size_t shown,
                 std::size_t total) {
    if (total == 0) return;
    out += std::string("<section><h2>") + title +
           "</h2><div class=\"panel\"><div class=\"scroll\"><table id=\"table-" + kind +
           "\"></table></div><p class=\"more\" id=\"more-" + kind + "\"></p>";
    if (shown < total)
        out += "<p class=\"more\">This page holds the " + std::to_string(shown) + " largest of " +
               std::to_string(total) + "; <code>swapadvisor report --json</code> has all.</p>";
    out += "</div></section>\n";
}

}  // namespace

ReportModel reduced_model(const ReportModel& model, bool& reduced) {
    reduced = false;
    ReportModel m = model;
    const bool few = m.ops.size() <= kMaxRows && m.buffers.size() <= kMaxRows && m.swaps.size() <= kMaxRows &&
                     m.timeline.size() <= kMaxRows;
    if (few && report_json(m).size() <= kMaxJsonBytes) return m;
    reduced = true;
    using Op = ReportModel::OpRow;
    using Buffer = ReportModel::BufferRow;
    using Swap = ReportModel::SwapRow;
    keep_largest(m.ops, kMaxRows, [](const Op& op) {
        return static_cast<double>(op.stall_ns) * 1e3 + static_cast<double>(op.duration_ns) +
               static_cast<double>(op.in_bytes) + static_cast<double>(op.out_bytes);
    });
    keep_largest(m.buffers, kMaxRows, [](const Buffer& b) { return b.bytes; });
    keep_largest(m.swaps, kMaxRows, [](const Swap& s) { return s.bytes; });
    keep_largest(m.peak, kMaxSmallRows, [](const ReportModel::PeakEntry& p) { return p.bytes; });
    keep_largest(m.unmovable, kMaxSmallRows, [](const ReportModel::Unmovable& u) { return u.bytes; });
    keep_largest(m.fallbacks, kMaxSmallRows, [](const ReportModel::Count& c) { return c.count; });
    if (m.notes.size() > kMaxSmallRows) m.notes.resize(kMaxSmallRows);
    thin_out(m.timeline, kMaxRows);
    if (m.stalls.size() > kMaxSmallRows) m.stalls.resize(kMaxSmallRows);
    keep_largest(m.growing, kMaxSmallRows, [](const ReportModel::GrowthRow& g) { return g.to_bytes; });
    for (Op& op : m.ops) {
        cut(op.name, kMaxNameBytes);
        cut(op.site, kMaxNameBytes);
    }
    for (Buffer& b : m.buffers) {
        cut(b.name, kMaxNameBytes);
        cut(b.site, kMaxNameBytes);
        if (b.uses.size() > kMaxUses) b.uses.resize(kMaxUses);
    }
    for (Swap& s : m.swaps) cut(s.name, kMaxNameBytes);
    constexpr std::size_t kMaxLongText = 1000;
    for (auto& stall : m.stalls) cut(stall.why, kMaxLongText);
    for (auto& g : m.growing) cut(g.site, kMaxLongText);
    for (auto& p : m.peak) cut(p.site, kMaxLongText);
    for (auto& u : m.unmovable) {
        cut(u.site, kMaxLongText);
        cut(u.reason, kMaxLongText);
    }
    for (auto& f : m.fallbacks) cut(f.what, kMaxLongText);
    for (std::string& note : m.notes) cut(note, kMaxLongText);
    for (std::string* text : {&m.program, &m.mode, &m.mode_reason, &m.plan, &m.peak_op_name, &m.device.name})
        cut(*text, kMaxLongText);
    return m;
}

std::string report_html(const ReportModel& model) {
    bool reduced = false;
    const ReportModel m = reduced_model(model, reduced);
    std::string out =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n";
    out += "<title>SwapAdvisor: " + escaped(m.program) + "</title>\n<style>\n";
    out += page::kCss;
    out += "</style></head><body><main>\n<header><h1>SwapAdvisor report of a " + escaped(m.source) + ": " +
           escaped(m.program);
    if (m.pid != kUnknown) out += ", process " + std::to_string(m.pid);
    if (m.rank != kUnknown) out += ", rank " + std::to_string(m.rank);
    out += "</h1><button id=\"theme\" type=\"button\">light / dark</button></header>\n";
    const auto sections = report_sections(m);
    // What it comes to, then the pictures, then every figure.
    std::size_t first = 0;
    if (!sections.empty() && sections.front().title == kVerdictTitle) {
        out += "<section class=\"verdict\">";
        for (const std::string& text : sections[first++].paragraphs) out += "<p>" + escaped(text) + "</p>";
        out += "</section>\n";
    }
    if (!m.ops.empty() || !m.buffers.empty()) out += kTools;
    if (!m.peak.empty()) out += kIcicle;
    if (!m.timeline.empty()) {
        write_chart(out, "chart-memory", "Memory over the iteration", "");
        write_chart(out, "chart-lanes", "Compute and copies", "low");
        write_chart(out, "chart-buffers", "Buffers by life, size and owner", "tall");
    }
    if (m.what_if.size() > 1) write_chart(out, "chart-what-if", "Iteration time against memory", "");
    if (m.run.size() > 1) write_chart(out, "chart-run", "The whole run", "");
    for (std::size_t i = first; i < sections.size(); ++i) write_section(out, sections[i]);
    write_table(out, "ops", "Ops", m.ops.size(), model.ops.size());
    write_table(out, "buffers", "Buffers", m.buffers.size(), model.buffers.size());
    write_table(out, "swaps", "Swaps of one iteration", m.swaps.size(), model.swaps.size());
    out += "</main><aside id=\"detail\" hidden></aside>\n<script type=\"application/json\" id=\"report\">";
    out += report_json(m);
    out += "</script>\n<script>";
    out += page::kChartJs;
    out += "</script>\n<script>\n";
    out += page::kScript;
    out += "</script></body></html>\n";
    return out;
}

}  // namespace swapadvisor
