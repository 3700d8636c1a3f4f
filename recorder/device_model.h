// What graphs and reports say about the device: the machine of the interchange format, plus its name.
#pragma once

#include <cstdint>
#include <string>

namespace swapadvisor {

struct DeviceModel {
    std::string name;
    std::int64_t memory_bytes = 0;     ///< physical memory
    std::int64_t h2d_bytes_per_s = 0;  ///< one transfer, the other direction idle
    std::int64_t d2h_bytes_per_s = 0;
    std::int64_t duplex_bytes_per_s = 0;  ///< both directions together, both busy
    std::int64_t transfer_latency_ns = 0;
};

}  // namespace swapadvisor
