#include "recorder/report_parse.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "recorder/report_fields.h"

namespace swapadvisor {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& why) {
    throw std::runtime_error("the report cannot be read: " + why);
}

class Object {
  public:
    Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
        if (!json.is_object()) refuse(where_ + " is no object");
    }
    void number(const char* name, std::int64_t& out, bool needed = true) const {
        const auto found = json_.find(name);
        if (found == json_.end()) {
            if (needed) missing(name);
            return;
        }
        if (!found->is_number_integer()) refuse(where_ + "." + name + " is no integer");
        if (found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX)
            refuse(where_ + "." + name + " is too large");
        out = found->get<std::int64_t>();
        if (out < 0) refuse(where_ + "." + name + " is negative");
    }
    void text(const char* name, std::string& out, bool needed = true) const {
        const auto found = json_.find(name);
        if (found == json_.end()) {
            if (needed) missing(name);
            return;
        }
        if (!found->is_string()) refuse(where_ + "." + name + " is no text");
        out = found->get<std::string>();
    }
    void flag(const char* name, bool& out) const {
        const auto found = json_.find(name);
        if (found == json_.end()) missing(name);
        if (!found->is_boolean()) refuse(where_ + "." + name + " is neither true nor false");
        out = found->get<bool>();
    }
    // read(Object, row) for every element.
    template <class Row, class Read>
    void rows(const char* name, std::vector<Row>& out, Read&& read) const {
        const auto found = json_.find(name);
        if (found == json_.end()) missing(name);
        if (!found->is_array()) refuse(where_ + "." + name + " is no list");
        for (std::size_t i = 0; i < found->size(); ++i) {
            Row row;
            read(Object((*found)[i], where_ + "." + name + "[" + std::to_string(i) + "]"), row);
            out.push_back(std::move(row));
        }
    }
    Object object(const char* name) const {
        const auto found = json_.find(name);
        if (found == json_.end()) missing(name);
        return Object(*found, where_ + "." + name);
    }
    bool has(const char* name) const { return json_.contains(name); }
    /// Whole numbers; none where there is no such list.
    void numbers(const char* name, std::vector<std::int64_t>& out) const {
        const auto found = json_.find(name);
        if (found == json_.end()) return;
        if (!found->is_array()) refuse(where_ + "." + name + " is no list");
        for (const Json& element : *found) {
            if (!element.is_number_integer())
                refuse(where_ + "." + name + " holds something that is no whole number");
            out.push_back(element.get<std::int64_t>());
        }
    }
    void texts(const char* name, std::vector<std::string>& out) const {
        const auto found = json_.find(name);
        if (found == json_.end()) missing(name);
        if (!found->is_array()) refuse(where_ + "." + name + " is no list");
        for (const Json& element : *found) {
            if (!element.is_string()) refuse(where_ + "." + name + " holds something that is no text");
            out.push_back(element.get<std::string>());
        }
    }

  private:
    [[noreturn]] void missing(const char* name) const { refuse(where_ + " lacks " + name); }
    const Json& json_;
    std::string where_;
};

}  // namespace

