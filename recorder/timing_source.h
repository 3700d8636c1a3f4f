// Where the durations of ops come from.
#pragma once

#include <cstdint>

namespace swapadvisor {

/// automatic: CUPTI where it can be opened and delivers, else events.
enum class TimingSource : std::uint8_t { automatic, cupti, events };

}  // namespace swapadvisor
