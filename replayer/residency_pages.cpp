// Small buffers that can move: those that are allocated one after another share a page, which is resident as a whole
// whenever one of them is used, and leaves as a whole, with one copy. A page is a large buffer that the program does
// not know; plans move it like any other.
#include <algorithm>

#include "replayer/residency.h"

namespace swapadvisor {

void add_pages(std::vector<BufferUse>& uses) {
    const std::size_t count = uses.size();
    for (std::size_t i = 0; i < count; ++i) {
        Buffer* const page = uses[i].buffer->page;
        if (page == nullptr) continue;
        const auto known = std::find_if(uses.begin(), uses.end(),
                                        [page](const BufferUse& use) { return use.buffer == page; });
        if (known == uses.end()) {
            uses.push_back({page, uses[i].access, false, uses[i].believed_read});
            continue;
        }
        known->access =
            static_cast<Access>(static_cast<int>(known->access) | static_cast<int>(uses[i].access));
        known->believed_read = known->believed_read && uses[i].believed_read;
    }
}

CUresult Residency::add_page() {
    Buffer& page = new_buffer(options_.page_bytes, kNoBuffer);
    if (const CUresult result = allocate_large(page); result != CUDA_SUCCESS) {
        drop_buffer(page);
        return result;
    }
    page.live = page.is_page = true;
    count_large(page);
    addresses_.set_owner(page.range, kPageFlag | packed_.add_slab(page.range));
    pages_.push_back(&page);
    return CUDA_SUCCESS;
}

CUresult Residency::allocate_packed(Buffer& buffer) {
    Arena::Block block = packed_.take(buffer.bytes);
    if (block.address == 0) {
        if (const CUresult result = add_page(); result != CUDA_SUCCESS) return result;
        block = packed_.take(buffer.bytes);
    }
    const std::uint32_t slab = addresses_.find(block.address) & ~kPageFlag;
    buffer.page = pages_[slab];
    ++buffer.page->tenants;
    buffer.address = block.address;
    buffer.block_bytes = block.bytes;
    buffer.ready = block.guard;
    buffer.backed = true;  // its page answers for it
    buffer.place = Place::resident;
    packed_.set_owner(slab, block.address, block.bytes, buffer.index);
    return CUDA_SUCCESS;
}

void Residency::release_packed(Buffer& buffer, const MarkSet& guard) {
    packed_.set_owner(addresses_.find(buffer.address) & ~kPageFlag, buffer.address, buffer.block_bytes, 0);
    packed_.give(buffer.address, buffer.block_bytes, guard);
    Buffer& page = *buffer.page;
    if (--page.tenants != 0 || pool_ != nullptr) return;
    // Nobody needs what is in it.
    give_host(page);
    page.place = Place::empty;
    page.dirty = true;
}

}  // namespace swapadvisor
