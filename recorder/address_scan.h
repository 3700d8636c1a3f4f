// Device addresses inside data that kernels get: tables, patched tensor maps, linked structures, arguments.
// As a conservative garbage collector does, every word that falls into the ranges of addresses that are ours
// alone counts as an address. Words are little-endian, 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace swapadvisor {

/// How a word was written down, which says how far to trust it.
enum class WordForm : std::uint8_t {
    whole,  ///< 8 bytes at their natural alignment, nothing else in them
    odd     ///< at another byte, with a tag in its upper 16 bits, or as two halves in the other order
};

namespace address_scan {

template <class T>
T load(const char* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

using Bytes16 = std::uint8_t __attribute__((vector_size(16)));
using Words4 = std::uint32_t __attribute__((vector_size(16)));
using Pair = std::uint64_t __attribute__((vector_size(16)));

template <class Mask>
bool any(Mask mask) {
    const auto both = reinterpret_cast<Pair>(mask);
    return (both[0] | both[1]) != 0;
}

inline Bytes16 all(std::uint64_t byte) {
    const auto b = static_cast<std::uint8_t>(byte);
    return Bytes16{b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b};
}

}  // namespace address_scan

/// Calls found(word) for every word of `data` with low <= word < high that lies at a multiple of 4 bytes of
/// where the data goes (`device_address`). At the pace of memory when nothing is found.
template <class Found>
void find_addresses(const void* data, std::size_t bytes, std::uint64_t device_address, std::uint64_t low,
                    std::uint64_t high, Found&& found) {
    using namespace address_scan;
    const char* at = static_cast<const char*>(data);
    const char* const end = at + bytes;
    const std::size_t skip = (4 - device_address % 4) % 4;
    if (bytes < skip + 8 || high <= low) return;
    at += skip;
    const auto check = [&](const char* word) {
        if (const auto w = load<std::uint64_t>(word); w - low < high - low) found(w);
    };
    // Upper halves alone decide nearly always; 16 of them per branch.
    const auto first = static_cast<std::uint32_t>(low >> 32);
    const std::uint32_t last = static_cast<std::uint32_t>((high - 1) >> 32) - first;
    const Words4 from{first, first, first, first}, span{last, last, last, last};
    for (; end - at >= 68; at += 64) {
        auto hit = load<Words4>(at + 4) - from <= span;
        for (int i = 1; i < 4; ++i) hit |= load<Words4>(at + 4 + 16 * i) - from <= span;
        if (any(hit))
            for (int i = 0; i < 16; ++i) check(at + 4 * i);
    }
    for (; end - at >= 8; at += 4) check(at);
}

/// Looks at one word of 8 bytes: found(address, form).
template <class Found>
inline void find_in_word(std::uint64_t word, std::uint64_t low, std::uint64_t high, Found&& found) {
    constexpr std::uint64_t kUntagged = ~0ull >> 16;
    if ((word & kUntagged) - low < high - low) [[unlikely]] {
        if (word <= kUntagged)
            found(word, WordForm::whole);
        else
            found(word & kUntagged, WordForm::odd);
    }
    const std::uint64_t turned = word << 32 | word >> 32;
    if (turned - low < high - low && word >> 32 != 0) [[unlikely]]
        found(turned, WordForm::odd);
}

/// Two neighbours of 4 bytes may be the halves of one address, in either order.
template <class Found>
inline void find_in_halves(std::uint32_t one, std::uint32_t two, std::uint64_t low, std::uint64_t high,
                           Found&& found) {
    const auto check = [&](std::uint64_t lower, std::uint64_t upper) {
        const std::uint64_t word = upper << 32 | lower;
        if (word - low < high - low && lower != 0) [[unlikely]]
            found(word, WordForm::odd);
    };
    check(one, two);
    check(two, one);
}

/// Whether found() says that the word is an address beyond doubt; one that says nothing counts as no.
template <class Found>
bool says(Found& found, std::uint64_t word, WordForm form) {
    if constexpr (std::is_same_v<decltype(found(word, form)), bool>) {
        return found(word, form);
    } else {
        found(word, form);
        return false;
    }
}

/// Looks at every byte of `data`: found(address, form). `place` is the offset of `data` to where 8-byte words
/// are aligned.
template <class Found>
void find_at_any_byte(const void* data, std::size_t bytes, std::uint64_t place, std::uint64_t low,
                      std::uint64_t high, Found&& found) {
    using namespace address_scan;
    if (bytes < 8 || high <= low) return;
    const char* const begin = static_cast<const char*>(data);
    // Bits 32 to 47 of an address are two bytes that few other data have side by side.
    const std::uint64_t first = low >> 32, last = (high - 1) >> 32;
    const bool same = first >> 8 == last >> 8;
    const std::uint8_t low4 = same ? first & 255 : 0, high4 = same ? last & 255 : 255,
                       low5 = first >> 8 & 255, high5 = last >> 8 & 255;
    // `upper`: where these two bytes are.
    const auto check = [&](std::size_t upper) {
        constexpr std::uint64_t kUntagged = ~0ull >> 16;
        bool taken = false;  // the upper half of an address and a number behind it are not two halves
        if (upper >= 4 && upper + 4 <= bytes) {
            const auto word = load<std::uint64_t>(begin + upper - 4);
            const bool aligned = (place + upper - 4) % 8 == 0;
            if (word - low < high - low)
                taken = says(found, word, aligned ? WordForm::whole : WordForm::odd);
            else if (aligned && (word & kUntagged) - low < high - low)
                found(word & kUntagged, WordForm::odd);
        }
        if (!taken && upper + 8 <= bytes && (place + upper) % 4 == 0) {
            const auto word = load<std::uint64_t>(begin + upper);
            const std::uint64_t turned = word << 32 | word >> 32;
            if (turned - low < high - low && word >> 32 != 0) found(turned, WordForm::odd);
        }
    };
    const auto outside = [](Bytes16 b, Bytes16 from, Bytes16 span) { return (b - from) > span; };
    const Bytes16 from4 = all(low4), span4 = all(high4 - low4), from5 = all(low5), span5 = all(high5 - low5);
    std::size_t at = 0;
    for (; at + 17 <= bytes; at += 16) {
        const auto miss = outside(load<Bytes16>(begin + at), from4, span4) |
                          outside(load<Bytes16>(begin + at + 1), from5, span5);
        const auto both = reinterpret_cast<Pair>(miss);
        if ((both[0] & both[1]) == ~0ull) continue;
        for (std::size_t i = 0; i < 16; ++i)
            if (miss[i] == 0) check(at + i);
    }
    for (; at + 2 <= bytes; ++at) {
        const auto b4 = static_cast<std::uint8_t>(begin[at]), b5 = static_cast<std::uint8_t>(begin[at + 1]);
        if (static_cast<std::uint8_t>(b4 - low4) <= static_cast<std::uint8_t>(high4 - low4) &&
            static_cast<std::uint8_t>(b5 - low5) <= static_cast<std::uint8_t>(high5 - low5))
            check(at);
    }
}

}  // namespace swapadvisor
