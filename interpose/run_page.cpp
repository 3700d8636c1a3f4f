#include "interpose/run_page.h"

#include <cstdio>

namespace swapadvisor {

std::string summary_text(const RunPage& page) {
    constexpr double kMiB = 1 << 20;
    char text[256];
    std::snprintf(text, sizeof text,
                  "%lld iterations, %lld of them by a plan; %.1f MiB held at most, within %.1f MiB",
                  static_cast<long long>(page.iterations), static_cast<long long>(page.planned_iterations),
                  static_cast<double>(page.peak_bytes) / kMiB, static_cast<double>(page.limit_bytes) / kMiB);
    return text;
}

}  // namespace swapadvisor
