#include "replayer/arena.h"

#include <algorithm>

namespace swapadvisor {

std::uint32_t Arena::add_slab(AddressRange range) {
    Slab slab;
    slab.base = range.address;
    slab.owners.resize(slab_bytes_ / kGrain);
    slabs_.push_back(std::move(slab));
    free_[range.address] = {slab_bytes_, {}};
    by_size_.insert({slab_bytes_, range.address});
    return static_cast<std::uint32_t>(slabs_.size() - 1);
}

Arena::Block Arena::take(std::uint64_t bytes) {
    bytes = std::max<std::uint64_t>((bytes + kGrain - 1) / kGrain, 1) * kGrain;
    auto found = by_size_.lower_bound({bytes, 0});
    if (found == by_size_.end()) return {};
    const CUdeviceptr address = found->second;
    auto node = free_.find(address);
    Block block{address, bytes, node->second.guard};
    by_size_.erase(found);
    if (node->second.bytes > bytes) {
        const std::uint64_t rest = node->second.bytes - bytes;
        free_[address + bytes] = {rest, node->second.guard};
        by_size_.insert({rest, address + bytes});
    }
    free_.erase(address);
    used_ += bytes;
    return block;
}

void Arena::give(CUdeviceptr address, std::uint64_t bytes, const MarkSet& guard) {
    used_ -= bytes;
    const std::uint32_t slab = slab_of(address);
    auto [it, inserted] = free_.insert_or_assign(address, Free{bytes, guard});
    auto same_slab = [&](CUdeviceptr other) { return other - slabs_[slab].base < slab_bytes_; };
    auto next = std::next(it);
    if (next != free_.end() && address + bytes == next->first && same_slab(next->first)) {
        by_size_.erase({next->second.bytes, next->first});
        it->second.bytes += next->second.bytes;
        it->second.guard.add(next->second.guard);
        free_.erase(next);
    }
    if (it != free_.begin()) {
        auto before = std::prev(it);
        if (before->first + before->second.bytes == it->first && same_slab(before->first)) {
            by_size_.erase({before->second.bytes, before->first});
            before->second.bytes += it->second.bytes;
            before->second.guard.add(it->second.guard);
            free_.erase(it);
            it = before;
        }
    }
    by_size_.insert({it->second.bytes, it->first});
}

std::uint32_t Arena::slab_of(CUdeviceptr address) const {
    for (std::uint32_t i = 0; i < slabs_.size(); ++i)
        if (address - slabs_[i].base < slab_bytes_) return i;
    return ~0u;
}

void Arena::set_owner(std::uint32_t slab, CUdeviceptr address, std::uint64_t bytes, OwnerId owner) {
    Slab& s = slabs_[slab];
    std::fill_n(s.owners.begin() + static_cast<std::ptrdiff_t>((address - s.base) / kGrain),
                (bytes + kGrain - 1) / kGrain, owner);
}

}  // namespace swapadvisor
