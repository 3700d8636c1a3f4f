#include "recorder/late_frees.h"

#include <algorithm>
#include <vector>

namespace swapadvisor {
namespace {

std::vector<std::int64_t> working_sets(const Iteration& iteration) {
    std::vector<std::int64_t> held(iteration.ops.size(), 0);
    for (std::size_t op = 0; op < iteration.ops.size(); ++op)
        for (const OpRecord::Use& use : iteration.ops[op].uses)
            held[op] += iteration.tensors[static_cast<std::size_t>(use.tensor)].bytes;
    return held;
}

}  // namespace

void keep_until_freed(Iteration& iteration, std::int64_t held_bytes) {
    constexpr std::int32_t kLate = 16;  // ops
    std::vector<std::int64_t> held = working_sets(iteration);
    std::vector<std::int32_t> last(iteration.tensors.size(), -1);
    for (std::size_t op = 0; op < iteration.ops.size(); ++op)
        for (const OpRecord::Use& use : iteration.ops[op].uses)
            last[static_cast<std::size_t>(use.tensor)] = static_cast<std::int32_t>(op);
    std::int32_t op = 0;
    for (const IterationEvent& event : iteration.events) {
        if (event.kind == EventKind::op) ++op;
        if (event.kind != EventKind::release) continue;
        const auto t = static_cast<std::size_t>(event.index);
        const TensorRecord& tensor = iteration.tensors[t];
        if (tensor.persistent || tensor.death_event < tensor.birth_event || last[t] < 0) continue;
        const std::int32_t until = op - 1;  // the op before the release
        if (until <= last[t] || until > last[t] + kLate) continue;
        const auto at = static_cast<std::size_t>(until);
        if (held[at] + tensor.bytes > held_bytes) continue;
        held[at] += tensor.bytes;
        iteration.ops[at].uses.push_back({event.index, Access::read});
    }
}

Iteration kept_until_freed(const Iteration& iteration, std::int64_t limit_bytes) {
    Iteration kept = iteration;
    // What is small stays on the device, and an eighth is left for places that do not fit exactly.
    std::int64_t held_bytes = limit_bytes - limit_bytes / 8;
    for (const TensorRecord& tensor : iteration.tensors)
        if (tensor.small && held_bytes > 0) held_bytes -= tensor.bytes;
    for (const std::int64_t bytes : working_sets(iteration)) held_bytes = std::max(held_bytes, bytes);
    keep_until_freed(kept, held_bytes);
    return kept;
}

}  // namespace swapadvisor
