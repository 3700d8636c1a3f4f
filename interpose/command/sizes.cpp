#include "interpose/command/sizes.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdlib>

namespace swapadvisor::command {
namespace {

std::optional<std::int64_t> parse(std::string_view text, bool bare_letter_is_binary) {
    const std::string copy(text);
    if (copy.empty() || !(std::isdigit(static_cast<unsigned char>(copy[0])) || copy[0] == '.'))
        return std::nullopt;
    if (copy.size() > 1 && (copy[1] == 'x' || copy[1] == 'X')) return std::nullopt;
    char* end = nullptr;
    const long double number = std::strtold(copy.c_str(), &end);
    std::string unit;
    for (; *end != '\0'; ++end)
        if (*end != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*end)));
    long double factor = 1;
    if (!unit.empty() && unit != "b") {
        const auto power = std::string_view("kmgt").find(unit[0]);
        if (power == std::string_view::npos) return std::nullopt;
        const std::string rest = unit.substr(1);
        const bool binary = rest == "ib" || rest == "i" || (rest.empty() && bare_letter_is_binary);
        if (!binary && !rest.empty() && rest != "b") return std::nullopt;
        factor = std::pow(binary ? 1024.0L : 1000.0L, static_cast<long double>(power) + 1);
    }
    const long double value = std::round(number * factor);
    if (!(value >= 0) || value >= 9223372036854775807.0L) return std::nullopt;
    return static_cast<std::int64_t>(value);
}

}  // namespace

std::optional<std::int64_t> parse_size(std::string_view text) {
    return parse(text, true);
}

std::optional<std::int64_t> parse_rate(std::string_view text) {
    if (text.size() > 2 && (text.substr(text.size() - 2) == "/s" || text.substr(text.size() - 2) == "/S"))
        text.remove_suffix(2);
    return parse(text, false);
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
