// Small buffers that can move: those that are allocated one after another share a page, which is resident as a whole whenever
// one of them is used and leaves as a whole, with one copy. A page is a buffer that the program does not know.
#include <algorithm>

#include "replayer/residency.h"

namespace swapadvisor {

CUresult Residency::allocate_packed(Buffer& buffer) {
    Arena::Block block = packed_.take(buffer.bytes);
    if (block.address == 0) {
        if (CUresult result = check_host_room(options_.page_bytes); result != CUDA_SUCCESS) return result;
        AddressRange range;
        if (CUresult result = addresses_.take(1, range); result != CUDA_SUCCESS) return result;
        auto page = std::make_unique<Buffer>();
        page->owner = this;
        page->address = range.address;
        page->bytes = page->block_bytes = options_.page_bytes;
        page->range = range;
        page->packed = page->live = true;
        const std::uint32_t slab = packed_.add_slab(range);
        addresses_.set_owner(range, kPageFlag | slab);
        pages_.push_back(std::move(page));
        large_live_bytes_ += options_.page_bytes;
        block = packed_.take(buffer.bytes);
    }
    const std::uint32_t slab = packed_.slab_of(block.address);
    buffer.page = pages_[slab].get();
    buffer.address = block.address;
    buffer.block_bytes = block.bytes;
    buffer.ready = block.guard;
    buffer.backed = true;  // its page answers for it
    buffer.place = Place::resident;
    packed_.set_owner(slab, block.address, block.bytes, buffer.index);
    return CUDA_SUCCESS;
}

// The one that was used longest ago.
Buffer* Residency::page_victim() {
    Buffer* best = nullptr;
    for (const auto& page : pages_)
        if (page->backed && page->stamp != stamp_ && movable(*page) && !waits_for_program(*page) && (best == nullptr || page->stamp < best->stamp))
            best = page.get();
    return best;
}

}  // namespace swapadvisor
