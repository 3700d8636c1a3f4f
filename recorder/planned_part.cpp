#include "recorder/planned_part.h"

#include <algorithm>
#include <cstdio>

#include "recorder/json_writer.h"
#include "recorder/late_frees.h"
#include "recorder/signature.h"

namespace swapadvisor {
namespace {

constexpr std::int64_t kPage = std::int64_t{2} << 20;  // the driver's granularity

std::int64_t pages(std::int64_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

std::int64_t largest_working_set(const Iteration& iteration) {
    std::int64_t largest = 0;
    for (const OpRecord& op : iteration.ops) {
        std::int64_t bytes = 0;
        for (const OpRecord::Use& use : op.uses) {
            const TensorRecord& tensor = iteration.tensors[static_cast<std::size_t>(use.tensor)];
            if (!tensor.small && !tensor.escaped) bytes += tensor.bytes;
        }
        largest = std::max(largest, bytes);
    }
    return largest;
}

// Of all tensors those that `keep` names. `ids`: tensor of the result -> tensor of `iteration`.
template <class Keep>
Iteration part_of(const Iteration& iteration, Keep keep, std::vector<std::int32_t>& ids) {
    Iteration part = iteration;
    std::vector<std::int32_t> fresh(iteration.tensors.size(), -1);
    ids.clear();
    part.tensors.clear();
    for (std::size_t t = 0; t < iteration.tensors.size(); ++t) {
        if (!keep(t)) continue;
        fresh[t] = static_cast<std::int32_t>(ids.size());
        ids.push_back(static_cast<std::int32_t>(t));
        part.tensors.push_back(iteration.tensors[t]);
    }
    for (OpRecord& op : part.ops) {
        std::erase_if(op.uses, [&](const OpRecord::Use& use) {
            return fresh[static_cast<std::size_t>(use.tensor)] < 0;
        });
        for (OpRecord::Use& use : op.uses) use.tensor = fresh[static_cast<std::size_t>(use.tensor)];
    }
    std::erase_if(part.events, [&](const IterationEvent& event) {
        return event.kind != EventKind::op && fresh[static_cast<std::size_t>(event.index)] < 0;
    });
    for (IterationEvent& event : part.events)
        if (event.kind != EventKind::op) event.index = fresh[static_cast<std::size_t>(event.index)];
    return part;
}

}  // namespace

Iteration planned_part(const Iteration& iteration, std::int64_t held_bytes, std::vector<std::int32_t>& ids) {
    std::vector<bool> used(iteration.tensors.size(), false);
    for (const OpRecord& op : iteration.ops)
        for (const OpRecord::Use& use : op.uses) used[static_cast<std::size_t>(use.tensor)] = true;
    Iteration part = part_of(
        iteration,
        [&](std::size_t t) {
            const TensorRecord& tensor = iteration.tensors[t];
            return !tensor.small && !tensor.escaped && used[t];
        },
        ids);
    keep_until_freed(part, held_bytes);
    return part;
}

Iteration without_pages(const Iteration& iteration) {
    std::vector<std::int32_t> ids;
    return part_of(
        iteration, [&](std::size_t t) { return iteration.tensors[t].small || !iteration.tensors[t].paged; },
        ids);
}

std::string stable_key(const Iteration& iteration, const OpRecord& op, const std::string& name) {
    std::uint64_t key = static_cast<std::uint64_t>(op.kind) + 1;
    for (const char c : name) key = mix(key, static_cast<unsigned char>(c));
    for (const std::uint32_t word : op.geometry) key = mix(key, word);
    for (const OpRecord::Use& use : op.uses) {
        const TensorRecord& tensor = iteration.tensors[static_cast<std::size_t>(use.tensor)];
        if (!tensor.small) key = mix(key, static_cast<std::uint64_t>(tensor.bytes));
    }
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(key));
    return text;
}

std::int64_t resident_bytes(const Iteration& iteration, std::int64_t small_peak_bytes) {
    std::int64_t bytes = pages(small_peak_bytes);
    for (const TensorRecord& tensor : iteration.tensors)
        if (tensor.escaped && !tensor.small) bytes += pages(tensor.bytes);
    return bytes;
}

std::string planned_graph_json(const Iteration& iteration, const DeviceModel& device, const GraphNames& names,
                               std::int64_t limit_bytes, std::int64_t resident_bytes) {
    // An eighth is left for places that do not fit exactly.
    const std::int64_t room = std::max<std::int64_t>(limit_bytes - resident_bytes, 0);
    std::vector<std::int32_t> ids;
    const Iteration part =
        planned_part(iteration, std::max(room - room / 8, largest_working_set(iteration)), ids);
    std::string text = graph_json(part, device, names);
    text.erase(text.find_last_of('}'));

    std::vector<std::int32_t> fresh(iteration.tensors.size(), -1);
    for (std::size_t t = 0; t < ids.size(); ++t)
        fresh[static_cast<std::size_t>(ids[t])] = static_cast<std::int32_t>(t);
    JsonWriter json;
    json.object().field("resident_bytes", resident_bytes);
    json.key("program").array();
    for (const OpRecord& op : iteration.ops) {
        const std::string name = op_display_name(op, names);
        json.newline().array().value(stable_key(iteration, op, name)).value(name).array();
        for (const OpRecord::Use& use : op.uses)
            if (!iteration.tensors[static_cast<std::size_t>(use.tensor)].small)
                json.value(static_cast<std::int64_t>(fresh[static_cast<std::size_t>(use.tensor)]));
        json.end_array().end_array();
    }
    json.newline().end_array().end_object();
    return text + "," + json.take().substr(1) + "\n";
}

}  // namespace swapadvisor
