#include "replayer/hidden_addresses.h"

#include <algorithm>

#include "replayer/residency.h"

namespace swapadvisor {
namespace {
// Of memory that is not ours, as far as it is likely to be a table.
constexpr std::uint64_t kMostForeign = 1 << 20;
constexpr std::size_t kMostForeignSpans = 256;
// Large buffers: some at first, and then in proportion to what is copied, which takes far longer.
constexpr std::uint64_t kMostAtFirst = 64 << 20, kCopiedPerLooked = 2048;
// Of those that are likely to leave next, so that one look does for many.
constexpr std::size_t kMostCleared = 256;
// For the sake of one buffer each time it was written, then each time it was written 2, 4, ... 2^10 times.
constexpr std::uint8_t kFreeLooks = 8, kMostLooks = kFreeLooks + 10;
}  // namespace

bool HiddenAddresses::open() {
    if (opened_) return search_ != nullptr;
    opened_ = true;
    const DriverApi& api = residency_.api();
    auto search = AddressSearch::open(api);
    if (!search || api.cuStreamCreate_(&stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return false;
    queue_ = residency_.timeline().queue(residency_.context(), stream_);
    search_ = std::move(search);
    return true;
}

// Buffers that come and go between two looks must not add up.
void HiddenAddresses::forget_gone() {
    std::erase_if(unlooked_, [](const Buffer* b) { return !b->live || b->written == 0; });
    std::sort(unlooked_.begin(), unlooked_.end());
    unlooked_.erase(std::unique(unlooked_.begin(), unlooked_.end()), unlooked_.end());
    unlooked_.reserve(2 * unlooked_.size() + 64);
}

void HiddenAddresses::add_foreign(CUdeviceptr address, std::uint64_t bytes) {
    const auto same = [&](const Foreign& known) { return known.address == address; };
    if (foreign_.size() < kMostForeignSpans && std::none_of(foreign_.begin(), foreign_.end(), same))
        foreign_.push_back({address, bytes});
}

void HiddenAddresses::forget_foreign(CUdeviceptr address, std::uint64_t bytes) {
    std::erase_if(foreign_, [&](const Foreign& known) { return known.address - address < bytes; });
    const bool reads = begun_ != ended_ && std::any_of(spans_.begin(), spans_.end(), [&](const Span& span) {
                           return span.buffer == nullptr && span.address < address + bytes &&
                                  address < span.address + span.bytes;
                       });
    if (reads && residency_.timeline().wait(mark_) == CUDA_SUCCESS) finish();
}

bool HiddenAddresses::affordable(std::uint64_t bytes) const {
    const ResidencyCounts& moved = residency_.counts();
    const std::uint64_t at_first = std::min(residency_.memory_limit_bytes() / 2, kMostAtFirst);
    return large_bytes_ + bytes <= at_first + (moved.bytes_in + moved.bytes_out) / kCopiedPerLooked;
}

// What is still being written is read as it is: what matters is there already. It is looked through again later.
void HiddenAddresses::add_spans() {
    Timeline& timeline = residency_.timeline();
    // Tables are small, and written once rather than often: what keeps being written, and held no address, is
    // a reason for a look less and less often, and a large one only once,
    // as far as the budget goes. With others they are looked through too.
    const auto due = [this](const Buffer* b) {
        return b->live && b->written >> std::max(b->looks - kFreeLooks, 0) != 0 &&
               (b->small || (affordable(b->bytes) && (b->is_page || b->looks == 0)));
    };
    if (foreign_.empty() && std::none_of(unlooked_.begin(), unlooked_.end(), due)) return;
    std::size_t kept = 0;
    for (Buffer* const b : unlooked_) {
        if (!b->live || b->written == 0) continue;
        const bool there = b->backed && b->place == Place::resident && timeline.done(b->ready);
        // In a pool a large one may be out of reach.
        // One that was looked through already can wait until nobody writes there.
        const bool reach = b->small || (b->slot != nullptr && affordable(b->bytes) &&
                                        (b->is_page || b->looks == 0 || timeline.done(b->uses)));
        if (there && reach) {
            if (!b->small) large_bytes_ += b->bytes;
            spans_.push_back({b->address, b->bytes, b});
            if (due(b) && b->looks < kMostLooks) ++b->looks;
            if (timeline.done(b->uses)) b->written = 0;
        }
        if (b->written != 0) unlooked_[kept++] = b;
    }
    unlooked_.resize(kept);
    // The program may have freed it since.
    const DriverApi& api = residency_.api();
    std::erase_if(foreign_, [&](const Foreign& known) {
        CUdeviceptr start = known.address;
        std::size_t bytes = known.bytes;
        if (bytes == 0 && (api.cuPointerGetAttribute_(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                                      known.address) != CUDA_SUCCESS ||
                           api.cuPointerGetAttribute_(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                                      known.address) != CUDA_SUCCESS))
            return true;
        spans_.push_back({start, std::min<std::uint64_t>(bytes, kMostForeign), nullptr});
        return false;
    });
}

// False: there is nothing to look through, or no way to.
bool HiddenAddresses::start(Buffer* leaving) {
    Timeline& timeline = residency_.timeline();
    ++begun_;
    if (leaving != nullptr) leaving->cleared = begun_;
    std::size_t more = 0;
    residency_.for_each_by_age([&](Buffer& b) {
        if (timeline.done(b.uses)) b.cleared = begun_;
        return ++more < kMostCleared;
    });
    spans_.clear();
    add_spans();
    if (spans_.empty() || !open()) {
        ended_ = begun_;
        return false;
    }
    if (leaving != nullptr) timeline.order(queue_, leaving->uses);
    const AddressSpace& addresses = residency_.addresses();
    search_->start(addresses.low(), addresses.high(), addresses.page_bytes());
    for (const Span& span : spans_) {
        search_->add(span.address, span.bytes);
        looked_bytes += span.bytes;
    }
    const CUresult result = search_->issue(stream_);
    mark_ = timeline.issued(queue_);
    timeline.record(queue_);  // that it is done shall be seen without a wait
    answered_ = result == CUDA_SUCCESS;
    looks += answered_;
    return true;
}

void HiddenAddresses::finish() {
    ended_ = begun_;
    if (!answered_) return;
    const AddressSpace& addresses = residency_.addresses();
    bool any = false;
    search_->for_each_found([&](std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t page = from; page < to; page += addresses.page_bytes())
            if (Buffer* b = residency_.holder_of(page); b != nullptr && b->escaped == nullptr) {
                residency_.found_named(*b);
                any = true;
            }
    });
    // One of them is a table, and may become the table of something else.
    for (const Span& span : spans_)
        if (any && span.buffer != nullptr) span.buffer->looks = 0;
}

void HiddenAddresses::prepare(Buffer& buffer) {
    Timeline& timeline = residency_.timeline();
    if (buffer.cleared != 0 || timeline.gated(buffer.uses)) return;
    if (begun_ != ended_) {
        MarkSet own;
        own.add(mark_);
        if (!timeline.done(own)) return;
        finish();
    }
    if (buffer.escaped == nullptr) start(&buffer);
}

Outcome HiddenAddresses::may_leave(Buffer& buffer) {
    for (;;) {
        if (begun_ != ended_) {
            MarkSet own;
            own.add(mark_);
            if (const Outcome over = residency_.over(own); !over.ok()) return over;
            finish();
        }
        if (buffer.escaped != nullptr) return Outcome::Kind::later;
        if (buffer.cleared != 0 || !start(&buffer)) return CUDA_SUCCESS;
    }
}

void HiddenAddresses::look_now() {
    const auto end = [&] {
        if (begun_ != ended_ && residency_.timeline().wait(mark_) == CUDA_SUCCESS) finish();
    };
    end();
    if (start(nullptr)) end();
}

}  // namespace swapadvisor
