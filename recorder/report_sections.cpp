#include "recorder/report_sections.h"

#include <algorithm>
#include <cstdio>

#include "recorder/report_fields.h"
#include "recorder/report_verdict.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kRowsShown = 15;

std::string fixed(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::string short_bytes(std::int64_t bytes) {
    static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes > -1024 && bytes < 1024) return "";
    double value = static_cast<double>(bytes) / 1024;
    int unit = 0;
    for (; (value >= 1024 || value <= -1024) && unit < 5; ++unit) value /= 1024;
    return fixed(value, 2) + " " + kUnits[unit];
}

std::string short_ns(std::int64_t ns) {
    const auto value = static_cast<double>(ns);
    if (ns < 1000) return "";
    if (ns < 1'000'000) return fixed(value / 1e3, 3) + " us";
    if (ns < 1'000'000'000) return fixed(value / 1e6, 3) + " ms";
    return fixed(value / 1e9, 3) + " s";
}

std::string field_text(const ReportField& field, std::int64_t value) {
    switch (field.unit) {
        case ReportUnit::bytes:
            return bytes_text(value);
        case ReportUnit::ns:
            return ns_text(value);
        case ReportUnit::count:
            break;
    }
    return std::to_string(value);
}

std::string cut(const std::string& text, std::size_t length) {
    if (text.size() <= length) return text;
    std::size_t end = length - 3;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
        --end;  // not inside a character
    return text.substr(0, end) + "...";
}

std::string rows_left_out(std::size_t total) {
    return total > kRowsShown ? "and " + std::to_string(total - kRowsShown) + " more" : "";
}

template <std::size_t N>
void add_fields(ReportSection& section, const ReportModel& m, const ReportField (&fields)[N]) {
    for (const ReportField& field : fields)
        if (m.*field.member != kUnknown)
            section.lines.push_back({field.name, field.label, field_text(field, m.*field.member)});
}

ReportSection device_section(const ReportModel& m) {
    ReportSection s{"Device and memory", {}, {}, {}};
    if (!m.device.name.empty()) s.lines.push_back({"device.name", "device", m.device.name});
    if (m.device.memory_bytes > 0)
        s.lines.push_back({"device.memory_bytes", "device memory", bytes_text(m.device.memory_bytes)});
    add_fields(s, m, kMemoryFields);
    if (m.limit_bytes > 0 && m.peak_bytes > 0)
        s.lines.push_back({"", "peak over limit", ratio_text(m.peak_bytes, m.limit_bytes)});
    if (m.peak_op != kUnknown)
        s.lines.push_back(
            {"peak_op", "op at the peak",
             std::to_string(m.peak_op) + (m.peak_op_name.empty() ? "" : " " + cut(m.peak_op_name, 80))});
    if (!m.peak.empty()) {
        ReportTable table{"Live at the peak, by call site",
                          {"bytes", "buffers", "allocated at"},
                          {true, true, false},
                          {},
                          rows_left_out(m.peak.size())};
        for (std::size_t i = 0; i < std::min(kRowsShown, m.peak.size()); ++i) {
            const auto& e = m.peak[i];
            table.rows.push_back({bytes_text(e.bytes), std::to_string(e.buffers),
                                  (e.site.empty() ? "(unknown)" : cut(e.site, 160)) +
                                      std::string(e.persistent ? " [lives across iterations]" : "")});
        }
        s.tables.push_back(std::move(table));
    }
    return s;
}

ReportSection time_section(const ReportModel& m) {
    ReportSection s{"Time per iteration", {}, {}, {}};
    for (const ReportField& field : kTimeFields) {
        const std::int64_t value = m.*field.member;
        if (value == kUnknown) continue;
        std::string text = field_text(field, value);
        const bool comparable = field.member != &ReportModel::infinite_ns_per_iteration &&
                                field.member != &ReportModel::host_ns_per_iteration;
        if (comparable && m.infinite_ns_per_iteration > 0)
            text += ", " + ratio_text(value, m.infinite_ns_per_iteration) + " of infinite memory";
        s.lines.push_back({field.name, field.label, text});
    }
    if (m.measured_ns_per_iteration > 0 && m.lower_bound_ns > 0)
        s.lines.push_back(
            {"", "measured over lower bound", ratio_text(m.measured_ns_per_iteration, m.lower_bound_ns)});
    if (m.measured_ns_per_iteration > 0 && m.predicted_ns > 0)
        s.lines.push_back(
            {"", "measured over predicted", ratio_text(m.measured_ns_per_iteration, m.predicted_ns)});
    return s;
}

ReportSection swap_section(const ReportModel& m) {
    ReportSection s{"Swaps", {}, {}, {}};
    add_fields(s, m, kSwapFields);
    std::vector<const ReportModel::OpRow*> rows;
    for (const auto& op : m.ops)
        if (op.in_bytes > 0 || op.out_bytes > 0 || op.stall_ns > 0) rows.push_back(&op);
    std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
        if (a->stall_ns != b->stall_ns) return a->stall_ns > b->stall_ns;
        return a->in_bytes / 2 + a->out_bytes / 2 > b->in_bytes / 2 + b->out_bytes / 2;
    });
    if (rows.empty()) return s;
    // Nobody measured stalls: no column of zeros.
    const bool stalls = m.stall_ns_per_iteration != kUnknown;
    ReportTable table{stalls ? "Ops by stall and traffic, biggest first" : "Ops by traffic, biggest first",
                      {"op", "name", "in", "out", "duration"},
                      {true, false, true, true, true},
                      {},
                      rows_left_out(rows.size())};
    for (std::size_t i = 0; i < std::min(kRowsShown, rows.size()); ++i) {
        const ReportModel::OpRow& op = *rows[i];
        table.rows.push_back({std::to_string(op.op), cut(op.name, 60), bytes_text(op.in_bytes),
                              bytes_text(op.out_bytes), ns_text(op.duration_ns)});
        if (stalls) table.rows.back().insert(table.rows.back().begin() + 2, ns_text(op.stall_ns));
    }
    if (stalls) {
        table.columns.insert(table.columns.begin() + 2, "stall");
        table.numeric.insert(table.numeric.begin() + 2, true);
    }
    s.tables.push_back(std::move(table));
    return s;
}

