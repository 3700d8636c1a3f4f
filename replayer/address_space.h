// Device address ranges of one context: reserved in large regions, carved into page-aligned ranges that keep
// their address for life, and an O(1) map from any address back to its owner.
//
// Each range lies in a neighbourhood of its own: on both sides as many pages of nothing as it has itself, and
// at least kNeighbourPages. So a pointer that was shifted (lower bounds, ghost cells, an index that makes up
// for it) still says which range is meant: find_near(). find() takes no more than one past the end (the
// lower half of the page behind) and 1-based indexing (the upper half of the page before). Not thread-safe,
// except that base()/end() of the first region are constant once reserved.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "recorder/driver_api.h"

namespace swapadvisor {

/// What an address leads to: an index chosen by the owner of the address space, 0 for nobody. Bit 30 is the
/// address space's own.
using OwnerId = std::uint32_t;

struct AddressRange {
    CUdeviceptr address = 0;
    std::uint64_t pages = 0;
};

class AddressSpace {
  public:
    static constexpr std::uint64_t kNeighbourPages = 32;

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
    bool contains(CUdeviceptr address) const { return region_at(address) != nullptr; }
    OwnerId find(CUdeviceptr address) const {
        const Region* region = region_at(address);
        return region != nullptr ? find_in(*region, address - region->base) : 0;
    }
    /// The owner of the range in whose neighbourhood the address lies; 0: nobody's, or nobody's any more.
    OwnerId find_near(CUdeviceptr address) const {
        const Region* region = region_at(address);
        return region != nullptr ? near_in(*region, (address - region->base) / page_bytes_) : 0;
    }
    /// In a region, but in no neighbourhood that was ever handed out: no shift of a size that is provided
    /// for leads there.
    bool never_taken(CUdeviceptr address) const {
        const Region* region = region_at(address);
        return region != nullptr && (address - region->base) / page_bytes_ >= region->next;
    }
    /// All regions lie in [low, high); low >= high: there are none.
    std::uint64_t low() const { return low_; }
    std::uint64_t high() const { return high_; }
    std::uint64_t page_bytes() const { return page_bytes_; }

  private:
    struct Region {
        CUdeviceptr base = 0;
        std::uint64_t pages = 0;
        std::uint64_t next = 0;     ///< first page never handed out
        OwnerId* owners = nullptr;  ///< one per page, lazily backed; in the gaps: the way to the range
    };
    /// A range with the gaps around it, or what is too little for one.
    struct Stretch {
        CUdeviceptr address = 0;
        std::uint64_t pages = 0;
    };
    static std::uint64_t gap(std::uint64_t pages) {
        return pages > kNeighbourPages ? pages : kNeighbourPages;
    }
    Stretch around(AddressRange range) const {
        return {range.address - gap(range.pages) * page_bytes_, range.pages + 2 * gap(range.pages)};
    }
    const Region* region_at(CUdeviceptr address) const {
        for (const Region& region : regions_)
            if (address - region.base < region.pages * page_bytes_) return &region;
        return nullptr;
    }
    OwnerId find_in(const Region& region, std::uint64_t offset) const;
    OwnerId near_in(const Region& region, std::uint64_t page) const;
    /// Would start a buffer at a multiple of 4 GiB: the lower half of its address, 0, passes for a number.
    static bool looks_like_no_half(CUdeviceptr start, std::uint64_t pages, std::uint64_t page_bytes) {
        return static_cast<std::uint32_t>(start + gap(pages) * page_bytes) == 0;
    }
    AddressRange settle(CUdeviceptr start, std::uint64_t pages);
    void clear(Stretch stretch);
    CUresult grow(std::uint64_t pages);
    bool take_free(std::uint64_t pages, AddressRange& range);
    bool take_merged(std::uint64_t pages, AddressRange& range);

    const DriverApi& api_;
    std::uint64_t page_bytes_;
    std::uint64_t region_bytes_;
    bool abandoned_ = false;
    std::uint64_t low_ = ~0ull, high_ = 0;
    std::vector<Region> regions_;
    std::unordered_map<std::uint64_t, std::vector<CUdeviceptr>> free_;  ///< by pages
    std::vector<Stretch> scraps_;                                       ///< what merging left over
};

}  // namespace swapadvisor
