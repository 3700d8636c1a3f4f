#include "recorder/report_perfetto.h"

#include <algorithm>
#include <unordered_map>

#include "recorder/json_writer.h"

namespace swapadvisor {
namespace {

// Tracks of the one process.
constexpr std::int64_t kInLane = 1001, kOutLane = 1002, kFirstStream = 1;

// Nanoseconds as the format's microseconds, exactly.
std::string microseconds(std::int64_t ns) {
    const std::string fraction = std::to_string(1000 + ns % 1000).substr(1);
    return std::to_string(ns / 1000) + "." + fraction;
}

class Events {
  public:
    Events() { out_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"; }

    void name(const char* what, std::int64_t tid, const std::string& name) {
        begin("M", what, tid);
        out_ += ",\"args\":{\"name\":" + json_string(name) + "}}";
    }
    void sort(std::int64_t tid, std::int64_t index) {
        begin("M", "thread_sort_index", tid);
        out_ += ",\"args\":{\"sort_index\":" + std::to_string(index) + "}}";
    }
    void slice(std::int64_t tid, const std::string& name, std::int64_t start, std::int64_t duration,
               const std::string& args) {
        begin("X", name, tid);
        out_ += ",\"ts\":" + microseconds(start) +
                ",\"dur\":" + microseconds(std::max<std::int64_t>(duration, 1)) + ",\"args\":{" + args + "}}";
    }
    void counter(const char* name, std::int64_t ns, std::int64_t value, const char* unit = "bytes") {
        begin("C", name, 0);
        out_ += ",\"ts\":" + microseconds(ns) + ",\"args\":{\"" + unit + "\":" + std::to_string(value) + "}}";
    }
    /// An arrow between the slices that begin at these times.
    void flow(std::int64_t from_tid, std::int64_t from_ns, std::int64_t to_tid, std::int64_t to_ns) {
        ++flows_;
        begin("s", "swap", from_tid);
        out_ +=
            ",\"cat\":\"swap\",\"id\":" + std::to_string(flows_) + ",\"ts\":" + microseconds(from_ns) + "}";
        begin("f", "swap", to_tid);
        out_ += ",\"cat\":\"swap\",\"bp\":\"e\",\"id\":" + std::to_string(flows_) +
                ",\"ts\":" + microseconds(to_ns) + "}";
    }
    std::string take() { return std::move(out_) + "\n]}\n"; }

  private:
    void begin(const char* phase, const std::string& name, std::int64_t tid) {
        if (!first_) out_ += ",\n";
        first_ = false;
        out_ += std::string("{\"ph\":\"") + phase + "\",\"pid\":1,\"tid\":" + std::to_string(tid) +
                ",\"name\":" + json_string(name);
    }
    std::string out_;
    bool first_ = true;
    std::int64_t flows_ = 0;
};

std::string number(const char* key, std::int64_t value) {
    return "\"" + std::string(key) + "\":" + std::to_string(value);
}

}  // namespace

std::string report_perfetto(const ReportModel& m) {
    Events events;
    events.name("process_name", 0, m.program);
    std::int64_t streams = 1;
    for (const auto& op : m.ops)
        streams = std::max(streams, std::min<std::int64_t>(op.stream + 1, kInLane - kFirstStream));
    for (std::int64_t s = 0; s < streams; ++s) {
        events.name("thread_name", kFirstStream + s, "stream " + std::to_string(s));
        events.sort(kFirstStream + s, s);
    }
    events.name("thread_name", kInLane, "swap in");
    events.sort(kInLane, 2000);
    events.name("thread_name", kOutLane, "swap out");
    events.sort(kOutLane, 2001);
    const auto lane = [&](const ReportModel::OpRow& op) {
        return kFirstStream + std::clamp<std::int64_t>(op.stream, 0, streams - 1);
    };
    std::unordered_map<std::int64_t, const std::string*> why;
    for (const auto& stall : m.stalls) why[stall.op] = &stall.why;
    for (const auto& op : m.ops) {
        if (op.stall_ns > 0)
            events.slice(
                lane(op), "(waiting for copies)", std::max<std::int64_t>(op.start_ns - op.stall_ns, 0),
                op.stall_ns,
                number("op", op.op) + (why.count(op.op) ? ",\"why\":" + json_string(*why[op.op]) : ""));
        events.slice(lane(op), op.name, std::max<std::int64_t>(op.start_ns, 0), op.duration_ns,
                     number("op", op.op) + "," + number("touched_bytes", op.touched_bytes) + "," +
                         number("in_bytes", op.in_bytes) + "," + number("out_bytes", op.out_bytes));
    }
    const auto op_at = [&](std::int64_t position) -> const ReportModel::OpRow* {
        return position >= 0 && position < static_cast<std::int64_t>(m.ops.size())
                   ? &m.ops[static_cast<std::size_t>(position)]
                   : nullptr;
    };
    std::unordered_map<std::int64_t, const std::string*> site_of;
    for (const auto& b : m.buffers)
        if (!b.site.empty()) site_of[b.tensor] = &b.site;
    for (const auto& swap : m.swaps) {
        if (swap.kind == "drop") continue;
        const bool in = swap.kind == "in";
        const std::int64_t tid = in ? kInLane : kOutLane;
        std::string args = number("bytes", swap.bytes);
        if (const auto site = site_of.find(swap.tensor); site != site_of.end())
            args += ",\"site\":" + json_string(*site->second);
        events.slice(tid, swap.kind + " " + swap.name, swap.start_ns, swap.end_ns - swap.start_ns, args);
        if (const auto* after = op_at(swap.after_op))
            events.flow(lane(*after), std::max<std::int64_t>(after->start_ns, 0), tid, swap.start_ns);
        // What arrives for the next iteration's start has its user behind it.
        if (const auto* before = in ? op_at(swap.before_op) : nullptr;
            before && before->start_ns >= swap.start_ns)
            events.flow(tid, swap.start_ns, lane(*before), std::max<std::int64_t>(before->start_ns, 0));
    }
    const std::int64_t end = m.timeline.empty() ? 0 : m.timeline.back().ns;
    if (m.limit_bytes > 0 && end > 0)
        for (const std::int64_t ns : {std::int64_t{0}, end}) events.counter("limit", ns, m.limit_bytes);
    std::int64_t stalled = 0;
    for (const auto& op : m.ops)
        if (op.stall_ns > 0) {
            events.counter("stalled", std::max<std::int64_t>(op.start_ns - op.stall_ns, 0), stalled, "ns");
            stalled += op.stall_ns;
            events.counter("stalled", op.start_ns, stalled, "ns");
        }
    for (const auto& s : m.timeline) {
        events.counter("live", s.ns, s.live_bytes);
        events.counter("resident", s.ns, s.resident_bytes);
        events.counter("swapped", s.ns, s.swapped_bytes);
        events.counter("pinned", s.ns, s.pinned_bytes);
    }
    return events.take();
}

}  // namespace swapadvisor