ReportSection stall_section(const ReportModel& m) {
    ReportSection s{"Why it waits", {}, {}, {}};
    if (m.stalls.empty()) return s;
    std::vector<std::pair<std::string, std::int64_t>> causes;
    for (const auto& stall : m.stalls) {
        auto cause =
            std::find_if(causes.begin(), causes.end(), [&](const auto& c) { return c.first == stall.cause; });
        if (cause == causes.end()) cause = causes.insert(causes.end(), {stall.cause, 0});
        cause->second += stall.stall_ns;
    }
    std::stable_sort(causes.begin(), causes.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    for (const auto& [cause, ns] : causes)
        s.lines.push_back({"",
                           cause == "bus"    ? "for the bus"
                           : cause == "room" ? "for room"
                                             : cause,
                           short_ns_text(ns) + " per iteration"});
    ReportTable table{"",
                      {"op", "name", "waits", "because", "what would remove it"},
                      {true, false, true, false, false},
                      {},
                      rows_left_out(m.stalls.size())};
    for (std::size_t i = 0; i < std::min(kRowsShown, m.stalls.size()); ++i) {
        const auto& stall = m.stalls[i];
        const bool known = stall.op >= 0 && stall.op < static_cast<std::int64_t>(m.ops.size());
        table.rows.push_back({std::to_string(stall.op),
                              known ? cut(m.ops[static_cast<std::size_t>(stall.op)].name, 40) : "",
                              short_ns_text(stall.stall_ns), cut(stall.why, 200), stall.remedy});
    }
    s.tables.push_back(std::move(table));
    return s;
}

ReportSection growth_section(const ReportModel& m) {
    ReportSection s{"What grows all the time", {}, {}, {}};
    if (m.growing.empty()) return s;
    ReportTable table{"",
                      {"per iteration", "early on", "at the end", "allocated at"},
                      {true, true, true, false},
                      {},
                      rows_left_out(m.growing.size())};
    for (std::size_t i = 0; i < std::min(kRowsShown, m.growing.size()); ++i) {
        const auto& g = m.growing[i];
        table.rows.push_back({g.bytes_per_iteration > 0 ? short_bytes_text(g.bytes_per_iteration) : "",
                              short_bytes_text(g.from_bytes), short_bytes_text(g.to_bytes),
                              g.site.empty() ? "(unknown)" : cut(g.site, 160)});
    }
    s.tables.push_back(std::move(table));
    return s;
}

ReportSection what_if_section(const ReportModel& m) {
    ReportSection s{"What if there were more or less memory", {}, {}, {}};
    if (m.what_if.empty()) return s;
    for (const std::int64_t ReportModel::*member :
         {&ReportModel::least_limit_bytes, &ReportModel::enough_bytes})
        for_each_field([&](const ReportField& field) {
            if (field.member == member && m.*member != kUnknown)
                s.lines.push_back({field.name, field.label, field_text(field, m.*member)});
        });
    ReportTable table{"By quick plans; swapadvisor sweep searches longer",
                      {"memory", "iteration", "of infinite memory"},
                      {true, true, true},
                      {},
                      ""};
    for (const auto& point : m.what_if)
        table.rows.push_back({short_bytes_text(point.limit_bytes), short_ns_text(point.period_ns),
                              m.infinite_ns_per_iteration > 0
                                  ? ratio_text(point.period_ns, m.infinite_ns_per_iteration)
                                  : ""});
    s.tables.push_back(std::move(table));
    return s;
}

ReportSection unmovable_section(const ReportModel& m) {
    ReportSection s{"What could not be moved", {}, {}, {}};
    if (m.unmovable.empty()) return s;
    ReportTable table{"",
                      {"bytes", "buffers", "why", "allocated at"},
                      {true, true, false, false},
                      {},
                      rows_left_out(m.unmovable.size())};
    for (std::size_t i = 0; i < std::min(kRowsShown, m.unmovable.size()); ++i) {
        const auto& u = m.unmovable[i];
        table.rows.push_back({bytes_text(u.bytes), std::to_string(u.buffers), cut(u.reason, 100),
                              u.site.empty() ? "(unknown)" : cut(u.site, 120)});
    }
    s.tables.push_back(std::move(table));
    return s;
}

ReportSection run_section(const ReportModel& m) {
    ReportSection s{"Run", {}, {}, {}};
    if (!m.mode.empty())
        s.lines.push_back(
            {"mode", "mode", m.mode + (m.mode_reason.empty() ? "" : " (" + m.mode_reason + ")")});
    if (!m.ended.empty()) s.lines.push_back({"ended", "ended", m.ended});
    if (!m.plan.empty()) s.lines.push_back({"plan", "plan followed", m.plan});
    add_fields(s, m, kRunFields);
    if (!m.fallbacks.empty()) {
        ReportTable table{"Served in a simpler way", {"times", "what"}, {true, false}, {}, ""};
        for (const auto& f : m.fallbacks) table.rows.push_back({std::to_string(f.count), f.what});
        s.tables.push_back(std::move(table));
    }
    return s;
}

}  // namespace

