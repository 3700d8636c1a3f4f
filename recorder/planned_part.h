// The part of an iteration that plans move, as a graph of its own, and what tells whether a program is the one
// that such a graph was made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/device_model.h"
#include "recorder/export.h"
#include "recorder/iteration.h"

namespace swapadvisor {

/// The iteration without what plans do not move (arena and unmovable buffers). `ids`: tensor of the result ->
/// tensor. A tensor that the program frees a little after its last use counts as used until then, where that
/// leaves no op with more than `held_bytes`: its place is not to be had before, and the alternative, copying
/// it out, would not be in the plan's figures.
Iteration planned_part(const Iteration& iteration, std::int64_t held_bytes, std::vector<std::int32_t>& ids);

/// An op's name, geometry and large buffers, the same in every run and on every machine.
std::string stable_key(const Iteration& iteration, const OpRecord& op, const std::string& name);

/// The iteration as the program sees it: what lies in pages, not the pages themselves.
Iteration without_pages(const Iteration& iteration);

/// Device memory, in whole pages, that stays taken whatever a plan does: `small_peak_bytes` of small
/// allocations, and what the iteration uses and may not move.
std::int64_t resident_bytes(const Iteration& iteration, std::int64_t small_peak_bytes);

/// Graph of planned_part() for a plan that the runtime is to follow within `limit_bytes` (0: any). Two fields
/// more than graph_json(): `resident_bytes` as given, of the limit not the plan's; and `program`, for each op
/// [key, name, [the tensor of each of its large buffers, -1 where that does not move]].
std::string planned_graph_json(const Iteration& iteration, const DeviceModel& device, const GraphNames& names,
                               std::int64_t limit_bytes, std::int64_t resident_bytes);

}  // namespace swapadvisor
