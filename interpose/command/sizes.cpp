#include "interpose/command/sizes.h"

#include <fmt/format.h>

#include <cmath>

#include "interpose/config.h"

namespace swapadvisor::command {

std::optional<std::int64_t> parse_size(std::string_view text) {
    std::uint64_t bytes = 0;
    if (!parse_bytes(text, bytes)) return std::nullopt;
    return static_cast<std::int64_t>(bytes);
}

std::optional<std::int64_t> parse_rate(std::string_view text) {
    if (text.ends_with("/s") || text.ends_with("/S")) text.remove_suffix(2);
    std::uint64_t bytes = 0;
    if (!parse_bytes(text, bytes, 1000)) return std::nullopt;
    return static_cast<std::int64_t>(bytes);
}

std::string format_bytes(std::int64_t bytes) {
    const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    int unit = 0;
    for (; std::abs(value) >= 1024 && unit < 4; ++unit) value /= 1024;
    return unit == 0 ? fmt::format("{} B", bytes)
                     : fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, units[unit]);
}

std::string format_ns(std::int64_t ns) {
    const auto value = static_cast<double>(ns);
    if (ns >= 1'000'000'000) return fmt::format("{:.4f} s", value * 1e-9);
    if (ns >= 1'000'000) return fmt::format("{:.3f} ms", value * 1e-6);
    if (ns >= 1'000) return fmt::format("{:.3f} us", value * 1e-3);
    return fmt::format("{} ns", ns);
}

}  // namespace swapadvisor::command
