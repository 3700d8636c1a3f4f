// 128-bit unsigned integers without the pedantic warning.
#pragma once

namespace swapadvisor::planner {
__extension__ using uint128 = unsigned __int128;
}  // namespace swapadvisor::planner
