// How fast this device copies, measured with real copies on the residency's own streams.
#pragma once

#include <cstdint>

#include "replayer/residency.h"

namespace swapadvisor {

struct CopyRates {
    std::int64_t h2d_bytes_per_s = 12'000'000'000;
    std::int64_t d2h_bytes_per_s = 12'000'000'000;
    std::int64_t duplex_bytes_per_s = 20'000'000'000;  ///< both directions together, both busy
    std::int64_t latency_ns = 10'000;
    bool measured = false;  ///< else: guesses
};

/// Takes a few milliseconds of copies and waits for them. Uses memory of the residency's budget for the time
/// being.
CopyRates measure_copy_rates(Residency& residency);

}  // namespace swapadvisor
