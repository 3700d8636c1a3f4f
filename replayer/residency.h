// Who is on the device: all managed memory of one context. At every op it makes sure that what the op touches
// is resident and that the op's stream waits for it, whoever decided what else to evict.
//
// Two ways of backing large buffers: on demand (one handle per buffer, mapped when it arrives, unmapped when
// it is evicted; victims by next use where known, else least recently used), and a planned pool
// (replayer/planned_pool.h: all mapped once, swaps are copies alone).
//
// Not thread-safe: the runtime's lock guards it. Driver errors come back as they are and leave a consistent
// state.
//
// Nothing waits for the device with that lock held where the program may have to act first: attempts that cannot
// be made at once say what they wait for (Outcome), `ResidencyOptions::pause` lets go of the lock meanwhile, and
// then everything is looked at anew. What is behind a gate (replayer/timeline.h) leaves only if nothing else
// can, and none of our copies is put behind it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recorder/driver_api.h"
#include "replayer/address_space.h"
#include "replayer/arena.h"
#include "replayer/buffer.h"
#include "replayer/device_memory.h"
#include "replayer/host_memory.h"
#include "replayer/outcome.h"
#include "replayer/timeline.h"

namespace swapadvisor {

class ContentCheck;
class HiddenAddresses;
class PlannedPool;

/// Owners in the address space that are slabs of small buffers: of the arena, or a page.
/// (replayer/address_space.cpp uses the bits between.)
constexpr OwnerId kSlabFlag = OwnerId{1} << 31, kPageFlag = OwnerId{1} << 28;

enum class SwapEvent : std::uint8_t { in, out, drop };

struct ResidencyOptions {
    std::uint64_t limit_bytes = 0;            ///< device memory for managed buffers, arena included
    std::uint64_t host_limit_bytes = 0;       ///< pinned memory
    std::uint64_t arena_below = 1 << 20;      ///< smaller allocations share pages
    std::uint64_t resident_below = 64 << 10;  ///< of these, smaller ones go to the arena, which never leaves
    std::uint64_t page_bytes = 2 << 20;       ///< allocation granularity of the driver, at least 2 MiB
    std::uint64_t region_bytes = 1ull << 40;
    bool sync_free = false;
    /// Without the owner's lock: until `event` is done, or, if null, until something may have changed, at most
    /// `step`. Without it waits block.
    std::function<CUresult(CUevent event, std::chrono::microseconds step)> pause;
    std::chrono::milliseconds patience{10'000};    ///< with nothing going on, until it is out of memory
    std::chrono::milliseconds plan_patience{20};   ///< the same, until the plan is left
    std::function<void(const std::string&)> note;  ///< one line for the user
    std::function<void(Buffer&, SwapEvent, std::uint64_t)> on_swap;  ///< bytes moved (0 for drops)
    /// Its address was found in memory: it stays from here on.
    std::function<void(Buffer&, const char* reason)> on_named;
};

struct ResidencyCounts {
    std::uint64_t bytes_in = 0, bytes_out = 0, clean_drops = 0, demand_ins = 0, early_ins = 0;
    std::uint64_t live_bytes = 0, peak_live_bytes = 0;
    std::uint64_t peak_resident_bytes = 0;
    std::uint64_t refused = 0;
};

/// What small buffers share has to be resident for them, and is what plans move: adds the pages of `uses`.
void add_pages(std::vector<BufferUse>& uses);

class Residency {
  public:
    /// The context must be current. Creates the two copy streams.
    static std::unique_ptr<Residency> create(const DriverApi& api, Timeline& timeline, CUcontext context,
                                             CUdevice device, ResidencyOptions options, CUresult& result);
    ~Residency();

    // --- allocations
    // ------------------------------------------------------------------------------------------------
    CUresult allocate(std::uint64_t bytes, BufferId id, Buffer*& buffer, std::int32_t planned_tensor = -1);
    /// The address becomes invalid for the program. Reuse of the memory waits for the last use by events.
    void release(Buffer& buffer);
    Buffer* find(CUdeviceptr address) const;
    /// The large buffer in whose neighbourhood (replayer/address_space.h) the address lies.
    Buffer* find_near(CUdeviceptr address) const;
    /// It stays where it is from here on. CUDA_ERROR_OUT_OF_MEMORY, with a note, if it cannot be had on the
    /// device: nothing has changed then.
    CUresult set_escaped(Buffer& buffer, const char* reason);
    /// Of the other large buffers, as many as fit together with `uses` and with what may not move: those that
    /// are there first, then the ones that were used last. True: those are all.
    bool whatever_fits(const BufferUse* uses, std::size_t count, std::vector<Buffer*>& others) const;

