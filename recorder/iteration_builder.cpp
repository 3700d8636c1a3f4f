#include "recorder/iteration_builder.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "recorder/signature.h"

namespace swapadvisor {
namespace {

struct Gap {
    std::uint64_t event = 0;  // first position before the op at which the fewest bytes are live
    std::int64_t live_bytes = 0;
};

// The best boundary between op - 1 and op.
Gap gap_before(const History& history, std::uint64_t op) {
    const std::uint64_t op_event = history.ops[op].event;
    const std::uint64_t start =
        op > history.ops.first() ? history.ops[op - 1].event + 1 : history.events.first();
    std::int64_t live = history.ops[op].live_bytes;
    Gap best{op_event, live};
    for (std::uint64_t e = op_event; e > start; --e) {  // walk back: undo event e - 1
        const EventHistory& event = history.events[e - 1];
        if (event.kind == EventKind::op) break;
        const BufferHistory& buffer = history.buffers[event.slot];
        if (!buffer.small)
            live = wrapping_add(live, event.kind == EventKind::allocate ? -buffer.bytes : buffer.bytes);
        if (live <= best.live_bytes) best = {e - 1, live};
    }
    return best;
}

class Builder {
  public:
    Builder(const History& history, const Window& window)
        : history_(history), window_(window), result_(std::make_shared<Iteration>()) {}

    std::shared_ptr<Iteration> build() {
        collect_lives();
        if (!join_wrapped_lives()) return nullptr;
        for (std::uint64_t e = window_.first_event; e < window_.end_event; ++e) add_event(history_.events[e]);
        finish_signature();
        return result_;
    }

  private:
    std::int32_t offset(std::uint64_t event) const {
        return static_cast<std::int32_t>(event - window_.first_event);
    }
    bool inside(std::uint64_t event) const {
        return event >= window_.first_event && event < window_.end_event;
    }

    // Which buffers are born here and outlive the window, and which came from before and die here.
    void collect_lives() {
        for (std::uint64_t e = window_.first_event; e < window_.end_event; ++e) {
            const EventHistory& event = history_.events[e];
            if (event.kind == EventKind::op) continue;
            const BufferHistory& buffer = history_.buffers[event.slot];
            if (event.kind == EventKind::allocate) {
                ++allocations_[buffer.small];
                if (!inside(buffer.death_event)) open_.push_back(event.slot);
            } else if (!inside(buffer.birth_event)) {
                closing_.push_back(event.slot);
            }
        }
    }

    // A life that wraps the boundary is seen as two buffers: the one of the previous instance that dies in
    // this window, and the one born in it. They are one tensor.
    bool join_wrapped_lives() {
        std::vector<bool> used(open_.size(), false);
        for (const BufferSlot old_slot : closing_) {
            const BufferHistory& old = history_.buffers[old_slot];
            std::size_t match = open_.size();
            for (std::size_t i = 0; i < open_.size(); ++i) {
                const BufferHistory& fresh = history_.buffers[open_[i]];
                if (used[i] || fresh.small != old.small || fresh.bytes != old.bytes) continue;
                if (fresh.place - old.place == allocations_[old.small]) {
                    match = i;
                    break;
                }
                if (old.small && fresh.site == old.site && match == open_.size()) match = i;
            }
            if (match == open_.size()) continue;
            const BufferHistory& fresh = history_.buffers[open_[match]];
            if (old.death_event > fresh.birth_event) {
                if (old.small) continue;
                return false;  // two live copies at once
            }
            used[match] = true;
            successor_[old_slot] = open_[match];
            wrapped_death_[open_[match]] = offset(old.death_event);
        }
        // A life longer than the period shows as a death and a birth a multiple of the period apart.
        for (std::size_t i = 0; i < open_.size(); ++i) {
            const BufferHistory& fresh = history_.buffers[open_[i]];
            if (!used[i] && !fresh.small && outlives_period(fresh)) return false;
        }
        return true;
    }

    bool outlives_period(const BufferHistory& fresh) const {
        for (const BufferSlot slot : closing_) {
            const BufferHistory& old = history_.buffers[slot];
            if (!old.small && old.bytes == fresh.bytes && !successor_.count(slot) &&
                (fresh.place - old.place) % std::max<std::uint64_t>(1, allocations_[0]) == 0)
                return true;
        }
        return false;
    }

