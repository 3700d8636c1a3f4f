#include "recorder/report_memory_viz.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>
#include <vector>

#include "recorder/json_writer.h"

namespace swapadvisor {
namespace {

using Buffer = ReportModel::BufferRow;

// The opcodes of pickle's protocol 2 that dictionaries, lists, texts and numbers need.
class Pickle {
  public:
    Pickle() { out_ = "\x80\x02"; }
    void dict() { out_ += "}("; }
    void end_dict() { out_ += 'u'; }
    void list() { out_ += "]("; }
    void end_list() { out_ += 'e'; }
    void text(const std::string& value) {
        out_ += 'X';
        little_endian(value.size(), 4);
        out_ += value;
    }
    void number(std::int64_t value) {
        out_ += "\x8a\x08";
        little_endian(static_cast<std::uint64_t>(value), 8);
    }
    void truth(bool value) { out_ += value ? '\x88' : '\x89'; }
    void pair(unsigned char a, unsigned char b) {
        for (const unsigned char value : {a, b}) {
            out_ += 'K';
            out_ += static_cast<char>(value);
        }
        out_ += '\x86';
    }
    void entry(const char* key, std::int64_t value) {
        text(key);
        number(value);
    }
    void entry(const char* key, const std::string& value) {
        text(key);
        text(value);
    }
    std::string take() { return std::move(out_) + '.'; }

  private:
    void little_endian(std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> 8 * i & 0xFF);
    }
    std::string out_;
};

// "f model.py:12 < g (libx.so+0x12)", innermost first.
void write_frames(Pickle& out, const std::string& site) {
    out.text("frames");
    out.list();
    for (std::size_t at = 0; at < site.size();) {
        const std::size_t end = std::min(site.find(" < ", at), site.size());
        const std::string frame = site.substr(at, end - at);
        at = end + 3;
        const std::size_t space = frame.rfind(' '), colon = frame.rfind(':');
        const bool line = colon != std::string::npos && colon + 1 < frame.size() &&
                          std::isdigit(static_cast<unsigned char>(frame[colon + 1])) &&
                          (space == std::string::npos || colon > space);
        const std::size_t place = space == std::string::npos ? 0 : space + 1;
        out.dict();
        out.entry("name", space == std::string::npos ? "" : valid_utf8(frame.substr(0, space)));
        out.entry("filename", valid_utf8(frame.substr(place, line ? colon - place : std::string::npos)));
        out.entry("line", line ? std::strtoll(frame.c_str() + colon + 1, nullptr, 10) : 0);
        out.end_dict();
    }
    out.end_list();
}

void write_segment(Pickle& out, const Buffer& b, std::int64_t address) {
    out.dict();
    out.entry("device", 0);
    out.entry("address", address);
    for (const char* size : {"total_size", "allocated_size", "active_size", "requested_size"})
        out.entry(size, b.bytes);
    out.entry("stream", 0);
    out.entry("segment_type", std::string("large"));
    out.text("segment_pool_id");
    out.pair(0, 0);
    out.text("is_expandable");
    out.truth(false);
    out.text("frames");
    out.list();
    out.end_list();
    out.text("blocks");
    out.list();
    out.dict();
    out.entry("address", address);
    out.entry("size", b.bytes);
    out.entry("requested_size", b.bytes);
    out.entry("state", std::string("active_allocated"));
    write_frames(out, b.site);
    out.end_dict();
    out.end_list();
    out.end_dict();
}

void write_event(Pickle& out, const char* action, const Buffer& b, std::int64_t address, std::int64_t ns) {
    out.dict();
    out.entry("action", std::string(action));
    out.entry("addr", address);
    out.entry("size", b.bytes);
    out.entry("stream", 0);
    out.entry("time_us", ns / 1000);
    write_frames(out, b.site);
    out.end_dict();
}

}  // namespace

std::string report_memory_viz(const ReportModel& m) {
    constexpr std::int64_t kFirst = std::int64_t{1} << 32, kGrain = 512;
    // Pages hold small buffers, which are rows of their own.
    std::vector<std::pair<const Buffer*, std::int64_t>> placed;
    std::int64_t next = kFirst;
    for (const Buffer& b : m.buffers) {
        if (b.page || b.bytes <= 0) continue;
        placed.emplace_back(&b, next);
        next += (b.bytes + kGrain - 1) / kGrain * kGrain;
    }
    struct Event {
        std::int64_t ns;
        bool frees;
        std::size_t index;
    };
    const auto at_start = [](const Buffer& b) { return b.persistent || b.dead_ns < b.born_ns; };
    std::vector<Event> events;
    for (std::size_t i = 0; i < placed.size(); ++i) {
        const Buffer& b = *placed[i].first;
        events.push_back({at_start(b) ? -1 : b.born_ns, false, i});
        if (!b.persistent) events.push_back({b.dead_ns, true, i});
        if (!b.persistent && at_start(b)) events.push_back({b.born_ns, false, i});
    }
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return a.ns != b.ns ? a.ns < b.ns : a.frees && !b.frees;
    });
    Pickle out;
    out.dict();
    out.text("segments");
    out.list();
    for (const auto& [b, address] : placed)
        if (at_start(*b)) write_segment(out, *b, address);
    out.end_list();
    out.text("device_traces");
    out.list();
    out.list();
    for (const Event& event : events) {
        const auto& [b, address] = placed[event.index];
        const std::int64_t ns = std::max<std::int64_t>(event.ns, 0);
        if (event.frees) {
            write_event(out, "free_requested", *b, address, ns);
            write_event(out, "free_completed", *b, address, ns);
        } else {
            write_event(out, "alloc", *b, address, ns);
        }
    }
    out.end_list();
    out.end_list();
    out.text("allocator_settings");
    out.dict();
    out.end_dict();
    out.end_dict();
    return out.take();
}

}  // namespace swapadvisor
