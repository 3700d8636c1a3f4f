// Residency without a plan: one handle per buffer, mapped on arrival; a victim is copied out if need be, and
// its range unmapped before its handle is used again, so that a use that was missed faults instead of reading
// others' bytes.
#include <algorithm>

#include "replayer/hidden_addresses.h"
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
        if (entry.valid() && entry.stamp != stamp_ && movable(*entry.buffer) &&
            !waits_for_program(*entry.buffer))
            return entry.buffer;
    Buffer* best = nullptr;
    std::uint64_t best_use = 0;
    for (Buffer* b = oldest_; b != nullptr; b = b->newer) {
        if (b->stamp == stamp_ || !movable(*b) || waits_for_program(*b)) continue;
        if (!next_use) return b;
        const std::uint64_t use = next_use(*b);
        if (best == nullptr || use > best_use) {
            best = b;
            best_use = use;
        }
    }
    return best;
}

Outcome Residency::detach(Buffer& b) {
    if (const Outcome used = over(b.uses); !used.ok()) return used;
    if (const Outcome arrived = over(b.ready); !arrived.ok()) return arrived;
    if (const Outcome hidden = hidden_->may_leave(b); !hidden.ok()) return hidden;
    if (const CUresult result = memory_.unmap(b.range.address, b.pages()); result != CUDA_SUCCESS)
        return result;
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

// Unmaps freed memory that was kept for the next allocation of its size: of that size if there is some, done
// before what is not, and never what is behind a gate.
Outcome Residency::reclaim_cached(std::uint64_t pages, bool may_wait) {
    if (cached_pages_ == 0) return Outcome::Kind::later;
    std::vector<Cached>* chosen = nullptr;
    std::size_t at = 0;
    auto look = [&](std::vector<Cached>& list, bool done) {
        // The longest freed are the first to be done: one look is enough.
        for (std::size_t i = 0; i < list.size(); ++i) {
            const MarkSet& guard = list[i].slot->guard;
            if (timeline_.gated(guard)) continue;
            if (done && !timeline_.done(guard)) return;
            chosen = &list;
            at = i;
            return;
        }
    };
    auto look_everywhere = [&](bool done) {
        chosen = nullptr;
        if (const auto same = cached_.find(pages); same != cached_.end()) look(same->second, done);
        for (auto& [size, list] : cached_)
            if (chosen == nullptr) look(list, done);
    };
    look_everywhere(true);
    if (chosen == nullptr) {
        look_everywhere(false);
        if (chosen == nullptr || !may_wait) return Outcome::Kind::later;
        return over((*chosen)[at].slot->guard);
    }
    const Cached entry = (*chosen)[at];
    if (const CUresult result = memory_.unmap(entry.range.address, entry.range.pages); result != CUDA_SUCCESS)
        return result;
    chosen->erase(chosen->begin() + static_cast<std::ptrdiff_t>(at));
    cached_pages_ -= entry.range.pages;
    addresses_.give(entry.range);
    entry.slot->guard.clear();
    spare_[entry.slot->pages].push_back(entry.slot);
    spare_pages_ += entry.slot->pages;
    return CUDA_SUCCESS;
}

void Residency::adopt(AddressRange range, std::unique_ptr<Slot> slot, Buffer* buffer) {
    Slot* const kept = slot.get();
    slots_.push_back(std::move(slot));
    if (buffer == nullptr) {
        cached_[kept->pages].push_back({range, kept});
        cached_pages_ += kept->pages;
        return;
    }
    kept->holder = buffer;
    buffer->slot = kept;
    touch(*buffer);
}

// Evicts until `pages` are spare or free (in whatever sizes). All copies are started before the first is
// waited for.
Outcome Residency::make_room(std::uint64_t pages) {
    pressure_ = true;
    timeline_.review_gates();
    std::vector<Leaving> going;
    std::uint64_t found = memory_.free_pages() + spare_pages_;
    Outcome outcome = CUDA_SUCCESS;
    while (found < pages && outcome.ok()) {
        Buffer* b = victim();
        if (b == nullptr) {
            outcome = who_else();
            break;
        }
        bool noted = false;
        hidden_->prepare(*b);
        if (b->place == Place::resident && b->dirty) {
            b->stamp = stamp_;  // its host copy is about to be the only one
            outcome = save(*b);
            noted = true;
        } else {
            for (const Leaving& entry : leaving_)
                noted = noted || (entry.buffer == b && entry.valid() && entry.noted);
            if (b->place == Place::resident && !noted) note_drop(*b);
            noted = true;
        }
        b->stamp = stamp_;  // not again
        if (!outcome.ok()) break;
        found += b->pages();
        going.push_back({b, stamp_, b->slot, noted});
    }
    for (const Leaving& entry : going) {
        const Outcome one = detach(*entry.buffer);
        // They are the first to go when this is tried again.
        if (one.is(Outcome::Kind::wait)) {
            std::erase_if(leaving_, [&](const Leaving& other) { return other.buffer == entry.buffer; });
            leaving_.insert(leaving_.begin(), entry);
        }
        // Who turns out to be named stays; another leaves next time round.
        if (!one.ok() && !one.is(Outcome::Kind::later) &&
            (outcome.ok() || outcome.is(Outcome::Kind::crowded)))
            outcome = one;
    }
    return outcome;
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

Outcome Residency::free_up(std::uint64_t pages, bool may_wait) {
    for (;;) {
        release_spare(pages);
        if (memory_.free_pages() >= pages) return CUDA_SUCCESS;
        if (const Outcome cached = reclaim_cached(0, may_wait); !cached.is(Outcome::Kind::later)) {
            if (!cached.ok()) return cached;
            continue;
        }
        if (take_from_leaving(pages - memory_.free_pages()) != 0) continue;
        if (!may_wait) return Outcome::Kind::later;
        if (const Outcome room = make_room(pages); !room.ok()) return room;
    }
}

Outcome Residency::obtain_slot(std::uint64_t pages, Slot*& slot, bool may_wait) {
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
        if (const Outcome cached = reclaim_cached(pages, may_wait); !cached.is(Outcome::Kind::later)) {
            if (!cached.ok()) return cached;
            continue;
        }
        if (memory_.free_pages() + spare_pages_ >= pages) {
            release_spare(pages);  // enough memory, in other sizes
            continue;
        }
        if (!may_wait) return Outcome::Kind::later;
        if (const Outcome room = make_room(pages); !room.ok()) {
            // Nothing is left to evict: before giving up, ask for what was refused before.
            if (!room.is(Outcome::Kind::crowded) || restored || !memory_.restore_limit()) return room;
            restored = true;
        }
    }
}

Outcome Residency::attach(Buffer& b, bool may_wait) {
    Slot* slot = nullptr;
    if (const Outcome found = obtain_slot(b.pages(), slot, may_wait); !found.ok()) return found;
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
// in the pool.
Outcome Residency::move_into_pool(const BufferUse* uses, std::size_t count) {
    bool any = false;
    for (std::size_t i = 0; i < count; ++i) {
        Buffer& b = *uses[i].buffer;
        if (b.slot == nullptr || b.tensor < 0 || pool_->buffer(b.tensor) != &b || !movable(b) ||
            waits_for_program(b))
            continue;
        if (b.place == Place::resident && b.dirty && save(b) != CUDA_SUCCESS) continue;
        const Outcome gone = detach(b);
        if (gone.is(Outcome::Kind::wait)) return gone;
        any = gone.ok() || any;
    }
    return any ? Outcome::Kind::done : Outcome::Kind::crowded;
}

void Residency::found_named(Buffer& b) {
    if (pool_ || !b.backed || b.place == Place::absent) {
        if (std::find(named_away_.begin(), named_away_.end(), &b) == named_away_.end())
            named_away_.push_back(&b);
        return;
    }
    b.escaped = kNamed;
    escaped_pages_ += b.pages();
    if (options_.on_named) options_.on_named(b, kNamed);
}

Outcome Residency::attempt_escape(Buffer& b) {
    ContextScope scope(api_, context_);
    ++stamp_;
    b.stamp = stamp_;
    why_.clear();
    if (!b.backed)
        if (const Outcome attached = attach(b); !attached.ok()) return attached;
    if (b.place != Place::absent) return CUDA_SUCCESS;
    if (const CUresult copied = copy_in(b); copied != CUDA_SUCCESS) return copied;
    return over(b.ready);  // who uses it without naming it is not made to wait for the copy
}

}  // namespace swapadvisor
