// The recent past of a program: buffers, events, ops and what the ops touched, in rings of bounded size.
// Everything is indexed by absolute, never-repeating numbers; old entries fall off the far end.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "recorder/flat_map.h"
#include "recorder/iteration.h"
#include "recorder/op.h"

namespace swapadvisor {

/// Append-only sequence that keeps the newest entries: at most `capacity`, and no more than there were at the
/// last push that was allowed to grow (by doubling).
template <class T>
class Ring {
  public:
    explicit Ring(std::size_t capacity) : capacity_(capacity) {}
    std::uint64_t first() const { return first_; }
    std::uint64_t end() const { return end_; }
    std::size_t room() const { return data_.size(); }
    bool has(std::uint64_t i) const { return i >= first_ && i < end_; }
    T& operator[](std::uint64_t i) { return data_[i & (data_.size() - 1)]; }
    const T& operator[](std::uint64_t i) const { return data_[i & (data_.size() - 1)]; }
    void push(const T& value, bool may_grow = true) { add(may_grow) = value; }
    /// A new entry that still holds what it held before: every field must be set.
    T& add(bool may_grow = true) {
        if (end_ - first_ == data_.size()) make_room(may_grow);
        return (*this)[end_++];
    }

  private:
    void make_room(bool may_grow) {
        if (data_.size() >= capacity_ || (!may_grow && !data_.empty())) {
            ++first_;
            return;
        }
        std::vector<T> larger(std::max<std::size_t>(64, data_.size() * 2));
        for (std::uint64_t i = first_; i < end_; ++i) larger[i & (larger.size() - 1)] = (*this)[i];
        data_.swap(larger);
    }
    std::size_t capacity_;  // a power of two
    std::vector<T> data_;
    std::uint64_t first_ = 0;
    std::uint64_t end_ = 0;
};

/// Sums of what a file claims must not be undefined, however large.
inline std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

using BufferSlot = std::uint32_t;
constexpr std::uint64_t kNever = ~std::uint64_t{0};

/// An allocation. Its slot is used again only when its release has left the history.
struct BufferHistory {
    BufferId id = kNoBuffer;
    std::int64_t bytes = 0;
    std::uint64_t site = 0;
    std::uint64_t range = 0;
    std::uint64_t birth_event = 0;
    std::uint64_t death_event = kNever;
    std::uint64_t birth_op = 0;      ///< ops recorded before it
    std::uint64_t last_op = kNever;  ///< newest that touched it
    std::uint64_t place = 0;         ///< its place among the allocations of its class (large or small)
    bool small = false;
    bool paged = false;  ///< small: it lies in a page; large: it is a page of small ones
    bool escaped = false;
};

struct OpHistory {                  // History::op() sets every field
    std::uint64_t key = 0;          ///< match_key()
    std::uint64_t token = 0;        ///< key and the bytes live: equal in equal places of the loop
    std::uint64_t prefix_hash = 0;  ///< polynomial hash of all tokens up to and including this one
    std::uint64_t turn = 0;         ///< token, and roughly how long ago each of its buffers was last touched
    std::uint64_t repeat = 0;       ///< after how many ops the same work came back to its buffers; 0: unknown
    std::uint64_t function = 0;
    std::uint64_t range = 0;
    std::uint64_t event = 0;  ///< its index among the events
    std::uint64_t touch_begin = 0;
    std::uint64_t large_places = 0;  ///< large allocations made before it
    std::int64_t live_bytes = 0;     ///< of large buffers
    std::int64_t duration_ns = 0;    ///< 0: not known
    void* stream = nullptr;
    std::array<std::uint32_t, 6> geometry{};
    std::uint32_t touch_count = 0;
    std::uint32_t small_live = 0;  ///< small buffers live
    OpKind kind = OpKind::kernel;
};

struct TouchHistory {
    BufferSlot slot = 0;
    Access access = Access::read_write;
};

struct EventHistory {
    EventKind kind = EventKind::op;
    BufferSlot slot = 0;   ///< allocate, release
    std::uint64_t op = 0;  ///< op
};

class History {
  public:
    explicit History(std::size_t max_ops);  ///< a power of two

    void allocate(BufferId id, std::int64_t bytes, bool small, std::uint64_t site, bool paged = false);
    void release(BufferId id);
    void escaped(BufferId id);
    std::uint64_t op(const OpView& op);
    /// The NVTX range of what follows.
    void set_range(std::uint64_t range) { range_ = range; }
    void op_duration(std::uint64_t seq, std::int64_t ns);
    void content(std::uint64_t seq, std::uint64_t touch, bool changed);

    std::uint64_t op_count() const { return ops.end(); }
    /// More history than this is not needed at the moment (a power of two, counted in ops): old entries go
    /// rather than that memory grows. 0: as much as allowed.
    void enough(std::size_t ops_wanted) { enough_ = ops_wanted; }
    /// Is the op still here with all its touches and its event?
    bool has_whole(std::uint64_t i) const {
        return ops.has(i) && ops[i].touch_begin >= touches.first() && ops[i].event >= events.first();
    }
    /// First op whose touches and events are all still here.
    std::uint64_t oldest_op() const;
    /// Are the `length` tokens that end at `last` equal to those `lag` earlier? O(1). Both must be in the
    /// history.
    bool tokens_repeat(std::uint64_t last, std::uint64_t lag, std::uint64_t length) const;
    /// Does op `i` do to the same buffers what op `i - lag` did: to the very same ones, or to ones born at
    /// the same place of their own period?
    bool same_place(std::uint64_t i, std::uint64_t lag) const;
    /// The slot of a live buffer; null if unknown. Valid until the next change.
    const BufferSlot* live_slot(BufferId id) const { return slot_by_id_.find(id); }
    std::int64_t live_bytes() const { return live_bytes_; }
    /// Of ops with this match key, however long ago they were timed; 0: never.
    std::int64_t known_duration(std::uint64_t key) const;

    /// Did touch `touch` of ops with this match key leave the contents as they were whenever it was looked
    /// at, and was that twice at least?
    bool unchanged(std::uint64_t key, std::uint64_t touch) const;

    Ring<OpHistory> ops;
    Ring<EventHistory> events;
    Ring<TouchHistory> touches;
    std::vector<BufferHistory> buffers;  ///< by slot

  private:
    BufferSlot slot_of(BufferId id);
    BufferSlot take_slot();
    std::uint64_t range_hash(std::uint64_t last, std::uint64_t length) const;

    FlatMap<BufferSlot> slot_by_id_;
    FlatMap<std::int64_t> duration_by_key_;  // running mean
    FlatMap<std::int32_t> unchanged_;        // by key and touch: how often; negative: it was changed once
    std::vector<BufferSlot> dead_;           // FIFO: [dead_first_, size)
    std::size_t dead_first_ = 0;
    std::uint64_t places_[2] = {0, 0};
    std::int64_t live_bytes_ = 0;
    std::uint32_t small_live_ = 0;
    std::uint64_t range_ = 0;
    bool may_grow() const { return enough_ == 0 || ops.room() < enough_; }
    std::size_t enough_ = 0;
    std::vector<std::uint64_t> powers_;
};

}  // namespace swapadvisor
