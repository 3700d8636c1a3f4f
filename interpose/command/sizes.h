// Sizes and rates as people write them: 40GiB, 512MiB, 1.5GB, 16G (= GiB), 4096; 15.754GB/s, 25e9.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace swapadvisor::command {

/// Bytes; nothing if the text is not a size or does not fit 63 bits. kB, MB, GB, TB are powers of 1000; KiB,
/// MiB, GiB, TiB and the bare letters powers of 1024. Case does not matter.
std::optional<std::int64_t> parse_size(std::string_view text);

/// Bytes per second: a size, with or without "/s". Bare letters are powers of 1000 here.
std::optional<std::int64_t> parse_rate(std::string_view text);

std::string format_bytes(std::int64_t bytes);  ///< "39.8 GiB"
std::string format_ns(std::int64_t ns);        ///< "12.345 ms"

}  // namespace swapadvisor::command
