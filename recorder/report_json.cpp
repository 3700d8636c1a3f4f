// Reports as JSON: "swapadvisor-report" version 1. What is not known is left out.
#include "recorder/json_writer.h"
#include "recorder/report_fields.h"

namespace swapadvisor {
namespace {

void field(JsonWriter& json, const char* name, std::int64_t value) {
    if (value != kUnknown) json.field(name, value);
}
void field(JsonWriter& json, const char* name, const std::string& value) {
    if (!value.empty()) json.field(name, value);
}

// An array of objects, one a line.
template <class Rows, class Write>
void rows(JsonWriter& json, const char* name, const Rows& all, Write&& write) {
    json.newline().key(name).array();
    for (const auto& row : all) {
        json.newline().object();
        write(row);
        json.end_object();
    }
    json.end_array();
}

}  // namespace

std::string report_json(const ReportModel& m) {
    JsonWriter json;
    json.object().field("format", "swapadvisor-report").field("version", 1);
    json.field("source", m.source).field("program", m.program);
    json.newline().key("device").object();
    field(json, "name", m.device.name);
    json.field("memory_bytes", m.device.memory_bytes)
        .field("h2d_bytes_per_s", m.device.h2d_bytes_per_s)
        .field("d2h_bytes_per_s", m.device.d2h_bytes_per_s)
        .field("duplex_bytes_per_s", m.device.duplex_bytes_per_s)
        .field("transfer_latency_ns", m.device.transfer_latency_ns)
        .end_object();
    json.newline();
    field(json, "mode", m.mode);
    field(json, "mode_reason", m.mode_reason);
    field(json, "ended", m.ended);
    field(json, "plan", m.plan);
    field(json, "peak_op_name", m.peak_op_name);
    for_each_field([&](const ReportField& f) { field(json, f.name, m.*f.member); });
    rows(json, "fallbacks", m.fallbacks,
         [&](const auto& r) { json.field("what", r.what).field("count", r.count); });
    rows(json, "unmovable", m.unmovable, [&](const auto& r) {
        field(json, "site", r.site);
        json.field("reason", r.reason).field("buffers", r.buffers).field("bytes", r.bytes);
    });
    json.newline().key("notes").array();
    for (const std::string& note : m.notes) json.value(note);
    json.end_array();
    rows(json, "peak", m.peak, [&](const auto& r) {
        field(json, "site", r.site);
        json.field("buffers", r.buffers).field("bytes", r.bytes).flag("persistent", r.persistent);
    });
    rows(json, "ops", m.ops, [&](const auto& r) {
        json.field("op", r.op).field("name", r.name);
        field(json, "site", r.site);
        json.field("stream", r.stream);
        field(json, "start_ns", r.start_ns);
        json.field("duration_ns", r.duration_ns).field("touched_bytes", r.touched_bytes);
        json.field("in_bytes", r.in_bytes).field("out_bytes", r.out_bytes).field("stall_ns", r.stall_ns);
    });
    rows(json, "buffers", m.buffers, [&](const auto& r) {
        json.field("tensor", r.tensor).field("name", r.name);
        field(json, "site", r.site);
        json.field("bytes", r.bytes).flag("persistent", r.persistent);
        if (r.page) json.flag("page", true);
        json.field("born_ns", r.born_ns).field("dead_ns", r.dead_ns);
        json.key("uses").array();
        for (const std::int64_t op : r.uses) json.value(op);
        json.end_array();
    });
    rows(json, "swaps", m.swaps, [&](const auto& r) {
        field(json, "tensor", r.tensor);
        json.field("name", r.name).field("kind", r.kind).field("bytes", r.bytes);
        json.field("start_ns", r.start_ns).field("end_ns", r.end_ns);
        field(json, "after_op", r.after_op);
        field(json, "before_op", r.before_op);
    });
    rows(json, "timeline", m.timeline, [&](const auto& r) {
        json.field("ns", r.ns).field("live_bytes", r.live_bytes).field("resident_bytes", r.resident_bytes);
        json.field("swapped_bytes", r.swapped_bytes).field("pinned_bytes", r.pinned_bytes);
    });
    rows(json, "stalls", m.stalls, [&](const auto& r) {
        json.field("op", r.op).field("stall_ns", r.stall_ns);
        field(json, "tensor", r.tensor);
        json.field("cause", r.cause).field("why", r.why);
        field(json, "remedy", r.remedy);
    });
    rows(json, "run", m.run, [&](const auto& r) {
        json.field("ops", r.ops).field("end_ns", r.end_ns);
        json.field("least_live_bytes", r.least_live_bytes).field("most_live_bytes", r.most_live_bytes);
        json.field("most_resident_bytes", r.most_resident_bytes);
        json.field("in_bytes", r.in_bytes).field("out_bytes", r.out_bytes).field("stall_ns", r.stall_ns);
    });
    rows(json, "growing", m.growing, [&](const auto& r) {
        field(json, "site", r.site);
        json.field("from_bytes", r.from_bytes).field("to_bytes", r.to_bytes);
        json.field("bytes_per_iteration", r.bytes_per_iteration);
    });
    rows(json, "what_if", m.what_if,
         [&](const auto& r) { json.field("limit_bytes", r.limit_bytes).field("period_ns", r.period_ns); });
    json.newline().end_object();
    return json.take() + "\n";
}

}  // namespace swapadvisor