    std::int32_t tensor_of(BufferSlot slot) {
        const auto next = successor_.find(slot);
        if (next != successor_.end()) slot = next->second;
        const auto [entry, fresh] =
            tensor_by_slot_.emplace(slot, static_cast<std::int32_t>(result_->tensors.size()));
        if (!fresh) return entry->second;
        const BufferHistory& buffer = history_.buffers[slot];
        TensorRecord tensor;
        tensor.bytes = buffer.bytes;
        tensor.small = buffer.small;
        tensor.paged = buffer.paged;
        tensor.escaped = buffer.escaped;
        tensor.site = buffer.site;
        tensor.range = buffer.range;
        tensor.observed = buffer.id;
        if (inside(buffer.birth_event)) {
            tensor.birth_event = offset(buffer.birth_event);
            const auto wrapped = wrapped_death_.find(slot);
            if (wrapped != wrapped_death_.end())
                tensor.death_event = wrapped->second;
            else if (inside(buffer.death_event))
                tensor.death_event = offset(buffer.death_event);
        } else {
            tensor.persistent = true;
            tensor.buffer = buffer.id;
        }
        result_->tensors.push_back(tensor);
        return entry->second;
    }

    void add_event(const EventHistory& event) {
        if (event.kind != EventKind::op) {
            const std::int32_t tensor = tensor_of(event.slot);
            result_->events.push_back({event.kind, tensor});
            const TensorRecord& record = result_->tensors[static_cast<std::size_t>(tensor)];
            if (!record.small)
                signature_ = mix(signature_, mix(static_cast<std::uint64_t>(event.kind), record.bytes));
            return;
        }
        result_->events.push_back({EventKind::op, static_cast<std::int32_t>(result_->ops.size())});
        const OpHistory& source = history_.ops[event.op];
        OpRecord op;
        op.kind = source.kind;
        op.function = source.function;
        op.range = source.range;
        op.geometry = source.geometry;
        op.key = source.key;
        op.duration_ns = source.duration_ns;
        op.stream = streams_.emplace(source.stream, static_cast<std::int32_t>(streams_.size())).first->second;
        for (std::uint32_t t = 0; t < source.touch_count; ++t) {
            const TouchHistory& touch = history_.touches[source.touch_begin + t];
            const std::int32_t tensor = tensor_of(touch.slot);
            const auto same = std::find_if(op.uses.begin(), op.uses.end(),
                                           [&](const OpRecord::Use& use) { return use.tensor == tensor; });
            if (same == op.uses.end()) {
                op.uses.push_back({tensor, touch.access, false, static_cast<std::int32_t>(t)});
            } else {
                same->touch = -1;
                same->access = static_cast<Access>(static_cast<unsigned>(same->access) |
                                                   static_cast<unsigned>(touch.access));
            }
        }
        result_->peak_live_bytes = std::max(result_->peak_live_bytes, source.live_bytes);
        signature_ = mix(signature_, source.key);
        for (const OpRecord::Use& use : op.uses)
            if (!result_->tensors[static_cast<std::size_t>(use.tensor)].small)
                signature_ = mix(signature_, large_number(use.tensor));
        result_->ops.push_back(std::move(op));
    }

    // Numbers large tensors in order of appearance, so that arena buffers do not disturb the signature.
    std::uint64_t large_number(std::int32_t tensor) {
        return large_numbers_.emplace(tensor, large_numbers_.size()).first->second;
    }

    void finish_signature() {
        result_->signature = mix(signature_, result_->ops.size());
        result_->first_seq = window_.first_op;
    }

