// Small allocations: an always-resident arena of page-sized slabs. Best fit by size, 512-byte grain,
// neighbours join when freed. What still guards freed bytes (last uses on several streams) stays with the
// free block and is handed to the next owner, who waits for it in stream order: a free never stalls anyone.
// Not thread-safe. Makes no driver calls: the owner adds slabs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "replayer/address_space.h"
#include "replayer/device_memory.h"
#include "replayer/marks.h"

namespace swapadvisor {

class Arena {
  public:
    static constexpr std::uint64_t kGrain = 512;

    explicit Arena(std::uint64_t slab_bytes) : slab_bytes_(slab_bytes) {}

    struct Block {
        CUdeviceptr address = 0;  ///< 0: no slab has room
        std::uint64_t bytes = 0;
        MarkSet guard;
    };
    Block take(std::uint64_t bytes);
    void give(CUdeviceptr address, std::uint64_t bytes, const MarkSet& guard);
    /// Returns the number of the slab, from 0.
    std::uint32_t add_slab(AddressRange range);

    void set_owner(std::uint32_t slab, CUdeviceptr address, std::uint64_t bytes, OwnerId owner);
    OwnerId find(std::uint32_t slab, CUdeviceptr address) const {
        const Slab& s = slabs_[slab];
        return s.owners[(address - s.base) / kGrain % s.owners.size()];
    }
    std::uint32_t slab_of(CUdeviceptr address) const;
    std::uint64_t used_bytes() const { return used_; }
    std::uint64_t held_bytes() const { return slabs_.size() * slab_bytes_; }

  private:
    struct Slab {
        CUdeviceptr base = 0;
        std::vector<OwnerId> owners;
    };
    struct Free {
        std::uint64_t bytes = 0;
        MarkSet guard;
    };
    std::uint64_t slab_bytes_;
    std::uint64_t used_ = 0;
    std::vector<Slab> slabs_;
    std::map<CUdeviceptr, Free> free_;
    std::set<std::pair<std::uint64_t, CUdeviceptr>> by_size_;
};

}  // namespace swapadvisor
