#include "recorder/report_diff.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "recorder/json_writer.h"
#include "recorder/report_fields.h"
#include "recorder/report_sections.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kRowsShown = 15;

struct Change {
    std::string name;
    std::int64_t before = 0, after = 0;
    std::int64_t difference() const { return after - before; }
};

void sort_and_trim(std::vector<Change>& changes) {
    changes.erase(
        std::remove_if(changes.begin(), changes.end(), [](const Change& c) { return c.difference() == 0; }),
        changes.end());
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
        return std::llabs(a.difference()) > std::llabs(b.difference());
    });
}

// Sums of one column by name, in both reports.
template <class Row, class Key, class Value>
std::vector<Change> by_name(const std::vector<Row>& before, const std::vector<Row>& after, Key key,
                            Value value) {
    std::map<std::string, Change> merged;
    for (const Row& row : before) merged[key(row)].before += value(row);
    for (const Row& row : after) merged[key(row)].after += value(row);
    std::vector<Change> changes;
    for (auto& [name, change] : merged) {
        change.name = name.empty() ? "(unknown)" : name;
        changes.push_back(std::move(change));
    }
    sort_and_trim(changes);
    return changes;
}

struct Diff {
    std::vector<std::pair<const ReportField*, Change>> fields;
    std::vector<Change> op_time, op_stall, peak;
};

Diff compare(const ReportModel& a, const ReportModel& b) {
    Diff diff;
    for_each_field([&](const ReportField& f) {
        if (f.member == &ReportModel::pid || (a.*f.member == kUnknown && b.*f.member == kUnknown)) return;
        diff.fields.push_back({&f, {f.name, a.*f.member, b.*f.member}});
    });
    using Op = ReportModel::OpRow;
    const auto name = [](const Op& op) { return op.name; };
    diff.op_time = by_name(a.ops, b.ops, name, [](const Op& op) { return op.duration_ns; });
    diff.op_stall = by_name(a.ops, b.ops, name, [](const Op& op) { return op.stall_ns; });
    using Peak = ReportModel::PeakEntry;
    diff.peak = by_name(
        a.peak, b.peak, [](const Peak& p) { return p.site; }, [](const Peak& p) { return p.bytes; });
    return diff;
}

std::string signed_text(std::int64_t value) {
    return (value > 0 ? "+" : "") + std::to_string(value);
}

std::string unit_text(ReportUnit unit, std::int64_t value) {
    if (value == kUnknown) return "-";
    return unit == ReportUnit::bytes ? bytes_text(value)
           : unit == ReportUnit::ns  ? ns_text(value)
                                     : std::to_string(value);
}

void write_changes(std::string& out, const char* title, const std::vector<Change>& changes, ReportUnit unit) {
    if (changes.empty()) return;
    out += std::string("\n") + title + "\n";
    for (std::size_t i = 0; i < std::min(kRowsShown, changes.size()); ++i) {
        const Change& c = changes[i];
        out += "  " + signed_text(c.difference()) + (unit == ReportUnit::ns ? " ns  " : " bytes  ") + c.name +
               ": " + unit_text(unit, c.before) + " -> " + unit_text(unit, c.after) + "\n";
    }
    if (changes.size() > kRowsShown)
        out += "  and " + std::to_string(changes.size() - kRowsShown) + " more\n";
}

void write_changes(JsonWriter& json, const char* key, const char* unit, const std::vector<Change>& changes) {
    const std::string before = std::string("before_") + unit, after = std::string("after_") + unit;
    json.newline().key(key).array();
    for (const Change& c : changes)
        json.newline()
            .object()
            .field("name", c.name)
            .field(before, c.before)
            .field(after, c.after)
            .end_object();
    json.end_array();
}

}  // namespace

std::string report_diff_text(const ReportModel& a, const ReportModel& b) {
    const Diff diff = compare(a, b);
    std::string out =
        "A: " + a.source + " of " + a.program + "\nB: " + b.source + " of " + b.program + "\n\n";
    std::size_t width = 0;
    for (const auto& [field, change] : diff.fields) width = std::max(width, std::string(field->label).size());
    bool any = false;
    for (const auto& [field, change] : diff.fields) {
        std::string line =
            std::string("  ") + field->label + std::string(width - std::string(field->label).size() + 2, ' ');
        if (change.before == change.after) continue;
        any = true;
        line += unit_text(field->unit, change.before) + " -> " + unit_text(field->unit, change.after);
        if (change.before > 0 && change.after != kUnknown)
            line += ", " + ratio_text(change.after, change.before);
        out += line + "\n";
    }
    if (!any) out += "  No figure differs.\n";
    write_changes(out, "Live at the peak, by call site", diff.peak, ReportUnit::bytes);
    write_changes(out, "Time of ops, by name", diff.op_time, ReportUnit::ns);
    write_changes(out, "Stalls before ops, by name", diff.op_stall, ReportUnit::ns);
    return out;
}

std::string report_diff_json(const ReportModel& a, const ReportModel& b) {
    const Diff diff = compare(a, b);
    JsonWriter json;
    json.object().field("format", "swapadvisor-diff").field("version", 1);
    json.field("before", a.program).field("after", b.program);
    json.newline().key("fields").array();
    for (const auto& [field, change] : diff.fields) {
        json.newline().object().field("name", field->name);
        if (change.before != kUnknown) json.field("before", change.before);
        if (change.after != kUnknown) json.field("after", change.after);
        json.end_object();
    }
    json.end_array();
    write_changes(json, "peak", "bytes", diff.peak);
    write_changes(json, "op_time", "ns", diff.op_time);
    write_changes(json, "op_stall", "ns", diff.op_stall);
    json.newline().end_object();
    return json.take() + "\n";
}

namespace {

/// "peak" is peak_bytes, "measured" is measured_ns_per_iteration.
const ReportField* field_called(const std::string& name) {
    const ReportField* found = nullptr;
    for_each_field([&](const ReportField& field) {
        const std::string full = field.name;
        for (const char* unit : {"", "_bytes", "_ns", "_ns_per_iteration", "_bytes_per_iteration"})
            if (full == name + unit && (!found || *unit == 0)) found = &field;
    });
    return found;
}

}  // namespace

Regression parse_regression(const std::string& text) {
    Regression condition;
    condition.text = text;
    const std::size_t sign = text.find(">+");
    char* end = nullptr;
    if (sign != std::string::npos) {
        condition.field = text.substr(0, sign);
        condition.per_cent = std::strtod(text.c_str() + sign + 2, &end);
    }
    if (!end || end == text.c_str() + sign + 2 || std::string(end) != "%" || !(condition.per_cent >= 0))
        throw std::runtime_error(text + " is no condition: write peak>+5%");
    if (!field_called(condition.field))
        throw std::runtime_error(text + ": reports have no figure " + condition.field +
                                 " (peak, measured, stall, in, out, ... as in report --json)");
    return condition;
}

std::string find_regression(const ReportModel& a, const ReportModel& b, const Regression& condition) {
    const ReportField& field = *field_called(condition.field);
    const std::int64_t before = a.*field.member, after = b.*field.member;
    if (before == kUnknown || after == kUnknown)
        throw std::runtime_error(condition.text + ": " + (before == kUnknown ? "the first" : "the second") +
                                 " report does not know " + field.name);
    if (static_cast<double>(after) <= static_cast<double>(before) * (1 + condition.per_cent / 100)) return "";
    return condition.text + ": " + field.label + " " + unit_text(field.unit, before) + " -> " +
           unit_text(field.unit, after);
}

}  // namespace swapadvisor
