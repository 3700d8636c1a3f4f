// Finds out, while the program swaps on demand, which arguments its kernels only read: hashes what an
// argument names before and after the kernel, on the kernel's own stream, and tells the recorder whether they
// differ.
//
// Looked at are the first launches of a kernel in one shape and then ever fewer, and no more bytes are hashed
// than swapping has copied: hashing goes at the pace of the device's memory, which is ten times that of the
// bus and more. Nothing here waits. Guarded by the runtime's lock; the context is current.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "recorder/flat_map.h"
#include "replayer/content_hash.h"
#include "replayer/residency.h"

namespace swapadvisor {

class Recorder;

class ContentSampler {
  public:
    explicit ContentSampler(Residency& residency) : residency_(residency), api_(residency.api()) {}

    /// A kernel with this match key is about to be made ready (before Residency::begin). What it wants to
    /// know of it is looked at by before() and after(). False: nothing.
    bool choose(std::uint64_t key, const std::vector<BufferUse>& uses);
    /// Everything is resident, and ordered before the kernel.
    void before(CUstream stream);
    /// The kernel was issued as op `seq`.
    void after(std::uint64_t seq, CUstream stream);
    /// It was not.
    void cancel() { chosen_.clear(); }
    /// Hands over what is known by now.
    void poll(Recorder& recorder);

  private:
    struct Chosen {
        const Buffer* buffer;
        std::uint32_t touch;
        std::uint64_t slot;
    };
    struct InFlight {
        CUevent done;
        std::uint64_t seq, first_slot, slots;
    };
    bool open();
    CUdeviceptr sum(std::uint64_t slot, unsigned which) const {
        return sums_ + (slot % kSlots * 2 + which) * ContentHash::kBytes;
    }
    bool take_event(CUevent& event);

    static constexpr std::uint64_t kSlots = 1024;
    Residency& residency_;
    const DriverApi& api_;
    bool opened_ = false;
    std::shared_ptr<const ContentHash> hash_;  ///< null: this device or driver cannot
    CUdeviceptr sums_ = 0;                     ///< by slot: before and after
    std::byte* answers_ = nullptr;             ///< the same, pinned
    std::vector<std::uint32_t> touches_;       ///< by slot
    std::uint64_t next_slot_ = 0;
    std::vector<Chosen> chosen_;
    std::deque<InFlight> in_flight_;
    std::vector<CUevent> events_;      ///< idle
    FlatMap<std::uint32_t> launches_;  ///< by key
    std::uint64_t hashed_bytes_ = 0;
};

}  // namespace swapadvisor
