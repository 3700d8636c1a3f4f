#include "replayer/address_space.h"

#include <sys/mman.h>

#include <algorithm>

namespace swapadvisor {
namespace {
// An entry of a gap: how many pages to go to the next page of the range, up or down.
constexpr OwnerId kGap = OwnerId{1} << 30, kDown = OwnerId{1} << 29, kSteps = kDown - 1;
}  // namespace

AddressSpace::~AddressSpace() {
    for (Region& region : regions_) {
        if (!abandoned_) api_.cuMemAddressFree_(region.base, region.pages * page_bytes_);
        munmap(region.owners, region.pages * sizeof(OwnerId));
    }
}

OwnerId AddressSpace::near_in(const Region& region, std::uint64_t page) const {
    const OwnerId entry = region.owners[page];
    if ((entry & kGap) == 0) return entry;
    return region.owners[(entry & kDown) != 0 ? page - (entry & kSteps) : page + (entry & kSteps)];
}

OwnerId AddressSpace::find_in(const Region& region, std::uint64_t offset) const {
    const std::uint64_t page = offset / page_bytes_;
    const OwnerId entry = region.owners[page];
    if ((entry & kGap) == 0) return entry;
    const OwnerId adjoining = offset % page_bytes_ < page_bytes_ / 2 ? kGap | kDown | 1 : kGap | 1;
    return entry == adjoining ? near_in(region, page) : 0;
}

CUresult AddressSpace::grow(std::uint64_t pages) {
    const std::uint64_t least = pages + 2 * gap(pages);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (std::uint64_t wanted = std::max(region_bytes_ / page_bytes_, least);;
         wanted = std::max(wanted / 2, least)) {
        Region region;
        region.pages = wanted;
        result = api_.cuMemAddressReserve_(&region.base, wanted * page_bytes_, page_bytes_, 0, 0);
        if (result == CUDA_SUCCESS) {
            void* owners = mmap(nullptr, wanted * sizeof(OwnerId), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (owners == MAP_FAILED) {
                api_.cuMemAddressFree_(region.base, wanted * page_bytes_);
                result = CUDA_ERROR_OUT_OF_MEMORY;
            } else {
                region.owners = static_cast<OwnerId*>(owners);
                low_ = std::min<std::uint64_t>(low_, region.base);
                high_ = std::max<std::uint64_t>(high_, region.base + wanted * page_bytes_);
                regions_.push_back(region);
                return CUDA_SUCCESS;
            }
        }
        if (wanted == least) return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
    }
}

// Lays a range of `pages` and its gaps from `start` on.
AddressRange AddressSpace::settle(CUdeviceptr start, std::uint64_t pages) {
    const Region& region = *region_at(start);
    OwnerId* const owners = region.owners + (start - region.base) / page_bytes_;
    const std::uint64_t around = gap(pages);
    for (std::uint64_t i = 0; i < around; ++i) {
        owners[i] = kGap | static_cast<OwnerId>(around - i);
        owners[around + pages + i] = kGap | kDown | static_cast<OwnerId>(i + 1);
    }
    std::fill_n(owners + around, pages, 0);
    return {start + around * page_bytes_, pages};
}

void AddressSpace::clear(Stretch stretch) {
    const Region& region = *region_at(stretch.address);
    std::fill_n(region.owners + (stretch.address - region.base) / page_bytes_, stretch.pages, 0);
}

bool AddressSpace::take_free(std::uint64_t pages, AddressRange& range) {
    auto found = free_.find(pages);
    if (found == free_.end() || found->second.empty()) return false;
    range = {found->second.back(), pages};
    found->second.pop_back();
    return true;
}

// The last resort before a new region: joins what is free side by side and cuts it up anew.
bool AddressSpace::take_merged(std::uint64_t pages, AddressRange& range) {
    std::vector<Stretch> all;
    all.swap(scraps_);
    for (auto& [size, addresses] : free_)
        for (CUdeviceptr address : addresses) all.push_back(around({address, size}));
    free_.clear();
    std::sort(all.begin(), all.end(),
              [](const Stretch& a, const Stretch& b) { return a.address < b.address; });
    std::vector<Stretch> joined;
    for (const Stretch& next : all) {
        if (!joined.empty() && joined.back().address + joined.back().pages * page_bytes_ == next.address &&
            region_at(joined.back().address) == region_at(next.address))
            joined.back().pages += next.pages;
        else
            joined.push_back(next);
    }
    const std::uint64_t wanted = pages + 2 * gap(pages);
    bool taken = false;
    for (Stretch left : joined) {
        const auto cut = [&](std::uint64_t size) {
            std::uint64_t used = size + 2 * gap(size);
            const bool shift = looks_like_no_half(left.address, size, page_bytes_) && left.pages > used;
            const AddressRange laid = settle(left.address + shift * page_bytes_, size);
            used += shift;
            left = {left.address + used * page_bytes_, left.pages - used};
            return laid;
        };
        if (!taken && left.pages >= wanted) {
            taken = true;
            range = cut(pages);
        }
        if (left.pages > 2 * kNeighbourPages) {
            const std::uint64_t size =
                left.pages >= 3 * kNeighbourPages ? left.pages / 3 : left.pages - 2 * kNeighbourPages;
            free_[size].push_back(cut(size).address);
        }
        if (left.pages != 0) {
            clear(left);
            scraps_.push_back(left);
        }
    }
    return taken;
}

CUresult AddressSpace::take(std::uint64_t pages, AddressRange& range) {
    if (pages == 0 || pages > kSteps) return CUDA_ERROR_OUT_OF_MEMORY;
    if (take_free(pages, range)) return CUDA_SUCCESS;
    const std::uint64_t wanted = pages + 2 * gap(pages);
    for (int round = 0; round < 2; ++round) {
        if (!regions_.empty()) {
            Region& region = regions_.back();
            if (looks_like_no_half(region.base + region.next * page_bytes_, pages, page_bytes_))
                ++region.next;
            if (region.next + wanted <= region.pages) {
                range = settle(region.base + region.next * page_bytes_, pages);
                region.next += wanted;
                return CUDA_SUCCESS;
            }
            if (take_merged(pages, range)) return CUDA_SUCCESS;
        }
        if (CUresult result = grow(pages); result != CUDA_SUCCESS) return result;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void AddressSpace::give(AddressRange range) {
    set_owner(range, 0);
    free_[range.pages].push_back(range.address);
}

void AddressSpace::set_owner(AddressRange range, OwnerId owner) {
    const Region* region = region_at(range.address);
    if (region == nullptr) return;
    const std::uint64_t first = (range.address - region->base) / page_bytes_;
    std::fill_n(region->owners + first, range.pages, owner);
}

}  // namespace swapadvisor
