// Device address ranges of one context: reserved in large regions, carved into page-aligned ranges that keep
// their address for life, and an O(1) map from any address back to its owner.
//
// Between two ranges lies one page of nothing. A pointer into its lower half still counts for the range
// before it (one past the end), one into its upper half for the range after it (1-based indexing). Not
// thread-safe, except that base()/end() of the first region are constant once reserved.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "recorder/driver_api.h"

namespace swapadvisor {

/// What an address leads to: an index chosen by the owner of the address space, 0 for nobody.
using OwnerId = std::uint32_t;

struct AddressRange {
    CUdeviceptr address = 0;
    std::uint64_t pages = 0;
};

class AddressSpace {
  public:
    /// Reserves nothing yet. `region_bytes` is what the first region tries to get; less is taken if that
    /// fails.
    AddressSpace(const DriverApi& api, std::uint64_t page_bytes, std::uint64_t region_bytes)
        : api_(api), page_bytes_(page_bytes), region_bytes_(region_bytes) {}
    ~AddressSpace();
    AddressSpace(const AddressSpace&) = delete;
    AddressSpace& operator=(const AddressSpace&) = delete;

    /// CUDA_ERROR_OUT_OF_MEMORY when no more addresses can be had.
    CUresult take(std::uint64_t pages, AddressRange& range);
    /// Nothing may be mapped in it any more; its owner entries are cleared.
    void give(AddressRange range);
    void set_owner(AddressRange range, OwnerId owner);
    /// The driver's context is gone: forget everything without calling it.
    void abandon() { abandoned_ = true; }
    /// Nothing is mapped any more: the regions may go after all.
    void context_ended() { abandoned_ = false; }

    /// True for any address of the regions, in use or not.
    bool contains(CUdeviceptr address) const {
        for (const Region& region : regions_)
            if (address - region.base < region.pages * page_bytes_) return true;
        return false;
    }
    OwnerId find(CUdeviceptr address) const {
        for (const Region& region : regions_) {
            const std::uint64_t offset = address - region.base;
            if (offset < region.pages * page_bytes_) return find_in(region, offset);
        }
        return 0;
    }
    std::uint64_t page_bytes() const { return page_bytes_; }

  private:
    struct Region {
        CUdeviceptr base = 0;
        std::uint64_t pages = 0;
        std::uint64_t next = 1;     ///< first page never handed out
        OwnerId* owners = nullptr;  ///< one per page, lazily backed
    };
    OwnerId find_in(const Region& region, std::uint64_t offset) const;
    Region* region_of(CUdeviceptr address);
    CUresult grow(std::uint64_t pages);
    bool take_free(std::uint64_t pages, AddressRange& range);
    bool take_merged(std::uint64_t pages, AddressRange& range);

    const DriverApi& api_;
    std::uint64_t page_bytes_;
    std::uint64_t region_bytes_;
    bool abandoned_ = false;
    std::vector<Region> regions_;
    std::unordered_map<std::uint64_t, std::vector<CUdeviceptr>> free_;  ///< by pages
};

}  // namespace swapadvisor
