// Buffers that a program frees a little after their last use: their place cannot be given to others before,
// whatever the accesses say.
#pragma once

#include <cstdint>

#include "recorder/iteration.h"

namespace swapadvisor {

/// Lets the op before a free read what is freed, where that is a few ops after the last use and the op then
/// touches no more than `held_bytes`. A plan for the result leaves such a buffer where it is until the
/// program gives it back, instead of copying it out for whoever gets its place.
void keep_until_freed(Iteration& iteration, std::int64_t held_bytes);

/// The same for a plan within `limit_bytes`; 0: within any, so that no op touches more than the largest did.
Iteration kept_until_freed(const Iteration& iteration, std::int64_t limit_bytes = 0);

}  // namespace swapadvisor
