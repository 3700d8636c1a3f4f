// Device addresses inside data that goes to the device: pointer tables, patched tensor maps, linked
// structures. What is found that way may be used by any later kernel without being named in its arguments
// ("escaped").
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace swapadvisor {

/// Calls found(word) for every 8-byte word of `data` with low <= word < high. `device_address` is where the
/// data goes: words count at its 8-byte alignment. Several gigabytes per second when nothing is found.
template <class Found>
void find_addresses(const void* data, std::size_t bytes, std::uint64_t device_address, std::uint64_t low,
                    std::uint64_t high, Found&& found) {
    constexpr std::size_t kStride = 16;  // words per test: one branch for all of them
    const char* at = static_cast<const char*>(data);
    const char* const end = at + bytes;
    const std::size_t skip = (8 - device_address % 8) % 8;
    if (bytes < skip || high <= low) return;
    at += skip;
    const std::uint64_t span = high - low;
    const auto word = [](const char* p) {
        std::uint64_t w;
        std::memcpy(&w, p, sizeof w);
        return w;
    };
    while (end - at >= static_cast<std::ptrdiff_t>(8 * kStride)) {
        bool any = false;
        for (std::size_t i = 0; i < kStride; ++i) any |= word(at + 8 * i) - low < span;
        if (any)
            for (std::size_t i = 0; i < kStride; ++i)
                if (const std::uint64_t w = word(at + 8 * i); w - low < span) found(w);
        at += 8 * kStride;
    }
    for (; end - at >= 8; at += 8)
        if (const std::uint64_t w = word(at); w - low < span) found(w);
}

}  // namespace swapadvisor
