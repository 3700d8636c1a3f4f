#include "recorder/export.h"

#include <algorithm>
#include <vector>

#include "recorder/json_writer.h"

namespace swapadvisor {
namespace {

// For ops that were never timed: what a mid-range device would need to read and write what they touch.
constexpr std::int64_t kDeviceBytesPerUs = 500'000;
constexpr std::int64_t kLaunchNs = 2'000;

// Where the recording does not say: PCIe 3 x16, and memory that is no limit.
const DeviceModel kAssumedLink{"", 0, 12'000'000'000, 12'000'000'000, 20'000'000'000, 10'000};
constexpr std::int64_t kAssumedMemory = std::int64_t{1} << 40;

bool link_measured(const DeviceModel& d) {
    return d.h2d_bytes_per_s > 0 && d.d2h_bytes_per_s > 0 && d.duplex_bytes_per_s > 0;
}

bool wraps(const TensorRecord& t) {
    return !t.persistent && t.birth_event >= 0 && t.death_event >= 0 && t.death_event < t.birth_event;
}

}  // namespace

const char* op_kind_name(OpKind kind) {
    switch (kind) {
        case OpKind::kernel:
            return "kernel";
        case OpKind::memcpy_h2d:
            return "memcpy_h2d";
        case OpKind::memcpy_d2h:
            return "memcpy_d2h";
        case OpKind::memcpy_d2d:
            return "memcpy_d2d";
        case OpKind::memset:
            return "memset";
        case OpKind::graph:
            return "graph";
    }
    return "op";
}

std::int64_t op_duration_or_estimate(const Iteration& iteration, const OpRecord& op,
                                     const DeviceModel& device) {
    if (op.duration_ns > 0) return op.duration_ns;
    std::int64_t bytes = 0;
    for (const OpRecord::Use& use : op.uses)
        bytes += iteration.tensors[static_cast<std::size_t>(use.tensor)].bytes;
    const DeviceModel& link = link_measured(device) ? device : kAssumedLink;
    std::int64_t bytes_per_us = kDeviceBytesPerUs;
    if (op.kind == OpKind::memcpy_h2d) bytes_per_us = link.h2d_bytes_per_s / 1'000'000;
    if (op.kind == OpKind::memcpy_d2h) bytes_per_us = link.d2h_bytes_per_s / 1'000'000;
    return kLaunchNs + bytes / std::max<std::int64_t>(1, bytes_per_us) * 1000;
}

std::string tensor_display_name(const Iteration& iteration, std::size_t index, const GraphNames& names) {
    const TensorRecord& t = iteration.tensors[index];
    if (t.observed != kNoBuffer && names.buffer_name) {
        std::string name = names.buffer_name(t.observed);
        if (!name.empty()) return name;
    }
    if (t.paged && !t.small) return "page of small buffers " + std::to_string(index);
    const std::string range = range_display_name(t.range, names);
    return (range.empty() ? "" : range + " ") + (t.persistent ? "state" : "tensor") + std::to_string(index);
}

std::string range_display_name(std::uint64_t range, const GraphNames& names) {
    return range != 0 && names.range_name ? names.range_name(range) : "";
}

std::string op_display_name(const OpRecord& op, const GraphNames& names) {
    if (op.kind == OpKind::kernel && names.function_name) {
        std::string name = names.function_name(op.function);
        if (!name.empty()) return name;
    }
    return op_kind_name(op.kind);
}

std::string graph_json(const Iteration& iteration, const DeviceModel& device, const GraphNames& names) {
    JsonWriter json;
    json.object();
    json.field("format", "swapadvisor-graph").field("version", 1).field("name", names.graph);
    json.field("source", names.source);
    json.key("device").object();
    if (!device.name.empty()) json.field("name", device.name);
    // Rates are measured late, if at all; a graph must have some.
    const bool measured = link_measured(device);
    const DeviceModel& link = measured ? device : kAssumedLink;
    json.field("memory_bytes", device.memory_bytes > 0 ? device.memory_bytes : kAssumedMemory)
        .field("h2d_bytes_per_s", link.h2d_bytes_per_s)
        .field("d2h_bytes_per_s", link.d2h_bytes_per_s)
        .field("duplex_bytes_per_s", link.duplex_bytes_per_s)
        .field("transfer_latency_ns", link.transfer_latency_ns);
    if (!measured || device.memory_bytes <= 0) json.flag("assumed", true);
    json.end_object();

    json.key("tensors").array();
    for (std::size_t i = 0; i < iteration.tensors.size(); ++i) {
        const TensorRecord& t = iteration.tensors[i];
        json.newline().object().field("id", static_cast<std::int64_t>(i)).field("bytes", t.bytes);
        json.flag("persistent", t.persistent || wraps(t))
            .field("name", tensor_display_name(iteration, i, names));
        if (t.site != 0 && names.site_name) {
            const std::string site = names.site_name(t.site);
            if (!site.empty()) json.field("site", site);
        }
        if (wraps(t)) json.flag("wraps", true);
        if (t.escaped) json.flag("immovable", true);
        json.end_object();
    }
    json.newline().end_array();

    std::vector<bool> met(iteration.tensors.size());
    std::int64_t last_read_back = -1;
    json.key("ops").array();
    for (std::size_t i = 0; i < iteration.ops.size(); ++i) {
        const OpRecord& op = iteration.ops[i];
        json.newline()
            .object()
            .field("id", static_cast<std::int64_t>(i))
            .field("name", op_display_name(op, names));
        if (const std::string range = range_display_name(op.range, names); !range.empty())
            json.field("range", range);
        json.field("duration_ns", op_duration_or_estimate(iteration, op, device));
        json.key("reads").array();
        for (const OpRecord::Use& use : op.uses) {
            const auto t = static_cast<std::size_t>(use.tensor);
            const TensorRecord& tensor = iteration.tensors[t];
            // A newborn holds nothing that could be read: its first "read or write" is a write.
            const bool newborn = !met[t] && !tensor.persistent && !wraps(tensor);
            const bool reads = use.access == Access::read || (use.access == Access::read_write && !newborn);
            if (reads) json.value(use.tensor);
        }
        json.end_array().key("writes").array();
        for (const OpRecord::Use& use : op.uses) {
            met[static_cast<std::size_t>(use.tensor)] = true;
            if (use.access != Access::read && !use.unchanged) json.value(use.tensor);
        }
        json.end_array();
        if (op.stream != 0) json.field("stream", op.stream);
        // What the host sends may depend on what it has read before.
        if (op.kind == OpKind::memcpy_h2d && last_read_back >= 0)
            json.key("after").array().value(last_read_back).end_array();
        if (op.kind == OpKind::memcpy_d2h) last_read_back = static_cast<std::int64_t>(i);
        json.end_object();
    }
    json.newline().end_array().end_object();
    return json.take() + "\n";
}

}  // namespace swapadvisor