std::string short_bytes_text(std::int64_t bytes) {
    const std::string brief = short_bytes(bytes);
    return brief.empty() ? std::to_string(bytes) + " bytes" : brief;
}

std::string short_ns_text(std::int64_t ns) {
    const std::string brief = short_ns(ns);
    return brief.empty() ? std::to_string(ns) + " ns" : brief;
}

std::string bytes_text(std::int64_t bytes) {
    const std::string brief = short_bytes(bytes);
    return std::to_string(bytes) + " bytes" + (brief.empty() ? "" : " (" + brief + ")");
}

std::string ns_text(std::int64_t ns) {
    const std::string brief = short_ns(ns);
    return std::to_string(ns) + " ns" + (brief.empty() ? "" : " (" + brief + ")");
}

std::string ratio_text(std::int64_t value, std::int64_t base) {
    return fixed(static_cast<double>(value) / static_cast<double>(base), 3) + "x";
}

std::vector<ReportSection> report_sections(const ReportModel& m) {
    std::vector<ReportSection> sections;
    const auto add = [&](ReportSection s) {
        if (!s.lines.empty() || !s.tables.empty() || !s.paragraphs.empty()) sections.push_back(std::move(s));
    };
    add({kVerdictTitle, {}, {}, report_verdict(m)});
    add(device_section(m));
    add(time_section(m));
    add(stall_section(m));
    add(growth_section(m));
    add(what_if_section(m));
    add(swap_section(m));
    add(unmovable_section(m));
    add(run_section(m));
    add({"Notes", {}, {}, m.notes});
    return sections;
}

}  // namespace swapadvisor