    // --- ops
    // --------------------------------------------------------------------------------------------------------
    /// Before the real call: everything resident, `queue` waits. On CUDA_ERROR_OUT_OF_MEMORY `why()` says
    /// more. `context`: the one that is current, if the caller knows.
    CUresult begin(const BufferUse* uses, std::size_t count, QueueId queue, CUcontext context = nullptr);
    /// For an op that a stream capture records: what it names only has to be mapped, its contents come at the
    /// launch.
    CUresult map_only(const BufferUse* uses, std::size_t count);
    /// After the real call was issued on `queue` (`mark` is its mark).
    void end(const BufferUse* uses, std::size_t count, Mark mark) {
        for (std::size_t i = 0; i < count; ++i) uses[i].buffer->uses.add(mark);
        issued(mark);
    }
    /// The second half of end(), for a caller that has noted the uses.
    void issued(Mark mark) {
        // Evictions are near: a victim should wait for its own last use, not for whatever was launched since.
        if (pressure_ && !pool_) timeline_.record(mark.queue);
    }
    const std::string& why() const { return why_; }

    // --- primitives for the policies
    // --------------------------------------------------------------------------------
    /// Copy to the host; stays resident, clean. On CUDA_ERROR_OUT_OF_MEMORY `why()` says what ran out.
    CUresult save(Buffer& buffer, Mark after = {});
    /// From here on what is believed to be clean is checked on the device when it is saved, and copied only
    /// if it is not. No capture may be open. False: this device or driver cannot.
    bool check_contents();
    ContentCheck* content() const { return content_.get(); }  ///< null: every save copies
    CUresult copy_in(Buffer& buffer, Mark after = {});  ///< backing is there; `ready` says what to wait for
    /// Leaves the planned pool (if in it): back to on demand. `reason` is counted and noted.
    /// `no_room`: it cannot be taken up again as it is, for it leaves too little to everything else.
    CUresult leave_plan(const char* reason, bool no_room = false);
    void enter_plan(std::unique_ptr<PlannedPool> pool);
    PlannedPool* pool() const { return pool_.get(); }
    /// Called at the end of leave_plan, so that who follows the plan stops.
    std::function<void(const char* reason, bool no_room)> on_leave;
    /// On demand: when (in ops) the buffer is used next, for the choice of victims; null or ~0: unknown.
    std::function<std::uint64_t(const Buffer&)> next_use;

    // --- on demand, ahead of need; nothing here waits (replayer/prefetcher.h)
    // ------------------------------------------------------------------------------------------------
    /// Something had to leave: memory is short.
    bool under_pressure() const { return pressure_; }
    /// Nobody's, or freed by the program: though perhaps not free at once, nor in one size.
    std::uint64_t room_pages() const { return memory_.free_pages() + spare_pages_ + cached_pages_; }
    std::uint64_t leaving_pages() const;
    /// Of what may leave, the one that is farthest by `distance_of`, if it is farther than `distance`.
    template <class F>
    Buffer* farthest(std::uint64_t distance, F&& distance_of) {
        Buffer* best = nullptr;
        for (Buffer* b = oldest_; b != nullptr; b = b->newer) {
            if (!movable(*b)) continue;
            const std::uint64_t other = distance_of(*b);
            if (other <= distance || is_leaving(*b)) continue;
            best = b;
            distance = other;
        }
        return best;
    }
    /// Starts its copy out, if it needs one. It is the next to go when someone needs its memory, unless it is
    /// used before. False: not now.
    bool send_early(Buffer& buffer);
    /// Forgets whom the program has used or freed since, and whom `stays` names.
    template <class F>
    void review_leaving(F&& stays) {
        std::erase_if(leaving_, [&](const Leaving& entry) { return !entry.valid() || stays(*entry.buffer); });
    }
    /// Takes memory from those whose copies are done; pages that were gained.
    std::uint64_t take_from_leaving(std::uint64_t pages);
    /// Of all, the one that is used last of all.
    void send_farthest();
    /// Into memory that is free by now; false: there is none, or the copy failed.
    bool bring_early(Buffer& buffer);