    const History& history_;
    const Window window_;
    std::shared_ptr<Iteration> result_;
    std::uint64_t allocations_[2] = {0, 0};
    std::vector<BufferSlot> open_, closing_;
    std::unordered_map<BufferSlot, BufferSlot> successor_;
    std::unordered_map<BufferSlot, std::int32_t> wrapped_death_, tensor_by_slot_;
    std::unordered_map<void*, std::int32_t> streams_;
    std::unordered_map<std::int32_t, std::uint64_t> large_numbers_;
    std::uint64_t signature_ = 0;
};

}  // namespace

Window choose_window(const History& history, std::uint64_t last, std::uint64_t period,
                     const std::function<std::uint64_t(std::uint64_t op)>& first_seen) {
    const std::uint64_t begin = last + 1 - period;
    struct Candidate {
        std::uint64_t op;
        Gap gap;
    };
    std::vector<Candidate> candidates;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::uint64_t op = begin; op <= last; ++op) {
        const Gap gap = gap_before(history, op);
        if (gap.live_bytes < least) {
            least = gap.live_bytes;
            candidates.clear();
        }
        if (gap.live_bytes == least) candidates.push_back({op, gap});
    }
    const auto keep = [&](auto&& wanted) {
        std::vector<Candidate> kept;
        for (const Candidate& c : candidates)
            if (wanted(c)) kept.push_back(c);
        if (!kept.empty()) candidates.swap(kept);
    };
    keep([&](const Candidate& c) { return history.ops[c.op].kind == OpKind::memcpy_h2d; });
    std::vector<std::uint64_t> distance(period, 0);  // by op - begin: since the candidate before it, cyclic
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const std::uint64_t before = i > 0 ? candidates[i - 1].op : candidates.back().op - period;
        distance[candidates[i].op - begin] = candidates[i].op - before;
    }
    std::uint64_t earliest = kNever;
    for (const Candidate& c : candidates) earliest = std::min(earliest, first_seen(c.op - period));
    keep([&](const Candidate& c) { return first_seen(c.op - period) == earliest; });
    const Candidate chosen =
        *std::max_element(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
            return distance[a.op - begin] < distance[b.op - begin];
        });

    Window window;
    window.first_op = chosen.op - period;
    window.end_op = chosen.op;
    window.end_event = chosen.gap.event;
    // As many large allocations and releases before the op one period earlier, if there are as many.
    const auto is_large = [&](std::uint64_t event) {
        return !history.buffers[history.events[event].slot].small;
    };
    std::uint64_t large = 0;
    for (std::uint64_t e = chosen.gap.event; e < history.ops[chosen.op].event; ++e) large += is_large(e);
    window.first_event = history.ops[window.first_op].event;
    while (window.first_event > history.events.first()) {
        const std::uint64_t before = window.first_event - 1;
        if (history.events[before].kind == EventKind::op || (is_large(before) && large == 0)) break;
        large -= is_large(before);
        window.first_event = before;
    }
    if (large > 0) window.first_event = gap_before(history, window.first_op).event;
    return window;
}

std::shared_ptr<Iteration> build_iteration(const History& history, const Window& window) {
    auto iteration = Builder(history, window).build();
    if (iteration) fill_measured(history, *iteration);
    return iteration;
}

namespace {

void fill_unchanged(const History& history, Iteration& iteration) {
    // What the first use of a newborn leaves as it was says nothing: it may have met its own former life.
    std::vector<bool> born(iteration.tensors.size());
    for (std::size_t t = 0; t < born.size(); ++t) born[t] = iteration.tensors[t].birth_event < 0;
    for (const IterationEvent& event : iteration.events) {
        const auto index = static_cast<std::size_t>(event.index);
        if (event.kind == EventKind::allocate) born[index] = false;
        if (event.kind != EventKind::op) continue;
        OpRecord& op = iteration.ops[index];
        for (OpRecord::Use& use : op.uses) {
            const auto tensor = static_cast<std::size_t>(use.tensor);
            use.unchanged = born[tensor] && use.access == Access::read_write && use.touch >= 0 &&
                            history.unchanged(op.key, static_cast<std::uint64_t>(use.touch));
            born[tensor] = true;
        }
    }
}

void fill_durations(const History& history, Iteration& iteration) {
    const std::uint64_t period = iteration.ops.size();
    if (period == 0) return;
    constexpr std::size_t kMaxSamples = 9;
    std::vector<std::int64_t> samples;
    for (std::uint64_t j = 0; j < period; ++j) {
        OpRecord& op = iteration.ops[j];
        samples.clear();
        const std::uint64_t phase = (iteration.first_seq + j) % period;
        std::uint64_t seq = history.op_count() - 1;
        seq -= (seq % period + period - phase) % period;
        for (; history.ops.has(seq) && samples.size() < kMaxSamples; seq -= period) {
            const OpHistory& seen = history.ops[seq];
            if (seen.key == op.key && seen.duration_ns > 0) samples.push_back(seen.duration_ns);
            if (seq < period) break;
        }
        if (samples.empty()) {
            if (op.duration_ns == 0) op.duration_ns = history.known_duration(op.key);
            continue;
        }
        const auto middle = samples.begin() + static_cast<std::ptrdiff_t>((samples.size() - 1) / 2);
        std::nth_element(samples.begin(), middle, samples.end());
        op.duration_ns = *middle;
    }
}

}  // namespace

void fill_measured(const History& history, Iteration& iteration) {
    fill_durations(history, iteration);
    fill_unchanged(history, iteration);
}

}  // namespace swapadvisor
