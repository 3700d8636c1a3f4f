// Physical device memory of one context: handles ("slots") within a budget, mapped at address ranges.
//
// Driver rules kept here: sizes are whole pages, a mapping covers a whole handle, access is set after
// mapping, and nothing is unmapped before its last use is done (the caller waits, map and unmap order
// nothing). Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_set>
#include <vector>

#include "recorder/driver_api.h"
#include "replayer/marks.h"

namespace swapadvisor {

struct Buffer;

/// Physical memory that is mapped as one. `guard`: what must be done before its bytes may be overwritten by a
/// new holder.
struct Slot {
    struct Piece {
        CUmemGenericAllocationHandle handle;
        std::uint64_t pages;
    };
    CUmemGenericAllocationHandle handle = 0;
    std::uint64_t pages = 0;  ///< in all
    std::vector<Piece> more;  ///< what follows after `handle`: of what was put together from a pool's atoms
    Buffer* holder = nullptr;
    MarkSet guard;
};

class DeviceMemory {
  public:
    DeviceMemory(const DriverApi& api, CUdevice device, std::uint64_t page_bytes, std::uint64_t limit_pages)
        : api_(api),
          device_(device),
          access_{access_of(device)},
          page_bytes_(page_bytes),
          limit_pages_(limit_pages),
          promised_pages_(limit_pages) {}

    /// CUDA_ERROR_OUT_OF_MEMORY if it would pass the limit or the device has no more.
    CUresult create(std::uint64_t pages, Slot& slot);
    void release(Slot& slot);
    CUresult map(CUdeviceptr address, const Slot& slot);
    CUresult unmap(CUdeviceptr address, std::uint64_t pages);
    /// Another device may use this memory from now on: what is mapped, and what will be.
    CUresult let_in(CUdevice device);
    /// Everything goes, mapped or not; slots must not be used any more.
    void give_all_back();

    bool is_open_to(CUdevice device) const;

    std::uint64_t used_pages() const { return used_pages_; }
    std::uint64_t limit_pages() const { return limit_pages_; }
    std::uint64_t free_pages() const { return used_pages_ < limit_pages_ ? limit_pages_ - used_pages_ : 0; }
    /// The device turned out to have less than promised (another process took it).
    void lower_limit() { limit_pages_ = used_pages_; }
    /// It may have more again. False if that was promised already.
    bool restore_limit() {
        const bool lowered = limit_pages_ < promised_pages_;
        limit_pages_ = promised_pages_;
        return lowered;
    }
    std::uint64_t page_bytes() const { return page_bytes_; }
    std::uint64_t mapping_calls() const { return mapping_calls_; }

  private:
    static CUmemAccessDesc access_of(CUdevice device);
    CUresult set_access(CUdeviceptr address, std::uint64_t pages);

    const DriverApi& api_;
    CUdevice device_;
    std::vector<CUmemAccessDesc> access_;          ///< this device first
    std::map<CUdeviceptr, std::uint64_t> mapped_;  ///< pages by address
    std::unordered_set<CUmemGenericAllocationHandle> handles_;
    std::uint64_t page_bytes_;
    std::uint64_t limit_pages_;
    const std::uint64_t promised_pages_;
    std::uint64_t used_pages_ = 0;
    std::uint64_t mapping_calls_ = 0;
};

}  // namespace swapadvisor