    const DriverApi& api() const { return api_; }
    Timeline& timeline() { return timeline_; }
    DeviceMemory& memory() { return memory_; }
    AddressSpace& addresses() { return addresses_; }
    HostMemory& host() { return host_; }
    const Arena& arena() const { return arena_; }
    const ResidencyOptions& options() const { return options_; }
    const ResidencyCounts& counts() const { return counts_; }
    ResidencyCounts& counts() { return counts_; }
    /// Done, or Outcome::wait.
    Outcome over(const MarkSet& marks);
    /// With the lock held, for what over() has just found not to be done: only for what is behind no gate.
    CUresult wait_here() { return timeline_.wait(wait_.mark); }
    Outcome wait_for_gate() { return wait_ = {{}, true, false}, Outcome::Kind::wait; }
    Outcome wait_for_release() { return wait_ = {{}, false, true}, Outcome::Kind::wait; }
    /// Its last uses are behind a gate: it cannot leave, and no copy of ours may get behind them.
    bool waits_for_program(const Buffer& buffer) const {
        return timeline_.any_gate() && (timeline_.gated(buffer.uses) || timeline_.gated(buffer.ready));
    }
    /// Some op of it waits without the lock.
    bool pausing() const { return pausing_ != 0; }
    CUcontext context() const { return context_; }
    CUdevice device() const { return device_; }
    QueueId in_queue() const { return in_; }
    QueueId out_queue() const { return out_; }
    std::uint64_t stamp() const { return stamp_; }
    /// The program holds more than fits.
    bool over_limit() const {
        return large_live_bytes_ + arena_.held_bytes() > memory_.limit_pages() * options_.page_bytes;
    }
    /// It holds seven eighths of that, or more.
    bool near_limit() const {
        return (large_live_bytes_ + arena_.held_bytes()) * 8 > memory_limit_bytes() * 7;
    }
    std::uint64_t memory_limit_bytes() const { return memory_.limit_pages() * options_.page_bytes; }
    /// What cannot leave the device: escaped buffers, and pages of small ones.
    std::uint64_t fixed_bytes() const { return escaped_pages_ * options_.page_bytes + arena_.held_bytes(); }
    std::uint64_t live_buffers() const { return buffers_.size() - free_ids_.size(); }
    std::uint64_t escaped_pages() const { return escaped_pages_; }
    void note(const std::string& line) const {
        if (options_.note) options_.note(line);
    }
    template <class F>
    void for_each_large(F&& f) {
        for (auto& buffer : buffers_)
            if (buffer && buffer->live && !buffer->small) f(*buffer);
    }
    /// What kernels could reach without being given it.
    HiddenAddresses& hidden() { return *hidden_; }
    /// On demand, those that were used longest ago first, as long as f(Buffer&) is true.
    template <class F>
    void for_each_by_age(F&& f) {
        for (Buffer* b = oldest_; b != nullptr && f(*b); b = b->newer) {
        }
    }
    /// The large buffer or page that lies there.
    Buffer* holder_of(CUdeviceptr page_address) const;
    static constexpr const char* kNamed = "its address was found in device memory";
    /// An address of it is in memory that kernels can read. One that is away comes back by take_named_away().
    void found_named(Buffer& buffer);
    std::vector<Buffer*> take_named_away() { return std::exchange(named_away_, {}); }
    bool any_named_away() const { return !named_away_.empty(); }
    /// The context is being destroyed or reset: nothing of it may be called any more.
    void abandon();
    /// After that: gives back what outlives the context.
    void context_ended();
    CUresult check_host_room(std::uint64_t bytes);

  private:
    friend class PlannedPool;
    /// What the last attempt that ended with Outcome::wait waits for: a mark, a gate, or the end of a call that
    /// holds a buffer.
    struct Wait {
        Mark mark;
        bool gate = false, release = false;
    };
    class Patience;
    struct Leaving {
        Buffer* buffer;
        std::uint64_t stamp;  ///< the buffer's own then: another one means that it has been used since
        const Slot* slot;     ///< where it was then
        bool noted = false;   ///< as dropped or copied out
        bool valid() const {
            return buffer->live && buffer->slot == slot && buffer->stamp == stamp &&
                   !(buffer->place == Place::resident && buffer->dirty);
        }
    };
    struct Cached {
        AddressRange range;
        Slot* slot;
    };
    Residency(const DriverApi& api, Timeline& timeline, CUcontext context, CUdevice device,
              ResidencyOptions options);

