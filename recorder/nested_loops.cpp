#include "recorder/nested_loops.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "recorder/signature.h"

namespace swapadvisor {
namespace {

constexpr std::uint64_t kLongRun = 32;  // instances in a row that are a loop of their own

/// Of the inner loop in the period that begins at op `begin`.
struct Inner {
    std::vector<bool> covered;       // by op - begin: part of two instances side by side, at least
    std::uint64_t breaks = 0;        // where a run of instances ends
    std::uint64_t last_op = kNever;  // of one instance
};

Inner instances(const History& history, std::uint64_t begin, std::uint64_t period, std::uint64_t inner) {
    Inner found{std::vector<bool>(period, false)};
    std::uint64_t run = 0;
    // Starts early, in the period before: the loop is cyclic, and a run may lie across the window's start.
    for (std::uint64_t j = begin - inner; j < begin + period; ++j) {
        run = history.same_place(j, inner) ? run + 1 : 0;
        found.breaks += run == 0 && j >= begin;
        if (run < inner) continue;
        found.last_op = j;
        if (run == inner) {
            for (std::uint64_t k = j + 1 - 2 * inner; k <= j; ++k)
                found.covered[(k + period - begin) % period] = true;
        }
        found.covered[(j + period - begin) % period] = true;
    }
    return found;
}

/// Calls `body(slot, buffer)` for what op `op` uses of buffers that were there before `first_event` and still
/// are.
template <class Body>
void for_state(const History& history, const OpHistory& op, std::uint64_t first_event, Body&& body) {
    for (std::uint32_t t = 0; t < op.touch_count; ++t) {
        const BufferSlot slot = history.touches[op.touch_begin + t].slot;
        const BufferHistory& b = history.buffers[slot];
        if (b.birth_event < first_event && b.death_event == kNever) body(slot, b);
    }
}

/// Do the inner instances work on other buffers in other places of the period?
bool take_turns(const History& history, std::uint64_t begin, const Inner& inner, std::uint64_t inner_period) {
    const std::uint64_t first_event = history.ops[begin].event;
    std::unordered_set<std::uint64_t> in_one, in_all;
    const auto work = [&](std::uint64_t j) {
        std::uint64_t hash = history.ops[j].key;
        for_state(history, history.ops[j], first_event,
                  [&](BufferSlot slot, const BufferHistory&) { hash = mix(hash, slot); });
        return hash;
    };
    for (std::uint64_t j = inner.last_op + 1 - inner_period; j <= inner.last_op; ++j) in_one.insert(work(j));
    for (std::uint64_t j = 0; j < inner.covered.size(); ++j)
        if (inner.covered[j]) in_all.insert(work(begin + j));
    return in_all.size() > in_one.size();
}

// What the longer period adds to the instances of the known one: does it belong to the step (an optimiser
// update, the other network's turn), or is it a pass of its own (evaluation, a short last batch)?
bool extra_belongs(const History& history, std::uint64_t i, std::uint64_t period,
                   const std::vector<bool>& inner) {
    const std::uint64_t begin = i + 1 - period;
    const std::uint64_t first_event = history.ops[begin].event;
    std::unordered_set<std::uint64_t> keys, functions;
    std::unordered_set<BufferSlot> state, own_state, updated;
    std::int64_t state_bytes = 0, updated_bytes = 0, input_bytes = 0;
    const auto copied = [&](const OpHistory& op) {
        return op.kind == OpKind::memcpy_h2d
                   ? std::int64_t{op.geometry[0]} + (std::int64_t{op.geometry[1]} << 32)
                   : 0;
    };
    for (std::uint64_t j = 0; j < period; ++j) {
        if (!inner[j]) continue;
        const OpHistory& op = history.ops[begin + j];
        keys.insert(op.key);
        if (op.kind == OpKind::kernel) functions.insert(op.function);
        input_bytes = std::max(input_bytes, copied(op));
        for_state(history, op, first_event, [&](BufferSlot slot, const BufferHistory& b) {
            if (state.insert(slot).second) state_bytes += b.bytes;
        });
    }
    std::size_t on_state = 0, on_own_state = 0;
    bool brings_input = false;
    for (std::uint64_t j = 0; j < period; ++j) {
        if (inner[j]) continue;
        const OpHistory& op = history.ops[begin + j];
        const bool new_key = !keys.count(op.key);
        const bool own_function = op.kind == OpKind::kernel && !functions.count(op.function);
        bool any = false, own = false;
        for_state(history, op, first_event, [&](BufferSlot slot, const BufferHistory& b) {
            any = true;
            if (!state.count(slot)) {
                own = true;
                own_state.insert(slot);
            } else if (own_function && updated.insert(slot).second) {
                updated_bytes += b.bytes;
            }
        });
        if (!new_key && !own)
            continue;  // what the inner instances do too: a first micro-step that makes its gradients
        on_state += any;
        on_own_state += own;
        if (copied(op) > 0 && copied(op) >= input_bytes / 4) brings_input = true;
    }
    // Another network or the optimiser's state: many buffers, not just a resident test set.
    const bool has_own_state =
        own_state.size() >= std::max<std::size_t>(3, state.size() / 4) && 2 * on_own_state >= on_state;
    const bool updates_state = 2 * updated_bytes >= state_bytes && updated_bytes > 0;
    return has_own_state || (updates_state && !brings_input);
}

}  // namespace

bool is_one_iteration(const History& history, std::uint64_t i, std::uint64_t period, std::uint64_t inner) {
    if (inner * 2 > period) return true;
    const std::uint64_t begin = i + 1 - period;
    const Inner found = instances(history, begin, period, inner);
    if (found.last_op == kNever) return true;
    if (take_turns(history, begin, found, inner))
        // A long one that goes on for long each time is worth more by itself.
        return inner < kShortPeriod || found.breaks * kLongRun * inner > period;
    // Nothing else but instances of the inner one, or something besides?
    if (std::all_of(found.covered.begin(), found.covered.end(), [](bool c) { return c; })) return false;
    return extra_belongs(history, i, period, found.covered);
}

}  // namespace swapadvisor
