#include "replayer/address_space.h"

#include <sys/mman.h>

#include <algorithm>

namespace swapadvisor {

AddressSpace::~AddressSpace() {
    for (Region& region : regions_) {
        if (!abandoned_) api_.cuMemAddressFree_(region.base, region.pages * page_bytes_);
        munmap(region.owners, region.pages * sizeof(OwnerId));
    }
}

OwnerId AddressSpace::find_in(const Region& region, std::uint64_t offset) const {
    const std::uint64_t page = offset / page_bytes_;
    if (OwnerId owner = region.owners[page]) return owner;
    if (offset % page_bytes_ < page_bytes_ / 2) return page > 0 ? region.owners[page - 1] : 0;
    return page + 1 < region.pages ? region.owners[page + 1] : 0;
}

AddressSpace::Region* AddressSpace::region_of(CUdeviceptr address) {
    for (Region& region : regions_)
        if (address - region.base < region.pages * page_bytes_) return &region;
    return nullptr;
}

CUresult AddressSpace::grow(std::uint64_t pages) {
    const std::uint64_t least = pages + 2;
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
                regions_.push_back(region);
                return CUDA_SUCCESS;
            }
        }
        if (wanted == least) return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
    }
}

bool AddressSpace::take_free(std::uint64_t pages, AddressRange& range) {
    auto found = free_.find(pages);
    if (found == free_.end() || found->second.empty()) return false;
    range = {found->second.back(), pages};
    found->second.pop_back();
    return true;
}

// The last resort before a new region: joins neighbouring free ranges (and the gaps between them).
bool AddressSpace::take_merged(std::uint64_t pages, AddressRange& range) {
    std::map<CUdeviceptr, std::uint64_t> sorted;
    for (auto& [size, addresses] : free_)
        for (CUdeviceptr address : addresses) sorted[address] = size;
    free_.clear();
    for (auto it = sorted.begin(); it != sorted.end();) {
        auto next = std::next(it);
        if (next != sorted.end() && it->first + (it->second + 1) * page_bytes_ == next->first &&
            region_of(it->first) == region_of(next->first)) {
            it->second += 1 + next->second;
            sorted.erase(next);
        } else {
            it = next;
        }
    }
    bool taken = false;
    for (auto& [address, size] : sorted) {
        if (!taken && size >= pages) {
            taken = true;
            range = {address, pages};
            if (size > pages + 1) free_[size - pages - 1].push_back(address + (pages + 1) * page_bytes_);
        } else {
            free_[size].push_back(address);
        }
    }
    return taken;
}

CUresult AddressSpace::take(std::uint64_t pages, AddressRange& range) {
    if (pages == 0 || pages > (std::uint64_t{1} << 40)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (take_free(pages, range)) return CUDA_SUCCESS;
    for (int round = 0; round < 2; ++round) {
        if (!regions_.empty()) {
            Region& region = regions_.back();
            if (region.next + pages + 1 <= region.pages) {
                range = {region.base + region.next * page_bytes_, pages};
                region.next += pages + 1;
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
    Region* region = region_of(range.address);
    if (region == nullptr) return;
    const std::uint64_t first = (range.address - region->base) / page_bytes_;
    std::fill_n(region->owners + first, range.pages, owner);
}

}  // namespace swapadvisor
