// Planners without search: for comparison, for a first plan at once, and as seeds of the search.
//   lru              on demand: the least recently used goes, `in` when an op needs it
//   belady           on demand: the one whose next use is farthest goes
//   belady-prefetch  the same victims, brought back as early as memory and the link allow
//   fast             victims leave as soon as they are not needed and are written back early; the best of a
//   few ranks
#pragma once

#include <string>

#include "planner/search/builder.h"

namespace swapadvisor::planner {

/// A plan by the named simple planner, in the given order. Throws PlanError when none can be made. `quick`: the first
/// that comes, with more memory left free where places are hard to find.
Built simple_plan(const Setting& setting, const std::string& planner, bool no_remaps, bool quick = false);

/// Evict-everything fall-back: valid whenever every op's own tensors fit.
std::optional<Built> last_resort(const Setting& setting, bool no_remaps);

}  // namespace swapadvisor::planner