ReportModel parse_report_json(const std::string& text) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) refuse("it is no JSON");
    const Object root(json, "report");
    std::string format;
    std::int64_t version = 0;
    root.text("format", format);
    if (format != "swapadvisor-report") refuse("format is not swapadvisor-report");
    root.number("version", version);
    if (version != 1) refuse("version " + std::to_string(version) + " is not known here, only 1");

    ReportModel m;
    root.text("source", m.source);
    root.text("program", m.program);
    const Object device = root.object("device");
    device.text("name", m.device.name, false);
    device.number("memory_bytes", m.device.memory_bytes);
    device.number("h2d_bytes_per_s", m.device.h2d_bytes_per_s);
    device.number("d2h_bytes_per_s", m.device.d2h_bytes_per_s);
    device.number("duplex_bytes_per_s", m.device.duplex_bytes_per_s);
    device.number("transfer_latency_ns", m.device.transfer_latency_ns);
    root.text("mode", m.mode, false);
    root.text("mode_reason", m.mode_reason, false);
    root.text("ended", m.ended, false);
    root.text("plan", m.plan, false);
    root.text("peak_op_name", m.peak_op_name, false);
    for_each_field([&](const ReportField& f) { root.number(f.name, m.*f.member, false); });
    root.rows("fallbacks", m.fallbacks, [](const Object& o, ReportModel::Count& r) {
        o.text("what", r.what);
        o.number("count", r.count);
    });
    root.rows("unmovable", m.unmovable, [](const Object& o, ReportModel::Unmovable& r) {
        o.text("site", r.site, false);
        o.text("reason", r.reason);
        o.number("buffers", r.buffers);
        o.number("bytes", r.bytes);
    });
    root.texts("notes", m.notes);
    root.rows("peak", m.peak, [](const Object& o, ReportModel::PeakEntry& r) {
        o.text("site", r.site, false);
        o.number("buffers", r.buffers);
        o.number("bytes", r.bytes);
        o.flag("persistent", r.persistent);
    });
    root.rows("ops", m.ops, [](const Object& o, ReportModel::OpRow& r) {
        o.number("op", r.op);
        o.text("name", r.name);
        o.text("site", r.site, false);
        o.number("stream", r.stream);
        o.number("start_ns", r.start_ns, false);
        o.number("duration_ns", r.duration_ns);
        o.number("touched_bytes", r.touched_bytes);
        o.number("in_bytes", r.in_bytes);
        o.number("out_bytes", r.out_bytes);
        o.number("stall_ns", r.stall_ns);
    });
    root.rows("buffers", m.buffers, [](const Object& o, ReportModel::BufferRow& r) {
        o.number("tensor", r.tensor);
        o.text("name", r.name);
        o.text("site", r.site, false);
        o.number("bytes", r.bytes);
        o.flag("persistent", r.persistent);
        if (o.has("page")) o.flag("page", r.page);
        o.number("born_ns", r.born_ns);
        o.number("dead_ns", r.dead_ns);
        o.numbers("uses", r.uses);
    });
    root.rows("swaps", m.swaps, [](const Object& o, ReportModel::SwapRow& r) {
        o.number("tensor", r.tensor, false);
        o.text("name", r.name);
        o.text("kind", r.kind);
        o.number("bytes", r.bytes);
        o.number("start_ns", r.start_ns);
        o.number("end_ns", r.end_ns);
        o.number("after_op", r.after_op, false);
        o.number("before_op", r.before_op, false);
    });
    root.rows("timeline", m.timeline, [](const Object& o, ReportModel::Sample& r) {
        o.number("ns", r.ns);
        o.number("live_bytes", r.live_bytes);
        o.number("resident_bytes", r.resident_bytes);
        o.number("swapped_bytes", r.swapped_bytes);
        o.number("pinned_bytes", r.pinned_bytes);
    });
    if (!root.has("stalls")) return m;  // written before there were these
    root.rows("stalls", m.stalls, [](const Object& o, ReportModel::StallRow& r) {
        o.number("op", r.op);
        o.number("stall_ns", r.stall_ns);
        o.number("tensor", r.tensor, false);
        o.text("cause", r.cause);
        o.text("why", r.why);
        o.text("remedy", r.remedy, false);
    });
    root.rows("run", m.run, [](const Object& o, ReportModel::RunSample& r) {
        o.number("ops", r.ops);
        o.number("end_ns", r.end_ns);
        o.number("least_live_bytes", r.least_live_bytes);
        o.number("most_live_bytes", r.most_live_bytes);
        o.number("most_resident_bytes", r.most_resident_bytes);
        o.number("in_bytes", r.in_bytes);
        o.number("out_bytes", r.out_bytes);
        o.number("stall_ns", r.stall_ns);
    });
    root.rows("growing", m.growing, [](const Object& o, ReportModel::GrowthRow& r) {
        o.text("site", r.site, false);
        o.number("from_bytes", r.from_bytes);
        o.number("to_bytes", r.to_bytes);
        o.number("bytes_per_iteration", r.bytes_per_iteration);
    });
    root.rows("what_if", m.what_if, [](const Object& o, ReportModel::WhatIf& r) {
        o.number("limit_bytes", r.limit_bytes);
        o.number("period_ns", r.period_ns);
    });
    return m;
}

}  // namespace swapadvisor