    CUresult allocate_small(Buffer& buffer);
    CUresult allocate_packed(Buffer& buffer);
    CUresult add_page();
    void release_packed(Buffer& buffer, const MarkSet& guard);
    void count_large(const Buffer& buffer);
    Outcome add_slab();
    Outcome attempt(const BufferUse* uses, std::size_t count, QueueId queue);
    Outcome attempt_map(const BufferUse* uses, std::size_t count);
    Outcome attempt_escape(Buffer& buffer);
    /// Makes `attempt()` until it need not wait. `uses` stay alive meanwhile.
    template <class Attempt>
    CUresult insist(const BufferUse* uses, std::size_t count, Attempt attempt) {
        const Outcome outcome = attempt();
        return outcome.is(Outcome::Kind::wait) ? try_again(uses, count, attempt) : outcome.code();
    }
    CUresult try_again(const BufferUse* uses, std::size_t count, const std::function<Outcome()>& attempt);
    std::string why_not(const BufferUse* uses, std::size_t count) const;
    CUresult allocate_large(Buffer& buffer);
    Buffer& new_buffer(std::uint64_t bytes, BufferId id);
    void drop_buffer(Buffer& buffer);
    void give_host(Buffer& buffer);
    bool reclaim_host();

    // on demand
    Outcome attach(Buffer& buffer, bool may_wait = true);
    Outcome detach(Buffer& buffer);  ///< once its last uses are done: unmaps; slot becomes spare
    Outcome obtain_slot(std::uint64_t pages, Slot*& slot, bool may_wait = true);
    Outcome make_room(std::uint64_t pages);
    Outcome who_else();
    void release_spare(std::uint64_t pages);
    /// Until so many pages can be created.
    Outcome free_up(std::uint64_t pages, bool may_wait);
    /// Done: someone has left for that.
    Outcome move_into_pool(const BufferUse* uses, std::size_t count);
    /// Done: memory was unmapped. later: there is none that could be.
    Outcome reclaim_cached(std::uint64_t pages, bool may_wait);
    /// What a pool leaves behind as it dissolves: `buffer` stays where it is; null: freed, but not done.
    void adopt(AddressRange range, std::unique_ptr<Slot> slot, Buffer* buffer);
    Buffer* victim();
    bool is_leaving(const Buffer& buffer) const;
    bool movable(const Buffer& buffer) const { return buffer.holds == 0 && buffer.escaped == nullptr; }
    void touch(Buffer& buffer);
    void unlink(Buffer& buffer);
    void note_resident();
    void note_out(Buffer& buffer, std::uint64_t bytes);
    void note_drop(Buffer& buffer);

    const DriverApi& api_;
    Timeline& timeline_;
    CUcontext context_;
    CUdevice device_;
    ResidencyOptions options_;
    AddressSpace addresses_;
    DeviceMemory memory_;
    HostMemory host_;
    Arena arena_;
    Arena packed_;                ///< the same for what moves in pages
    std::vector<Buffer*> pages_;  ///< by slab of `packed_`; they stay
    CUstream in_stream_ = nullptr, out_stream_ = nullptr;
    QueueId in_ = 0, out_ = 0;

    std::vector<std::unique_ptr<Buffer>> buffers_;  ///< by OwnerId - 1
    std::vector<OwnerId> free_ids_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::unordered_map<std::uint64_t, std::vector<Slot*>> spare_;    ///< unmapped, by pages
    std::unordered_map<std::uint64_t, std::vector<Cached>> cached_;  ///< freed but still mapped, by pages
    std::uint64_t cached_pages_ = 0, spare_pages_ = 0;
    std::vector<Leaving> leaving_;  ///< the first to go first
    Buffer* oldest_ = nullptr;
    Buffer* newest_ = nullptr;
    std::unique_ptr<PlannedPool> pool_;
    std::unique_ptr<ContentCheck> content_;
    std::unique_ptr<HiddenAddresses> hidden_;
    std::vector<Buffer*> named_away_;
    std::uint64_t stamp_ = 1;
    std::uint64_t escaped_pages_ = 0;
    std::uint64_t large_live_bytes_ = 0;
    bool pressure_ = false;  ///< something was evicted on demand: events follow every op
    bool abandoned_ = false;
    Wait wait_;
    std::uint32_t pausing_ = 0;
    std::uint64_t gave_up_ = ~0ull;  ///< Timeline::all_issued() when waiting was of no use
    ResidencyCounts counts_;
    std::string why_;
};

}  // namespace swapadvisor
