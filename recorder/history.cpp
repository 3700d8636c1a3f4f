#include "recorder/history.h"

#include <bit>

#include "recorder/signature.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kMaxKeysTimed = 1 << 16;

// Polynomial hash modulo the Mersenne prime 2^61 - 1.
constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
constexpr std::uint64_t kBase = 0x0D1B54A32D192ED0ull % kPrime;

std::uint64_t mod_multiply(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    std::uint64_t sum =
        (static_cast<std::uint64_t>(product) & kPrime) + static_cast<std::uint64_t>(product >> 61);
    if (sum >= kPrime) sum -= kPrime;
    return sum;
}

std::uint64_t mod_add(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t sum = a + b;
    return sum >= kPrime ? sum - kPrime : sum;
}

}  // namespace

History::History(std::size_t max_ops) : ops(max_ops), events(max_ops * 4), touches(max_ops * 8) {
    powers_.push_back(1);
}

BufferSlot History::take_slot() {
    if (dead_first_ < dead_.size() && buffers[dead_[dead_first_]].death_event < events.first()) {
        const BufferSlot slot = dead_[dead_first_++];
        if (dead_first_ + 4 < dead_.size()) __builtin_prefetch(&buffers[dead_[dead_first_ + 4]]);
        if (dead_first_ > 1024 && dead_first_ * 2 > dead_.size()) {
            dead_.erase(dead_.begin(), dead_.begin() + static_cast<std::ptrdiff_t>(dead_first_));
            dead_first_ = 0;
        }
        buffers[slot] = {};
        return slot;
    }
    buffers.emplace_back();
    return static_cast<BufferSlot>(buffers.size() - 1);
}

void History::allocate(BufferId id, std::int64_t bytes, bool small, std::uint64_t site, bool paged) {
    if (slot_by_id_.find(id)) release(id);  // a lost release: the newer allocation is the truth
    const BufferSlot slot = take_slot();
    BufferHistory& buffer = buffers[slot];
    buffer.id = id;
    buffer.bytes = bytes;
    buffer.site = site;
    buffer.range = range_;
    buffer.birth_event = events.end();
    buffer.birth_op = ops.end();
    buffer.small = small;
    buffer.paged = paged;
    buffer.place = places_[small]++;
    slot_by_id_[id] = slot;
    if (small)
        ++small_live_;
    else
        live_bytes_ = wrapping_add(live_bytes_, bytes);
    events.push({EventKind::allocate, slot, 0}, may_grow());
}

void History::release(BufferId id) {
    const BufferSlot* found = slot_by_id_.find(id);
    if (!found) return;
    const BufferSlot slot = *found;
    slot_by_id_.erase(id);
    BufferHistory& buffer = buffers[slot];
    buffer.death_event = events.end();
    if (buffer.small)
        --small_live_;
    else
        live_bytes_ = wrapping_add(live_bytes_, -buffer.bytes);
    dead_.push_back(slot);
    events.push({EventKind::release, slot, 0}, may_grow());
}

void History::escaped(BufferId id) {
    if (const BufferSlot* slot = slot_by_id_.find(id)) buffers[*slot].escaped = true;
}

BufferSlot History::slot_of(BufferId id) {
    if (const BufferSlot* known = slot_by_id_.find(id)) return *known;
    // Never announced: takes part as something small that was always there.
    const BufferSlot slot = take_slot();
    buffers[slot].id = id;
    buffers[slot].small = true;
    ++small_live_;
    slot_by_id_[id] = slot;
    return slot;
}

std::uint64_t History::op(const OpView& op) {
    const std::uint64_t seq = ops.end();
    const std::uint64_t before = seq > ops.first() ? ops[seq - 1].prefix_hash : 0;
    const std::uint64_t touch_begin = touches.end();
    for (std::uint32_t i = 0; i < op.touch_count; ++i)
        touches.push({slot_of(op.touches[i].buffer), op.touches[i].access}, may_grow());
    OpHistory& record = ops.add(may_grow());
    record.touch_begin = touch_begin;
    record.touch_count = op.touch_count;
    std::uint32_t next = 0;
    record.key = match_key(op, [&](BufferId) {
        const BufferHistory& buffer = buffers[touches[touch_begin + next++].slot];
        return BufferShape{buffer.bytes, buffer.small};
    });
    record.live_bytes = live_bytes_;
    record.small_live = small_live_;
    record.token = mix(record.key, static_cast<std::uint64_t>(live_bytes_));
    record.prefix_hash = mod_add(mod_multiply(before, kBase), record.token % kPrime);
    record.turn = record.token;
    for (std::uint32_t i = 0; i < op.touch_count; ++i) {
        std::uint64_t& last = buffers[touches[touch_begin + i].slot].last_op;
        const int magnitude = last == kNever ? 64 : std::bit_width(seq - last);
        record.turn = mix(record.turn, static_cast<std::uint64_t>(magnitude));
        last = seq;
    }
    record.repeat = 0;
    record.function = op.function;
    record.range = range_;
    record.kind = op.kind;
    record.geometry = op.geometry;
    record.stream = op.stream;
    record.large_places = places_[0];
    record.event = events.end();
    record.duration_ns = 0;
    events.push({EventKind::op, 0, seq}, may_grow());
    return seq;
}

