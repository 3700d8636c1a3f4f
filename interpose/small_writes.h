// Addresses that are put together from writes of less than a word: halves by memsets, memory operations of
// streams or copies of 4 bytes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace swapadvisor {

/// Remembers the bytes of the words that were written to last. Not thread-safe.
class SmallWrites {
  public:
    /// At most 8 bytes at `address`; calls word(value) for each aligned word that is known as a whole now.
    template <class Word>
    void write(std::uint64_t address, const void* data, std::size_t bytes, Word&& word) {
        for (std::size_t done = 0; done < bytes;) {
            const std::uint64_t start = (address + done) / 8 * 8, offset = address + done - start;
            const std::size_t now = bytes - done < 8 - offset ? bytes - done : 8 - offset;
            Entry& entry = entries_[start / 8 * 0x9E3779B97F4A7C15ull >> 58];
            if (entry.address != start) entry = {start, {}, 0};
            std::memcpy(entry.bytes + offset, static_cast<const char*>(data) + done, now);
            entry.known |= static_cast<std::uint8_t>(((1u << now) - 1) << offset);
            if (entry.known == 0xff) word(std::bit_cast<std::uint64_t>(entry.bytes));
            done += now;
        }
    }

  private:
    struct Entry {
        std::uint64_t address = ~0ull;
        char bytes[8] = {};
        std::uint8_t known = 0;  ///< a bit for each byte
    };
    std::array<Entry, 64> entries_;
};

}  // namespace swapadvisor
