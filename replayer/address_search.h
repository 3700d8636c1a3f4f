// Looks on the device for our addresses in memory that kernels can read, as a conservative garbage collector
// does: every word of 8 bytes at a multiple of 4 that falls into [low, high). What is found comes back as one
// bit for each granule of addresses, so there is always room for all of it.
//
// A look: start(), add() for each span, issue(), which returns at once. Its answer may be read when the stream is done,
// and only then the next one may start. The bits lie in host memory: hits are rare, and
// device memory is what there is too little of. The context must be current and no
// capture may be open on the stream. Not thread-safe: the owner's lock guards it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "recorder/driver_api.h"

namespace swapadvisor {

class AddressSearch {
  public:
    /// Null where the driver cannot load the kernel. It goes with the context.
    static std::unique_ptr<AddressSearch> open(const DriverApi& api);

    /// Addresses of [low, high) are looked for. `granule_bytes` (a power of two) is what a bit stands for; more, where
    /// that would be too many bits.
    void start(std::uint64_t low, std::uint64_t high, std::uint64_t granule_bytes);
    /// The span has to stay readable until the stream is done. It is widened to begin at a multiple of 16 bytes.
    void add(CUdeviceptr address, std::uint64_t bytes);
    /// One kernel for all of them.
    CUresult issue(CUstream stream);
    /// Once the stream is done: calls found(from, to) for each granule [from, to) that was named.
    template <class Found>
    void for_each_found(Found&& found) const {
        for (std::uint64_t i = 0; i < words_; ++i)
            for (std::uint32_t bits = found_[i]; bits != 0; bits &= bits - 1) {
                const auto bit = i * 32 + static_cast<unsigned>(__builtin_ctz(bits));
                found(low_ + (bit << shift_), std::min(low_ + ((bit + 1) << shift_), low_ + span_));
            }
    }

  private:
    struct Chunk {
        std::uint64_t address, bytes;
    };
    explicit AddressSearch(const DriverApi& api) : api_(api) {}
    const DriverApi& api_;
    CUfunction find_ = nullptr;
    std::uint32_t* found_ = nullptr;  ///< the bits, pinned and mapped
    std::vector<Chunk> spans_;
    Chunk* chunks_ = nullptr;  ///< what each block looks through, pinned and mapped
    std::size_t room_ = 0;     ///< there
    std::uint64_t low_ = 0, span_ = 0, words_ = 0;
    unsigned shift_ = 0;
};

}  // namespace swapadvisor
