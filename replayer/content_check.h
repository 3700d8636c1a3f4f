// Saves of buffers that are believed to be unchanged: the device compares their contents with the hash of the
// host copy and copies only what differs. So a belief that is wrong costs a copy, never a byte; and the host
// decides nothing and waits for nothing.
//
// Everything runs on the queue of the copies out, so that hashes and copies are in order. For the tensors of
// one plan; guarded by the owner's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "replayer/buffer.h"
#include "replayer/content_hash.h"

namespace swapadvisor {

class ContentCheck {
  public:
    /// The context is current and no capture is open. Null where the device or the driver cannot.
    static std::unique_ptr<ContentCheck> open(const DriverApi& api, CUdevice device);

    /// From here on tensor numbers are those of another plan, of which `watched` are worth a hash.
    void watch(const std::vector<bool>& watched);
    /// May a use of this buffer be taken as reading, to be checked when it is saved?
    bool watches(const Buffer& buffer) const {
        const auto tensor = static_cast<std::size_t>(buffer.tensor);
        return buffer.tensor >= 0 && tensor < watched_.size() && watched_[tensor];
    }
    enum class Outcome : std::uint8_t { copied, checked };
    /// In place of a plain copy of `buffer` to its host block on `stream`. `wrong_bytes`: what former checks
    /// of this tensor had to copy after all, as far as known.
    CUresult save(Buffer& buffer, CUstream stream, Outcome& outcome, std::uint64_t& wrong_bytes);

  private:
    explicit ContentCheck(const DriverApi& api) : api_(api) {}
    CUdeviceptr place(std::int32_t tensor, unsigned half) const {
        return hashes_ + (static_cast<std::uint64_t>(tensor) * 2 + half) * ContentHash::kBytes;
    }
    const DriverApi& api_;
    std::shared_ptr<const ContentHash> hash_;
    CUdeviceptr hashes_ = 0;                   ///< two places per tensor: of the host copy, and for the next
    volatile std::uint32_t* wrong_ = nullptr;  ///< by tensor, pinned: the device had to copy
    std::vector<bool> watched_;
    std::uint32_t plan_ = 0;
};

}  // namespace swapadvisor
