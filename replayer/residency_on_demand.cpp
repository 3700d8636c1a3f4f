// Residency without a plan: one handle per buffer, mapped on arrival; a victim is copied out if need be, and
// its range unmapped before its handle is used again, so that a use that was missed faults instead of reading
// others' bytes.
#include <algorithm>

#include "replayer/planned_pool.h"
#include "replayer/residency.h"

namespace swapadvisor {

void Residency::unlink(Buffer& b) {
    if (b.older != nullptr) b.older->newer = b.newer;
    if (b.newer != nullptr) b.newer->older = b.older;
    if (oldest_ == &b) oldest_ = b.newer;
    if (newest_ == &b) newest_ = b.older;
    b.older = b.newer = nullptr;
}

void Residency::touch(Buffer& b) {
    if (newest_ == &b) return;
    if (b.older != nullptr || b.newer != nullptr || oldest_ == &b) unlink(b);
    b.older = newest_;
    if (newest_ != nullptr) newest_->newer = &b;
    newest_ = &b;
    if (oldest_ == nullptr) oldest_ = &b;
}

void Residency::note_resident() {
    const std::uint64_t pages = memory_.used_pages() - spare_pages_ - cached_pages_;
    counts_.peak_resident_bytes = std::max(counts_.peak_resident_bytes, pages * options_.page_bytes);
}

// A victim: who is on the way out already; what is needed again last, if anyone knows; else what was touched
// longest ago.
Buffer* Residency::victim() {
    for (const Leaving& entry : leaving_)
        if (entry.valid() && entry.stamp != stamp_ && movable(*entry.buffer)) return entry.buffer;
    Buffer* best = nullptr;
    std::uint64_t best_use = 0;
    for (Buffer* b = oldest_; b != nullptr; b = b->newer) {
        if (b->stamp == stamp_ || !movable(*b)) continue;
        if (!next_use) return b;
        const std::uint64_t use = next_use(*b);
        if (best == nullptr || use > best_use) {
            best = b;
            best_use = use;
        }
    }
    return best;
}

CUresult Residency::detach(Buffer& b) {
    CUresult result = timeline_.wait(b.uses);
    if (result == CUDA_SUCCESS) result = timeline_.wait(b.ready);
    if (result == CUDA_SUCCESS) result = memory_.unmap(b.range.address, b.pages());
    if (result != CUDA_SUCCESS) return result;
    unlink(b);
    Slot* slot = b.slot;
    b.slot = nullptr;
    b.backed = false;
    if (b.place == Place::resident) b.place = Place::absent;
    b.ready.clear();
    b.uses.clear();
    slot->holder = nullptr;
    slot->guard.clear();
    spare_[slot->pages].push_back(slot);
    spare_pages_ += slot->pages;
    return CUDA_SUCCESS;
}

// Unmaps freed memory that was kept for the next allocation of its size; true if anything was.
bool Residency::reclaim_cached(std::uint64_t pages, bool may_wait) {
    if (cached_pages_ == 0) return false;
    auto chosen = cached_.find(pages);
    if (chosen == cached_.end() || chosen->second.empty())
        chosen = std::find_if(cached_.begin(), cached_.end(),
                              [](const auto& entry) { return !entry.second.empty(); });
    Cached entry = chosen->second.front();
    if (!may_wait && !timeline_.done(entry.slot->guard)) return false;
    if (timeline_.wait(entry.slot->guard) != CUDA_SUCCESS) return false;
    if (memory_.unmap(entry.range.address, entry.range.pages) != CUDA_SUCCESS) return false;
    chosen->second.erase(chosen->second.begin());
    cached_pages_ -= entry.range.pages;
    addresses_.give(entry.range);
    entry.slot->guard.clear();
    spare_[entry.slot->pages].push_back(entry.slot);
    spare_pages_ += entry.slot->pages;
    return true;
}

// Evicts until `pages` are spare or free (in whatever sizes). All copies are started before the first is
// waited for.
CUresult Residency::make_room(std::uint64_t pages) {
    pressure_ = true;
    std::vector<Buffer*> leaving;
    std::uint64_t found = memory_.free_pages() + spare_pages_;
    CUresult result = CUDA_SUCCESS;
    while (found < pages && result == CUDA_SUCCESS) {
        Buffer* b = victim();
        if (b == nullptr) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
            break;
        }
        b->stamp = stamp_;  // not again; and its host copy is about to be the only one
        if (b->place == Place::resident && b->dirty) {
            result = save(*b);
        } else if (b->place == Place::resident) {
            note_drop(*b);
        }
        if (result != CUDA_SUCCESS) break;
        found += b->pages();
        leaving.push_back(b);
    }
    for (Buffer* b : leaving) {
        CUresult one = detach(*b);
        if (one != CUDA_SUCCESS) result = one;
    }
    return result;
}

