#include "recorder/report_verdict.h"

#include <algorithm>
#include <cstdio>

namespace swapadvisor {
namespace {

std::string size_of(std::int64_t bytes) {
    const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    int unit = 0;
    for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
    char text[48];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

std::string per_cent(std::int64_t part, std::int64_t whole) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%",
                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
    return text;
}

template <class Value>
const ReportModel::OpRow* greatest(const ReportModel& m, Value value) {
    const auto found = std::max_element(m.ops.begin(), m.ops.end(),
                                        [&](const auto& a, const auto& b) { return value(a) < value(b); });
    return found == m.ops.end() || value(*found) <= 0 ? nullptr : &*found;
}

std::string need(const ReportModel& m) {
    std::string text = "It needs " + size_of(m.peak_bytes) + " at once";
    if (m.limit_bytes <= 0) return text + ".";
    if (m.peak_bytes <= m.limit_bytes)
        return text + ", which fits into " + size_of(m.limit_bytes) + ": nothing has to move.";
    text += " and has " + size_of(m.limit_bytes);
    const std::int64_t alone = m.infinite_ns_per_iteration, measured = m.measured_ns_per_iteration;
    if (alone <= 0 || measured <= 0) return text + ".";
    text += ": an iteration takes " + per_cent(std::max<std::int64_t>(measured - alone, 0), alone) +
            " longer than with enough memory";
    if (m.stall_ns_per_iteration > 0) {
        text += ", and waits for copies " + per_cent(m.stall_ns_per_iteration, alone) + " of that time";
        if (const auto* op = greatest(m, [](const auto& o) { return o.stall_ns; })) {
            text += ", most before op " + std::to_string(op->op) + " (" + op->name + ")";
            if (!m.stalls.empty() && m.stalls.front().cause != "unknown") text += ": " + m.stalls.front().why;
        }
    }
    return text + ".";
}

std::string bounds(const ReportModel& m) {
    std::string text;
    if (m.limit_bytes > 0 && m.peak_bytes > m.limit_bytes && m.lower_bound_ns > 0 &&
        m.infinite_ns_per_iteration > 0)
        text = "In program order no plan within that memory is less than " +
               per_cent(std::max<std::int64_t>(m.lower_bound_ns - m.infinite_ns_per_iteration, 0),
                        m.infinite_ns_per_iteration) +
               " slower. ";
    const auto* op = greatest(m, [](const auto& o) { return o.touched_bytes; });
    if (op) {
        const std::int64_t least = std::max(m.least_limit_bytes, op->touched_bytes);
        text += "It cannot run below " + size_of(least) + ", since op " + std::to_string(op->op) + " (" +
                op->name + ") uses " + size_of(op->touched_bytes) + " alone";
        if (m.enough_bytes > least && m.enough_bytes < m.peak_bytes)
            text += "; " + size_of(m.enough_bytes) + " are enough for 95 % of the speed";
        text += ".";
    }
    return text;
}

std::string first_function(const std::string& site) {
    const std::string frame = site.substr(0, site.find(" < "));
    return frame.substr(0, frame.rfind(' '));
}

// The innermost two frames of a call site; without a program's own allocator, which all call sites at the peak end in.
std::string short_site(const ReportModel& m, std::string site) {
    std::size_t named = 0;
    bool shared = true;
    for (const auto& entry : m.peak) {
        named += !entry.site.empty();
        shared = shared && (entry.site.empty() || first_function(entry.site) == first_function(site));
    }
    if (const std::size_t next = site.find(" < "); shared && named > 1 && next != std::string::npos)
        site.erase(0, next + 3);
    std::size_t end = site.find(" < ");
    if (end != std::string::npos) end = site.find(" < ", end + 1);
    return site.substr(0, end);
}

std::string holder(const ReportModel& m) {
    if (m.peak.empty() || m.peak_bytes <= 0) return "";
    const auto& most = m.peak.front();
    return "At the peak " + per_cent(most.bytes, m.peak_bytes) + " is held by " +
           (most.buffers == 1 ? "one buffer" : std::to_string(most.buffers) + " buffers") + " of " +
           (most.site.empty() ? "an unknown call site" : short_site(m, most.site)) + ".";
}

std::string growth(const ReportModel& m) {
    if (m.growing.empty()) return "";
    const auto& most = m.growing.front();
    const std::string who = most.site.empty() ? "an unknown call site" : short_site(m, most.site);
    if (most.bytes_per_iteration > 0)
        return "With each iteration " + size_of(most.bytes_per_iteration) + " more are held by buffers of " +
               who + ".";
    return "More and more is held by buffers of " + who + ": " + size_of(most.from_bytes) + " early on, " +
           size_of(most.to_bytes) + " at the end.";
}

}  // namespace

std::vector<std::string> report_verdict(const ReportModel& m) {
    std::vector<std::string> sentences;
    if (m.peak_bytes <= 0) return sentences;
    for (const std::string& sentence : {need(m), bounds(m), holder(m), growth(m)})
        if (!sentence.empty()) sentences.push_back(sentence);
    return sentences;
}

}  // namespace swapadvisor