void History::op_duration(std::uint64_t seq, std::int64_t ns) {
    if (!ops.has(seq)) return;
    ops[seq].duration_ns = std::max<std::int64_t>(ns, 1);
    const std::uint64_t key = ops[seq].key;
    if (std::int64_t* known = duration_by_key_.find(key))
        *known = (*known + ops[seq].duration_ns + 1) / 2;
    else if (duration_by_key_.size() < kMaxKeysTimed)
        duration_by_key_[key] = ops[seq].duration_ns;
}

std::int64_t History::known_duration(std::uint64_t key) const {
    const std::int64_t* known = duration_by_key_.find(key);
    return known ? *known : 0;
}

void History::content(std::uint64_t seq, std::uint64_t touch, bool changed) {
    constexpr std::int32_t kOften = 1 << 20;
    if (!ops.has(seq) || touch >= ops[seq].touch_count) return;
    const std::uint64_t key = mix(ops[seq].key, touch);
    std::int32_t* known = unchanged_.find(key);
    if (known == nullptr) {
        if (unchanged_.size() >= kMaxKeysTimed) return;
        known = &(unchanged_[key] = 0);
    }
    if (changed) *known = -1;
    if (*known >= 0 && *known < kOften) ++*known;
}

bool History::unchanged(std::uint64_t key, std::uint64_t touch) const {
    const std::int32_t* known = unchanged_.find(mix(key, touch));
    return known != nullptr && *known >= 2;
}

std::uint64_t History::oldest_op() const {
    std::uint64_t low = ops.first(), high = ops.end();
    while (low < high) {
        const std::uint64_t middle = low + (high - low) / 2;
        const bool whole = ops[middle].touch_begin >= touches.first() && ops[middle].event >= events.first();
        if (whole)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

std::uint64_t History::range_hash(std::uint64_t last, std::uint64_t length) const {
    const std::uint64_t start = last + 1 - length;
    if (start == 0) return ops[last].prefix_hash;
    const std::uint64_t before = mod_multiply(ops[start - 1].prefix_hash, powers_[length]);
    return mod_add(ops[last].prefix_hash, kPrime - before);
}

bool History::tokens_repeat(std::uint64_t last, std::uint64_t lag, std::uint64_t length) const {
    // The op before the earlier range must be here too, unless that range starts the program.
    if (length == 0 || last + 1 < lag + length) return false;
    const std::uint64_t start = last + 1 - lag - length;
    if (start != 0 && start <= ops.first()) return false;
    auto& powers = const_cast<std::vector<std::uint64_t>&>(powers_);
    while (powers.size() <= length) powers.push_back(mod_multiply(powers.back(), kBase));
    return range_hash(last, length) == range_hash(last - lag, length);
}

bool History::same_place(std::uint64_t i, std::uint64_t lag) const {
    const OpHistory& now = ops[i];
    const OpHistory& then = ops[i - lag];
    if (now.token != then.token || now.touch_count != then.touch_count) return false;
    for (std::uint32_t t = 0; t < now.touch_count; ++t) {
        const BufferSlot a_slot = touches[now.touch_begin + t].slot;
        const BufferSlot b_slot = touches[then.touch_begin + t].slot;
        if (a_slot == b_slot) continue;
        const BufferHistory& a = buffers[a_slot];
        const BufferHistory& b = buffers[b_slot];
        if (a.small != b.small) return false;
        // Born recently, both: else this is a loop over layers.
        if (a.birth_op + 2 * lag < i || b.birth_op + 3 * lag < i) return false;
        // Large ones at the same distance, counted in allocations. Small ones may come and go as they like.
        if (a.small) continue;
        if (a.bytes != b.bytes || now.large_places - a.place != then.large_places - b.place) return false;
    }
    return true;
}

}  // namespace swapadvisor
