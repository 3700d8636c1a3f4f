#include "replayer/residency.h"

#include <algorithm>

#include "replayer/content_check.h"
#include "replayer/hidden_addresses.h"
#include "replayer/planned_pool.h"

namespace swapadvisor {
namespace {
bool writes(const BufferUse& use) {
    return (static_cast<int>(use.access) & static_cast<int>(Access::write)) != 0;
}
}  // namespace

Residency::Residency(const DriverApi& api, Timeline& timeline, CUcontext context, CUdevice device,
                     ResidencyOptions options)
    : api_(api),
      timeline_(timeline),
      context_(context),
      device_(device),
      options_(std::move(options)),
      addresses_(api, options_.page_bytes, options_.region_bytes),
      memory_(api, device, options_.page_bytes, options_.limit_bytes / options_.page_bytes),
      host_(api, context, options_.host_limit_bytes),
      arena_(options_.page_bytes),
      packed_(options_.page_bytes),
      hidden_(std::make_unique<HiddenAddresses>(*this)) {}

std::unique_ptr<Residency> Residency::create(const DriverApi& api, Timeline& timeline, CUcontext context,
                                             CUdevice device, ResidencyOptions options, CUresult& result) {
    std::unique_ptr<Residency> self(new Residency(api, timeline, context, device, std::move(options)));
    result = api.cuStreamCreate_(&self->in_stream_, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS) result = api.cuStreamCreate_(&self->out_stream_, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) return nullptr;
    self->in_ = timeline.queue(context, self->in_stream_);
    self->out_ = timeline.queue(context, self->out_stream_);
    return self;
}

Residency::~Residency() {
    host_.stop(false);
    pool_.reset();
}

void Residency::abandon() {
    abandoned_ = true;
    host_.stop(false);
    addresses_.abandon();
    if (pool_) pool_->abandon();
}

// Mapped memory and addresses belong to the process, not to the context: they would stay.
void Residency::context_ended() {
    memory_.give_all_back();
    addresses_.context_ended();
}

// --- allocations
// ----------------------------------------------------------------------------------------------------

Buffer& Residency::new_buffer(std::uint64_t bytes, BufferId id) {
    OwnerId index;
    if (!free_ids_.empty()) {
        index = free_ids_.back();
        free_ids_.pop_back();
        *buffers_[index - 1] = Buffer{};
    } else {
        buffers_.push_back(std::make_unique<Buffer>());
        index = static_cast<OwnerId>(buffers_.size());
    }
    Buffer& buffer = *buffers_[index - 1];
    buffer.index = index;
    buffer.id = id;
    buffer.bytes = bytes;
    buffer.owner = this;
    return buffer;
}

void Residency::drop_buffer(Buffer& buffer) {
    std::erase(named_away_, &buffer);
    buffer.live = false;
    free_ids_.push_back(buffer.index);
}

CUresult Residency::check_host_room(std::uint64_t bytes) {
    const std::uint64_t device_bytes = memory_.limit_pages() * options_.page_bytes - arena_.held_bytes();
    if (large_live_bytes_ + bytes <= device_bytes + host_.limit()) return CUDA_SUCCESS;
    ++counts_.refused;
    note("out of memory: the program holds " + std::to_string(large_live_bytes_) + " bytes and asks for " +
         std::to_string(bytes) + " more; device limit and host memory limit (SWAPADVISOR_HOST_MEMORY, " +
         std::to_string(host_.limit()) + " bytes) together are not enough");
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult Residency::allocate(std::uint64_t bytes, BufferId id, Buffer*& out, std::int32_t planned_tensor) {
    out = nullptr;
    Buffer& buffer = new_buffer(bytes, id);
    buffer.small = bytes < options_.arena_below;
    CUresult result;
    if (buffer.small) {
        result = bytes < options_.resident_below ? allocate_small(buffer) : allocate_packed(buffer);
    } else if (planned_tensor >= 0 && pool_ && pool_->bind(planned_tensor, buffer)) {
        addresses_.set_owner(buffer.range, buffer.index);
        result = CUDA_SUCCESS;
    } else {
        result = allocate_large(buffer);
    }
    if (result != CUDA_SUCCESS) {
        drop_buffer(buffer);
        return result;
    }
    buffer.live = true;
    counts_.live_bytes += bytes;
    counts_.peak_live_bytes = std::max(counts_.peak_live_bytes, counts_.live_bytes);
    if (!buffer.small) {
        count_large(buffer);
    }
    out = &buffer;
    return CUDA_SUCCESS;
}

void Residency::count_large(const Buffer& buffer) {
    large_live_bytes_ += buffer.bytes;
    // Whatever is over the limit will have to go to the host: pin ahead of need, off this thread.
    if (large_live_bytes_ + arena_.held_bytes() > memory_.limit_pages() * options_.page_bytes)
        host_.want(large_live_bytes_ + large_live_bytes_ / 8);
}

// One more page for small allocations.
Outcome Residency::add_slab() {
    ++stamp_;  // no op is in progress: whatever the last one touched may be evicted
    why_.clear();
    ContextScope scope(api_, context_);
    if (pool_ &&
        arena_.held_bytes() / options_.page_bytes + escaped_pages_ + pool_->pages() >= memory_.limit_pages())
        if (const CUresult left = leave_plan("small allocations outgrew what the plan left them", true);
            left != CUDA_SUCCESS)
            return left;
    Slot* slot = nullptr;
    if (const Outcome found = obtain_slot(1, slot); !found.ok()) return found;
    AddressRange range;
    CUresult result = addresses_.take(1, range);
    if (result == CUDA_SUCCESS) {
        result = memory_.map(range.address, *slot);
        if (result != CUDA_SUCCESS) addresses_.give(range);
    }
    if (result != CUDA_SUCCESS) {
        spare_[slot->pages].push_back(slot);
        spare_pages_ += slot->pages;
        return result;
    }
    const std::uint32_t slab = arena_.add_slab(range);
    addresses_.set_owner(range, kSlabFlag | slab);
    note_resident();
    return CUDA_SUCCESS;
}

CUresult Residency::allocate_small(Buffer& buffer) {
    Arena::Block block;
    const CUresult result = insist(nullptr, 0, [&]() -> Outcome {
        block = arena_.take(buffer.bytes);
        if (block.address != 0) return CUDA_SUCCESS;
        if (const Outcome added = add_slab(); !added.ok()) return added;
        block = arena_.take(buffer.bytes);
        return CUDA_SUCCESS;
    });
    if (result != CUDA_SUCCESS) {
        note("out of memory: no device memory is left for small allocations" +
             (why_.empty() ? "" : ": " + why_));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    buffer.address = block.address;
    buffer.block_bytes = block.bytes;
    buffer.ready = block.guard;
    buffer.backed = true;
    buffer.place = Place::resident;
    arena_.set_owner(arena_.slab_of(block.address), block.address, block.bytes, buffer.index);
    return CUDA_SUCCESS;
}

CUresult Residency::allocate_large(Buffer& buffer) {
    const std::uint64_t pages = (buffer.bytes + options_.page_bytes - 1) / options_.page_bytes;
    buffer.block_bytes = pages * options_.page_bytes;
    if (CUresult result = check_host_room(buffer.bytes); result != CUDA_SUCCESS) return result;
    auto cached = cached_.find(pages);
    auto usable = [this](const Cached& entry) { return !timeline_.gated(entry.slot->guard); };
    auto last = [&] { return std::find_if(cached->second.rbegin(), cached->second.rend(), usable); };
    if (cached != cached_.end() && timeline_.any_gate()) timeline_.review_gates();
    if (!pool_ && cached != cached_.end() && last() != cached->second.rend()) {
        // Freed memory of the same size, still mapped: no driver call at all.
        const auto found = std::next(last()).base();
        Cached entry = *found;
        cached->second.erase(found);
        cached_pages_ -= pages;
        buffer.range = entry.range;
        buffer.slot = entry.slot;
        buffer.slot->holder = &buffer;
        buffer.ready = entry.slot->guard;
        buffer.slot->guard.clear();
        buffer.backed = true;
        touch(buffer);
    } else if (CUresult result = addresses_.take(pages, buffer.range); result != CUDA_SUCCESS) {
        note("out of memory: no device addresses are left");
        return result;
    }
    buffer.address = buffer.range.address;
    addresses_.set_owner(buffer.range, buffer.index);
    return CUDA_SUCCESS;
}

void Residency::give_host(Buffer& buffer) {
    if (!buffer.host) return;
    // The next owner's copies out may overwrite what an arrival still reads.
    if (!timeline_.gated(buffer.ready)) timeline_.order(out_, buffer.ready);
    host_.give(buffer.host);
    buffer.host = {};
}

void Residency::release(Buffer& buffer) {
    counts_.live_bytes -= buffer.bytes;
    MarkSet guard = buffer.uses;
    guard.add(buffer.ready);
    guard.add(buffer.saved);
    guard.add(hidden_->last_look());
    if (options_.sync_free) timeline_.wait(guard);
    if (buffer.small) {
        if (buffer.page != nullptr) {
            release_packed(buffer, guard);
        } else {
            arena_.set_owner(arena_.slab_of(buffer.address), buffer.address, buffer.block_bytes, 0);
            arena_.give(buffer.address, buffer.block_bytes, guard);
        }
        drop_buffer(buffer);
        return;
    }
    large_live_bytes_ -= buffer.bytes;
    if (buffer.escaped != nullptr) escaped_pages_ -= buffer.pages();
    if (pool_ && buffer.tensor >= 0 && pool_->unbind(buffer, guard)) {
        addresses_.set_owner(buffer.range, 0);
    } else if (buffer.backed) {
        give_host(buffer);
        unlink(buffer);
        buffer.slot->holder = nullptr;
        buffer.slot->guard = std::move(guard);
        addresses_.set_owner(buffer.range, 0);
        cached_[buffer.pages()].push_back({buffer.range, buffer.slot});
        cached_pages_ += buffer.pages();
    } else {
        give_host(buffer);
        addresses_.give(buffer.range);
    }
    drop_buffer(buffer);
}

Buffer* Residency::find(CUdeviceptr address) const {
    OwnerId owner = addresses_.find(address);
    if (owner == 0) return nullptr;
    if (owner & (kSlabFlag | kPageFlag)) {
        const Arena& arena = owner & kPageFlag ? packed_ : arena_;
        owner = arena.find(owner & ~(kSlabFlag | kPageFlag), address);
        if (owner == 0) return nullptr;
    }
    return buffers_[owner - 1].get();
}

Buffer* Residency::holder_of(CUdeviceptr page_address) const {
    const OwnerId owner = addresses_.find(page_address);
    if (owner == 0 || (owner & kSlabFlag) != 0) return nullptr;
    return owner & kPageFlag ? pages_[owner & ~kPageFlag] : buffers_[owner - 1].get();
}

Buffer* Residency::find_near(CUdeviceptr address) const {
    const OwnerId owner = addresses_.find_near(address);
    if (owner == 0 || (owner & kSlabFlag) != 0) return nullptr;
    return owner & kPageFlag ? pages_[owner & ~kPageFlag] : buffers_[owner - 1].get();
}

bool Residency::whatever_fits(const BufferUse* uses, std::size_t count, std::vector<Buffer*>& others) const {
    std::uint64_t pages = escaped_pages_ + arena_.held_bytes() / options_.page_bytes;
    std::vector<Buffer*> all;
    for (const auto& buffer : buffers_) {
        if (!buffer || !buffer->live || buffer->small || buffer->escaped != nullptr) continue;
        if (std::any_of(uses, uses + count, [&](const BufferUse& use) { return use.buffer == buffer.get(); }))
            pages += buffer->pages();
        else
            all.push_back(buffer.get());
    }
    std::sort(all.begin(), all.end(), [](const Buffer* a, const Buffer* b) {
        return a->backed != b->backed ? a->backed : a->stamp > b->stamp;
    });
    bool complete = true;
    for (Buffer* buffer : all) {
        if (pages + buffer->pages() > memory_.limit_pages()) {
            complete = false;
            continue;
        }
        pages += buffer->pages();
        others.push_back(buffer);
    }
    return complete;
}

// --- ops
// ------------------------------------------------------------------------------------------------------------

// Why an op got no memory: together with what stays on the device it exceeds the limit, or else what there
// was to say when something could not leave.
std::string Residency::why_not(const BufferUse* uses, std::size_t count) const {
    std::uint64_t own = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Buffer& b = *uses[i].buffer;
        bool again = b.small || b.escaped != nullptr;
        for (std::size_t j = 0; j < i && !again; ++j) again = uses[j].buffer == &b;
        if (!again) own += b.pages() * options_.page_bytes;
    }
    const std::uint64_t small = arena_.held_bytes(), fixed = escaped_pages_ * options_.page_bytes;
    if (own + small + fixed <= memory_limit_bytes())
        return why_.empty() ? "" : "could not get the device memory it uses: " + why_;
    std::string parts;
    if (small != 0) parts += ", " + std::to_string(small) + " held by small allocations";
    if (fixed != 0) parts += ", " + std::to_string(fixed) + " that may not move";
    return "needs " + std::to_string(own + small + fixed) + " bytes on the device at once" +
           (parts.empty() ? "" : " (" + std::to_string(own) + " itself" + parts + ")") + ", the limit is " +
           std::to_string(memory_limit_bytes()) + " bytes";
}

CUresult Residency::begin(const BufferUse* uses, std::size_t count, QueueId queue, CUcontext) {
    const CUresult result = insist(uses, count, [&] { return attempt(uses, count, queue); });
    if (result == CUDA_ERROR_OUT_OF_MEMORY) why_ = why_not(uses, count);
    return result;
}

Outcome Residency::attempt(const BufferUse* uses, std::size_t count, QueueId queue) {
    ++stamp_;
    // For an op that is not made after all: what it was to overwrite still counts.
    auto keep_contents = [&] {
        for (std::size_t i = 0; i < count; ++i)
            if (uses[i].overwrites && uses[i].buffer->place == Place::empty)
                uses[i].buffer->place = Place::absent;
    };
    bool all = true;
    for (std::size_t i = 0; i < count; ++i) {
        uses[i].buffer->stamp = stamp_;
        all = all && uses[i].buffer->backed && uses[i].buffer->place != Place::absent;
    }
    if (!all) {
        why_.clear();
        ContextScope scope(api_, context_);
        if (timeline_.any_gate()) timeline_.review_gates();
        // Leaving the plan makes everything absent, so what was done for this op starts again: at most once.
        for (std::size_t i = 0; i < count;) {
            Buffer& b = *uses[i].buffer;
            const bool had_pool = pool_ != nullptr;
            Outcome got = CUDA_SUCCESS;
            if (!b.backed) got = pool_ ? pool_->claim(b) : attach(b);
            if (had_pool && got.is(Outcome::Kind::crowded)) {
                const Outcome moved = move_into_pool(uses, count);
                if (moved.ok()) {
                    i = 0;
                    continue;
                }
                got = moved.is(Outcome::Kind::wait) ? moved : Outcome(Outcome::Kind::elsewhere);
            }
            if (had_pool && got.is(Outcome::Kind::elsewhere)) {
                const bool refused = pool_->refused();
                got = leave_plan(refused        ? "the device has no room for the plan's pool"
                                 : b.tensor < 0 ? "memory outside of the plan was used"
                                                : "one op uses what the plan never has resident together",
                                 refused);
                if (got.ok()) {
                    i = 0;
                    continue;
                }
            }
            if (got.ok() && b.place == Place::absent && uses[i].overwrites) {
                // Nothing of it is needed; but a copy out that is under way reads memory that is not this
                // one.
                b.place = Place::empty;
            } else if (got.ok() && b.place == Place::absent) {
                ++counts_.demand_ins;
                got = copy_in(b);
            }
            if (!got.ok()) {
                keep_contents();
                return got;
            }
            ++i;
        }
    }
    CUresult ordered = CUDA_SUCCESS;
    for (std::size_t i = 0; i < count && ordered == CUDA_SUCCESS; ++i) {
        ordered = timeline_.order(queue, uses[i].buffer->ready);
        if (ordered == CUDA_SUCCESS && writes(uses[i]))
            ordered = timeline_.order(queue, uses[i].buffer->saved);
    }
    if (ordered != CUDA_SUCCESS) {
        why_.clear();
        keep_contents();
        return ordered;
    }
    for (std::size_t i = 0; i < count; ++i) {
        Buffer& b = *uses[i].buffer;
        if (writes(uses[i])) {
            b.believed_clean = uses[i].believed_read && (!b.dirty || b.believed_clean);
            b.dirty = true;
        }
        hidden_->used(b, writes(uses[i]));
        b.place = Place::resident;
        if (b.slot != nullptr) touch(b);
    }
    return CUDA_SUCCESS;
}

CUresult Residency::map_only(const BufferUse* uses, std::size_t count) {
    const CUresult result = insist(uses, count, [&] { return attempt_map(uses, count); });
    if (result == CUDA_ERROR_OUT_OF_MEMORY) why_ = why_not(uses, count);
    return result;
}

Outcome Residency::attempt_map(const BufferUse* uses, std::size_t count) {
    ++stamp_;
    for (std::size_t i = 0; i < count; ++i) uses[i].buffer->stamp = stamp_;
    why_.clear();
    ContextScope scope(api_, context_);
    for (std::size_t i = 0; i < count;) {
        Buffer& b = *uses[i].buffer;
        Outcome got = CUDA_SUCCESS;
        if (!b.backed) got = pool_ ? pool_->claim(b) : attach(b);
        if (pool_ && (got.is(Outcome::Kind::elsewhere) || got.is(Outcome::Kind::crowded))) {
            if (const CUresult left = leave_plan("a capture needs other memory than the plan's");
                left != CUDA_SUCCESS)
                return left;
            i = 0;
            continue;
        }
        if (!got.ok()) return got;
        ++i;
    }
    return CUDA_SUCCESS;
}

CUresult Residency::set_escaped(Buffer& b, const char* reason) {
    if (b.escaped != nullptr) return CUDA_SUCCESS;
    if (b.small) {
        const CUresult result = b.page != nullptr ? set_escaped(*b.page, reason) : CUDA_SUCCESS;
        if (result == CUDA_SUCCESS) b.escaped = reason;
        return result;
    }
    CUresult result = pool_ ? leave_plan("memory of the plan may not move any more") : CUDA_SUCCESS;
    const BufferUse use{&b};
    if (result == CUDA_SUCCESS) result = insist(&use, 1, [&] { return attempt_escape(b); });
    if (result != CUDA_SUCCESS) {
        note("memory that must stay on the device does not fit the limit: " + std::to_string(b.bytes) +
             " bytes (" + reason + "), beside " + std::to_string(escaped_pages_ * options_.page_bytes) +
             " that must stay already; the limit is " + std::to_string(memory_limit_bytes()) + " bytes");
        return result;
    }
    if (b.escaped != nullptr) return CUDA_SUCCESS;  // by another thread, meanwhile
    b.escaped = reason;
    escaped_pages_ += b.pages();
    return CUDA_SUCCESS;
}

// Gives back host memory that is not needed: stale copies of buffers that were written on the device since,
// or else valid copies of buffers that are on the device as well. Never of one that is about to leave (it has
// the newest stamp).
bool Residency::reclaim_host() {
    bool any = false;
    for (const bool stale : {true, false}) {
        for_each_large([&](Buffer& b) {
            if (!b.host || b.place != Place::resident || !b.backed || b.dirty != stale ||
                (!stale && b.stamp == stamp_))
                return;
            // Its next owner's copy out waits for the copy in that may still read it.
            if (waits_for_program(b) || timeline_.order(out_, b.ready) != CUDA_SUCCESS) return;
            if (pool_) pool_->forget_host(b);
            host_.give(b.host);
            b.host = {};
            b.dirty = true;
            any = true;
        });
        if (any) break;
    }
    return any;
}

// --- copies
// ---------------------------------------------------------------------------------------------------------

CUresult Residency::save(Buffer& buffer, Mark after) {
    ContextScope scope(api_, context_);
    if (!buffer.host) {
        buffer.hashed = 0;
        buffer.host = host_.take(buffer.bytes);
        if (!buffer.host && reclaim_host()) buffer.host = host_.take(buffer.bytes);
        if (!buffer.host) {
            why_ = "pinned host memory ran out: " + std::to_string(host_.used()) +
                   " bytes in use, the limit is " + std::to_string(host_.limit()) +
                   " (SWAPADVISOR_HOST_MEMORY)" +
                   (host_.refused() ? ", and the system refused to pin more" : "");
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    CUresult result = timeline_.order(out_, buffer.ready);
    if (result == CUDA_SUCCESS) result = timeline_.order(out_, buffer.uses);
    if (result == CUDA_SUCCESS) result = timeline_.order(out_, after);
    if (result != CUDA_SUCCESS) return result;
    auto outcome = ContentCheck::Outcome::copied;
    std::uint64_t wrong_bytes = 0;
    result = content_ ? content_->save(buffer, out_stream_, outcome, wrong_bytes)
                      : api_.cuMemcpyDtoHAsync_(buffer.host.data, buffer.address, buffer.bytes, out_stream_);
    if (result != CUDA_SUCCESS) return result;
    buffer.saved = timeline_.issued(out_);
    timeline_.record(out_);
    buffer.uses.add(buffer.saved);
    buffer.dirty = buffer.believed_clean = false;
    if (wrong_bytes != 0) note_out(buffer, wrong_bytes);
    if (outcome == ContentCheck::Outcome::checked)
        note_drop(buffer);
    else
        note_out(buffer, buffer.bytes);
    return CUDA_SUCCESS;
}

void Residency::note_out(Buffer& buffer, std::uint64_t bytes) {
    counts_.bytes_out += bytes;
    if (options_.on_swap) options_.on_swap(buffer, SwapEvent::out, bytes);
}

void Residency::note_drop(Buffer& buffer) {
    ++counts_.clean_drops;
    if (options_.on_swap) options_.on_swap(buffer, SwapEvent::drop, 0);
}

bool Residency::check_contents() {
    if (!content_) {
        ContextScope scope(api_, context_);
        content_ = ContentCheck::open(api_, device_);
    }
    return content_ != nullptr;
}

CUresult Residency::copy_in(Buffer& buffer, Mark after) {
    ContextScope scope(api_, context_);
    CUresult result = timeline_.order(in_, buffer.ready);
    if (result == CUDA_SUCCESS) result = timeline_.order(in_, buffer.saved);
    if (result == CUDA_SUCCESS) result = timeline_.order(in_, after);
    if (result != CUDA_SUCCESS) return result;
    result = api_.cuMemcpyHtoDAsync_(buffer.address, buffer.host.data, buffer.bytes, in_stream_);
    if (result != CUDA_SUCCESS) return result;
    const Mark mark = timeline_.issued(in_);
    timeline_.record(in_);
    buffer.ready.clear();
    buffer.ready.add(mark);
    buffer.uses.add(mark);
    buffer.place = Place::resident;
    buffer.dirty = buffer.believed_clean = false;
    counts_.bytes_in += buffer.bytes;
    if (options_.on_swap) options_.on_swap(buffer, SwapEvent::in, buffer.bytes);
    return CUDA_SUCCESS;
}

// --- the planned pool
// -----------------------------------------------------------------------------------------------

void Residency::enter_plan(std::unique_ptr<PlannedPool> pool) {
    pool_ = std::move(pool);
}

CUresult Residency::leave_plan(const char* reason, bool no_room) {
    if (!pool_) return CUDA_SUCCESS;
    ContextScope scope(api_, context_);
    // What was stored meanwhile is found before an op that the plan does not know of uses it.
    hidden_->look_now();
    CUresult result = pool_->dissolve();
    if (result != CUDA_SUCCESS) return result;
    pool_.reset();
    if (on_leave) on_leave(reason, no_room);
    return CUDA_SUCCESS;
}

}  // namespace swapadvisor