// As much as it takes for `pages` to be free.
void Residency::release_spare(std::uint64_t pages) {
    for (auto& [size, list] : spare_)
        while (!list.empty() && memory_.free_pages() < pages) {
            Slot* slot = list.back();
            list.pop_back();
            spare_pages_ -= size;
            memory_.release(*slot);
            std::erase_if(slots_, [&](const auto& s) { return s.get() == slot; });
        }
}

CUresult Residency::free_up(std::uint64_t pages, bool may_wait) {
    for (;;) {
        release_spare(pages);
        if (memory_.free_pages() >= pages) return CUDA_SUCCESS;
        if (reclaim_cached(0, may_wait)) continue;
        if (take_from_leaving(pages - memory_.free_pages()) != 0) continue;
        if (!may_wait) return CUDA_ERROR_NOT_READY;
        if (CUresult result = make_room(pages); result != CUDA_SUCCESS) return result;
    }
}

CUresult Residency::obtain_slot(std::uint64_t pages, Slot*& slot, bool may_wait) {
    for (bool restored = false;;) {
        auto& same = spare_[pages];
        if (!same.empty()) {
            slot = same.back();
            same.pop_back();
            spare_pages_ -= pages;
            return CUDA_SUCCESS;
        }
        if (memory_.free_pages() >= pages) {
            auto fresh = std::make_unique<Slot>();
            const CUresult result = memory_.create(pages, *fresh);
            if (result == CUDA_SUCCESS) {
                slot = fresh.get();
                slots_.push_back(std::move(fresh));
                return CUDA_SUCCESS;
            }
            if (result != CUDA_ERROR_OUT_OF_MEMORY || !may_wait) return result;
            note("the device has less free memory than the limit allows: going on with " +
                 std::to_string(memory_.used_pages() * options_.page_bytes) + " bytes");
            memory_.lower_limit();
            continue;
        }
        if (reclaim_cached(pages, may_wait)) continue;
        if (memory_.free_pages() + spare_pages_ >= pages) {
            release_spare(pages);  // enough memory, in other sizes
            continue;
        }
        if (!may_wait) return CUDA_ERROR_OUT_OF_MEMORY;
        if (CUresult result = make_room(pages); result != CUDA_SUCCESS) {
            // Nothing is left to evict: before giving up, ask for what was refused before.
            if (result != CUDA_ERROR_OUT_OF_MEMORY || restored || !memory_.restore_limit()) return result;
            restored = true;
        }
    }
}

CUresult Residency::attach(Buffer& b, bool may_wait) {
    Slot* slot = nullptr;
    if (CUresult result = obtain_slot(b.pages(), slot, may_wait); result != CUDA_SUCCESS) return result;
    if (CUresult result = memory_.map(b.range.address, *slot); result != CUDA_SUCCESS) {
        spare_[slot->pages].push_back(slot);
        spare_pages_ += slot->pages;
        return result;
    }
    slot->holder = &b;
    b.slot = slot;
    b.backed = true;
    touch(b);
    note_resident();
    return CUDA_SUCCESS;
}

// Where a plan has just been installed: who is used by the op, and is where it was before, moves to its place
// in the pool. True if anyone has left for that.
bool Residency::move_into_pool(const BufferUse* uses, std::size_t count) {
    bool any = false;
    for (std::size_t i = 0; i < count; ++i) {
        Buffer& b = *uses[i].buffer;
        if (b.slot == nullptr || b.tensor < 0 || pool_->buffer(b.tensor) != &b || !movable(b)) continue;
        if (b.place == Place::resident && b.dirty && save(b) != CUDA_SUCCESS) continue;
        any = detach(b) == CUDA_SUCCESS || any;
    }
    return any;
}

CUresult Residency::set_escaped(Buffer& b, const char* reason) {
    if (b.small || b.escaped != nullptr) return CUDA_SUCCESS;
    CUresult result = pool_ ? leave_plan("memory of the plan may not move any more") : CUDA_SUCCESS;
    ContextScope scope(api_, context_);
    ++stamp_;
    b.stamp = stamp_;
    why_.clear();
    if (result == CUDA_SUCCESS && !b.backed) result = attach(b);
    if (result == CUDA_SUCCESS && b.place == Place::absent) result = copy_in(b);
    if (result != CUDA_SUCCESS) {
        note("memory that must stay on the device does not fit the limit: " + std::to_string(b.bytes) +
             " bytes (" + reason + "), beside " + std::to_string(escaped_pages_ * options_.page_bytes) +
             " that must stay already; the limit is " + std::to_string(memory_limit_bytes()) + " bytes");
        return result;
    }
    b.escaped = reason;
    escaped_pages_ += b.pages();
    return CUDA_SUCCESS;
}

}  // namespace swapadvisor
