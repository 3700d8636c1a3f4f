// Hashes of device memory, computed on the device: 128 bits as two sums of mixes of every word and its place.
// Not proof against someone who builds collisions, but two different contents that a program comes upon have
// equal hashes with a chance of 2^-128, which counts as never.
//
// Everything is issued on a stream and returns at once. The context must be current. Not thread-safe while it
// is loaded, free of state afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "recorder/driver_api.h"

namespace swapadvisor {

class ContentHash {
  public:
    static constexpr std::uint64_t kBytes = 16;  ///< of a hash

    /// Null where the driver cannot load the kernels, or the device does not reach host memory by its
    /// address. Not to be called while a capture is open.
    static std::shared_ptr<const ContentHash> load(const DriverApi& api, CUdevice device);

    /// `sum`: device memory for the hash. `data` and `sum` are aligned to 16 bytes.
    CUresult hash(CUdeviceptr data, std::uint64_t bytes, CUdeviceptr sum, CUstream stream) const;
    /// Nothing if the hashes at `before` and `now` are equal; else copies to the (pinned) host memory `to`
    /// and stores 1 at `flag`, pinned too.
    CUresult copy_if_changed(CUdeviceptr from, std::byte* to, std::uint64_t bytes, CUdeviceptr before,
                             CUdeviceptr now, volatile std::uint32_t* flag, CUstream stream) const;

  private:
    explicit ContentHash(const DriverApi& api) : api_(api) {}
    const DriverApi& api_;
    CUfunction hash_ = nullptr, copy_ = nullptr;
};

}  // namespace swapadvisor
