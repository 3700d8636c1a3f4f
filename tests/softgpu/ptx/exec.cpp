// The interpreter of one warp: split selection, dispatch, branches, calls, barriers.
#include "tests/softgpu/ptx/exec.h"

#include <algorithm>
#include <cstring>

namespace softgpu::ptx {
namespace {

constexpr u32 kSlice = 20000;    // back branches and calls before another warp gets its turn
constexpr u32 kFairness = 2000;  // back branches after which waiting lanes get a turn
constexpr u32 kRotation = 200;
constexpr u32 kSpins = 64;
constexpr std::size_t kMostRecords = 100000;

u32 lane_value(const Warp& w, u32 offset, u32 mask) {
    u32 v;
    std::memcpy(&v, w.regs + offset + 4 * u32(__builtin_ctz(mask)), 4);
    return v;
}
u32 predicate(const Warp& w, u32 offset) {
    u32 v;
    std::memcpy(&v, w.regs + offset, 4);
    return v;
}
void write_predicate(Warp& w, u32 offset, u32 value, u32 mask) {
    u32 v = (predicate(w, offset) & ~mask) | (value & mask);
    std::memcpy(w.regs + offset, &v, 4);
}

/// Lanes a waiting split still misses.
u32 missing(const WarpState& w, const Split& s, const Program& p) {
    const Inst& i = p.code[s.pc];
    u32 m = s.mask;
    if (i.guard_mode != 0) m &= i.guard_mode == 1 ? predicate(w, i.guard) : ~predicate(w, i.guard);
    if (m == 0) return 0;
    return lane_value(w, i.c, m) & w.live & ~m;
}

/// Joins splits that are at the same place.
void merge(WarpState& w) {
    auto& s = w.splits;
    for (std::size_t a = 0; a < s.size(); ++a) {
        if (s[a].state > Split::at_sync) continue;
        for (std::size_t b = a + 1; b < s.size();) {
            if (s[b].state <= Split::at_sync && s[b].pc == s[a].pc && s[b].record == s[a].record) {
                s[a].mask |= s[b].mask;
                s[a].state = Split::ready;
                s[a].forced = s[a].forced || s[b].forced;
                s[b] = s.back();
                s.pop_back();
            } else {
                ++b;
            }
        }
    }
}

/// The split to run next, or -1. Deepest call first, then lowest address, unless lanes have waited too long.
int select(WarpState& w, const Program& p, u32& stop) {
    auto& splits = w.splits;
    stop = ~0U;
    if (splits.size() == 1 && splits[0].state == Split::ready) return 0;
    merge(w);
    int best = -1;
    for (std::size_t k = 0; k < splits.size(); ++k) {
        Split& s = splits[k];
        if (s.state == Split::at_sync && (s.forced || missing(w, s, p) == 0)) s.state = Split::ready;
        if (s.state == Split::at_cluster && w.block->cluster->phase != s.barrier)
            s.state = Split::ready, ++s.pc;
        if (s.state != Split::ready) continue;
        if (best < 0) {
            best = int(k);
            continue;
        }
        const Split& b = splits[std::size_t(best)];
        bool before = w.rotated != 0       ? s.stamp < b.stamp
                      : s.depth != b.depth ? s.depth > b.depth
                                           : s.pc < b.pc;
        if (before) best = int(k);
    }
    if (best < 0 || w.rotated != 0) return best;
    const Split& b = splits[std::size_t(best)];
    for (const Split& s : splits) {
        if (s.state <= Split::at_sync && s.depth == b.depth && s.pc > b.pc) stop = std::min(stop, s.pc);
    }
    return best;
}

void release(BlockState& block, u32 number) {
    BarrierState& bar = block.barriers[number];
    for (WarpState& w : block.warps) {
        for (Split& s : w.splits) {
            if (s.state != Split::at_barrier || s.barrier != number) continue;
            const Inst& i = block.program->code[s.pc];
            u32 m = s.mask;
            if (i.imm == 2) {
                for (u32 l = 0; l < kLanes; ++l) {
                    if ((m >> l) & 1) std::memcpy(w.regs + i.d + 4 * l, &bar.count, 4);
                }
            } else if (i.imm == 3 || i.imm == 4) {
                write_predicate(w, i.d, (i.imm == 3 ? bar.all : bar.any) ? kAllLanes : 0, m);
            }
            s.state = Split::ready;
            ++s.pc;
        }
    }
    bar = BarrierState{};
}

void check_cluster(ClusterState& c) {
    if (c.arrived == 0 || c.arrived < c.live_threads()) return;
    c.arrived = 0;
    ++c.phase;
}

bool complete(const BlockState& block, const BarrierState& bar) {
    if (bar.expected != 0) return bar.padded >= bar.expected;
    return bar.arrived != 0 && bar.arrived >= block.live_threads;
}

void arrive(WarpState& w, const Inst& i, u32 m) {
    BlockState& block = *w.block;
    u32 number = lane_value(w, i.a, m);
    if (number >= 16) raise_fault(w, int(Fault::illegal_instruction), u32(__builtin_ctz(m)), 0, 0, false);
    BarrierState& bar = block.barriers[number];
    if (i.b != ~0U) bar.expected = lane_value(w, i.b, m);
    bar.arrived += u32(__builtin_popcount(m));
    bar.padded += m == w.live ? u32(kLanes) : u32(__builtin_popcount(m));
    if (i.imm >= 2) {
        u32 p = predicate(w, i.c) & m;
        bar.count += u32(__builtin_popcount(p));
        bar.all = bar.all && p == m;
        bar.any = bar.any || p != 0;
    }
}

void save_window(WarpState& w, const FunctionCode& f, CallRecord& r) {
    std::size_t regs = f.window_until - f.window_from, preds = f.predicates_until - f.predicates_from;
    r.saved.resize(regs + preds);
    std::memcpy(r.saved.data(), w.regs + f.window_from, regs);
    std::memcpy(r.saved.data() + regs, w.regs + f.predicates_from, preds);
}

template <class T>
void blend_lanes(u8* to, const u8* from, u32 mask) {
    for (u32 l = 0; l < kLanes; ++l) {
        if ((mask >> l) & 1) std::memcpy(to + l * sizeof(T), from + l * sizeof(T), sizeof(T));
    }
}

/// Window layout of a function is by class: 16-bit slots, then 32, 64, 128, then parameter words (32).
/// Restoring under a mask needs the lane width, so the classes' boundaries are kept with the function.
void restore_window(WarpState& w, const FunctionCode& f, const CallRecord& r, u32 mask) {
    std::size_t regs = f.window_until - f.window_from;
    if (mask == w.live) {
        std::memcpy(w.regs + f.window_from, r.saved.data(), regs);
    } else {
        u32 at = f.window_from;
        auto part = [&](u32 until, auto zero) {
            using T = decltype(zero);
            for (; at + sizeof(T) * kLanes <= until; at += u32(sizeof(T)) * kLanes) {
                blend_lanes<T>(w.regs + at, r.saved.data() + (at - f.window_from), mask);
            }
        };
        part(f.until16, u16());
        part(f.until32, u32());
        part(f.until64, u64());
        part(f.until128, u128());
        part(f.window_until, u32());
    }
    std::size_t at = regs;
    for (u32 p = f.predicates_from; p < f.predicates_until; p += 4, at += 4) {
        u32 v;
        std::memcpy(&v, r.saved.data() + at, 4);
        write_predicate(w, p, v, mask);
    }
}

void move_stack(WarpState& w, const Program& p, u32 bytes, bool down, u32 mask) {
    if (p.stack_pointer == ~0U) return;
    for (u32 l = 0; l < kLanes; ++l) {
        if (((mask >> l) & 1) == 0) continue;
        u32 sp;
        std::memcpy(&sp, w.regs + p.stack_pointer + 4 * l, 4);
        sp = down ? sp - bytes : sp + bytes;
        if (sp > w.local_bytes) raise_fault(w, int(Fault::stack_error), l, sp, 0, true);
        std::memcpy(w.regs + p.stack_pointer + 4 * l, &sp, 4);
    }
}

i32 new_record(WarpState& w) {
    if (!w.free_records.empty()) {
        i32 r = w.free_records.back();
        w.free_records.pop_back();
        return r;
    }
    if (w.records.size() >= kMostRecords)
        raise_fault(w, int(Fault::stack_error), u32(__builtin_ctz(w.live)), 0, 0, true);
    w.records.emplace_back();
    return i32(w.records.size() - 1);
}

}  // namespace

namespace {

/// Instruction counts in registers; written back when somebody may look.
struct Counts {
    WarpState& w;
    u64 warps = 0, threads = 0;
    void flush() {
        w.warp_instructions += warps, w.thread_instructions += threads;
        warps = threads = 0;
    }
    ~Counts() { flush(); }
};

}  // namespace

RunEnd run_warp(WarpState& w) {
    Counts counts{w};
    const Program& p = *w.block->program;
    const Inst* const code = p.code.data();
    u32 slice = kSlice;
    for (;;) {
        u32 stop;
        int chosen = select(w, p, stop);
        if (chosen < 0) {
            w.finished = w.splits.empty();
            return w.finished ? RunEnd::done : RunEnd::blocked;
        }
        auto now = std::size_t(chosen);
        u32 pc = w.splits[now].pc, mask = w.splits[now].mask;
        auto give_turn = [&](u32 at) {
            w.splits[now].pc = at;
            w.splits[now].stamp = ++w.turn;
        };
        for (;;) {
            if (pc >= stop) [[unlikely]] {
                w.splits[now].pc = pc;
                break;
            }
            const Inst& i = code[pc];
            u32 m = mask;
            if (i.guard_mode != 0) {
                u32 g = predicate(w, i.guard);
                m &= i.guard_mode == 1 ? g : ~g;
            }
            counts.warps += i.counted;
            counts.threads += u64(u32(__builtin_popcount(m))) * i.counted;
            w.current = &i;
            if (i.kind == Kind::plain) [[likely]] {
                if (m != 0) i.fn(w, i, m);
                ++pc;
                continue;
            }
            if (m == 0) {
                ++pc;
                continue;
            }
            switch (i.kind) {
                case Kind::plain:
                    break;
                case Kind::timed:
                    counts.flush();
                    i.fn(w, i, m);
                    ++pc;
                    continue;
                case Kind::branch: {
                    u32 target = i.target;
                    if (m == mask) {
                        if (target <= pc) {
                            if (--slice == 0) {
                                w.splits[now].pc = target;
                                return RunEnd::yielded;
                            }
                            if (w.splits.size() > 1) {
                                if (w.rotated != 0) {
                                    if (--w.rotated == 0) {
                                        w.back_branches = 0;
                                        give_turn(target);
                                        goto reselect;
                                    }
                                } else if (++w.back_branches >= kFairness) {
                                    w.rotated = kRotation;
                                    give_turn(target);
                                    goto reselect;
                                }
                            }
                        }
                        pc = target;
                        continue;
                    }
                    if (target == pc + 1) {
                        ++pc;
                        continue;
                    }
                    Split other = w.splits[now];
                    other.pc = pc + 1, other.mask = mask & ~m;
                    w.splits[now].pc = target, w.splits[now].mask = m;
                    w.splits.push_back(other);
                    if (target <= pc && w.rotated == 0 && ++w.back_branches >= kFairness) {
                        w.rotated = kRotation;
                        w.splits[now].stamp = ++w.turn;
                    }
                    if (--slice == 0) return RunEnd::yielded;
                    goto reselect;
                }
                case Kind::branch_index: {
                    // One split per distinct target.
                    Split base = w.splits[now];
                    u32 left = m;
                    w.splits[now].mask = mask & ~m, w.splits[now].pc = pc + 1;
                    if (w.splits[now].mask == 0) w.splits.erase(w.splits.begin() + chosen);
                    while (left != 0) {
                        u32 index = lane_value(w, i.a, left);
                        if (i64(index) >= i.imm) index = u32(i.imm - 1);
                        u32 same = 0;
                        for (u32 l = 0; l < kLanes; ++l) {
                            if (((left >> l) & 1) == 0) continue;
                            u32 v = lane_value(w, i.a, 1U << l);
                            if (i64(v) >= i.imm) v = u32(i.imm - 1);
                            if (i.list[v] == i.list[index]) same |= 1U << l;
                        }
                        base.pc = i.list[index], base.mask = same;
                        w.splits.push_back(base);
                        left &= ~same;
                    }
                    if (--slice == 0) return RunEnd::yielded;
                    goto reselect;
                }
                case Kind::warp_sync: {
                    u32 need = lane_value(w, i.c, m) & w.live & ~m;
                    Split& s = w.splits[now];
                    if (need != 0 && w.splits.size() > 1 && !s.forced) {
                        s.pc = pc;
                        s.state = Split::at_sync;
                        goto reselect;
                    }
                    s.forced = false;
                    i.fn(w, i, m);
                    ++pc;
                    continue;
                }
                case Kind::yielding:
                    i.fn(w, i, m);
                    ++pc;
                    if (++w.spins >= kSpins) {
                        w.spins = 0;
                        give_turn(pc);
                        if (w.splits.size() > 1 && w.rotated == 0) w.back_branches += kSpins;
                        return RunEnd::spinning;
                    }
                    continue;
                case Kind::call:
                case Kind::call_indirect: {
                    u32 target = i.target;
                    u32 callers = m;
                    if (i.kind == Kind::call_indirect) {
                        u64 pointer;
                        auto at = [&](u32 l) {
                            std::memcpy(&pointer, w.regs + i.a + 8 * l, 8);
                            return pointer;
                        };
                        u64 first = at(u32(__builtin_ctz(m)));
                        auto it = p.by_address.find(first);
                        if (it == p.by_address.end()) {
                            raise_fault(w, int(Fault::illegal_instruction), u32(__builtin_ctz(m)), first, 0,
                                        false);
                        }
                        target = p.functions[it->second].entry;
                        for (u32 l = 0; l < kLanes; ++l) {
                            if (((m >> l) & 1) != 0 && at(l) != first) callers &= ~(1U << l);
                        }
                    }
                    i32 r = new_record(w);
                    CallRecord& record = w.records[std::size_t(r)];
                    Split& s = w.splits[now];
                    record.return_pc = pc + 1, record.caller = i.function, record.parent = s.record,
                    record.mask = callers;
                    record.saved.clear();
                    const FunctionCode& caller = p.functions[i.function];
                    if (caller.recursive) save_window(w, caller, record);
                    move_stack(w, p, caller.local_bytes, false, callers);
                    Split inner = s;
                    inner.pc = target, inner.mask = callers, inner.record = r, ++inner.depth;
                    if (inner.depth > 20000)
                        raise_fault(w, int(Fault::stack_error), u32(__builtin_ctz(m)), 0, 0, true);
                    // Lanes that do not call go on; lanes with another target call again.
                    if (callers != m) {
                        Split again = s;
                        again.mask = m & ~callers, again.pc = pc;
                        if ((mask & ~m) != 0) again.mask = mask & ~callers;
                        w.splits[now] = inner;
                        w.splits.push_back(again);
                    } else if ((mask & ~m) != 0) {
                        Split rest = s;
                        rest.mask = mask & ~m, rest.pc = pc + 1;
                        w.splits[now] = inner;
                        w.splits.push_back(rest);
                    } else {
                        s = inner;
                    }
                    if (--slice == 0) return RunEnd::yielded;
                    goto reselect;
                }
                case Kind::ret: {
                    Split& s = w.splits[now];
                    i32 r = s.record;
                    CallRecord& record = w.records[std::size_t(r)];
                    const FunctionCode& caller = p.functions[record.caller];
                    if (caller.recursive) restore_window(w, caller, record, m);
                    move_stack(w, p, caller.local_bytes, true, m);
                    Split outer = s;
                    outer.pc = record.return_pc, outer.mask = m, outer.record = record.parent, --outer.depth;
                    record.mask &= ~m;
                    if (record.mask == 0) w.free_records.push_back(r);
                    if ((mask & ~m) != 0) {
                        s.mask = mask & ~m, s.pc = pc + 1;
                        w.splits.push_back(outer);
                    } else {
                        s = outer;
                    }
                    goto reselect;
                }
                case Kind::exit: {
                    w.live &= ~m;
                    BlockState& block = *w.block;
                    block.live_threads -= u32(__builtin_popcount(m));
                    w.splits[now].mask = mask & ~m;
                    w.splits[now].pc = pc + 1;
                    if (w.splits[now].mask == 0) {
                        w.splits[now] = w.splits.back();
                        w.splits.pop_back();
                    }
                    for (u32 k = 0; k < 16; ++k) {
                        if (block.barriers[k].arrived != 0 && complete(block, block.barriers[k]))
                            release(block, k);
                    }
                    if (block.cluster != nullptr) check_cluster(*block.cluster);
                    goto reselect;
                }
                case Kind::barrier: {
                    BlockState& block = *w.block;
                    u32 number = lane_value(w, i.a, m);
                    arrive(w, i, m);
                    bool wait = i.imm != 1;
                    if (wait) {
                        Split& s = w.splits[now];
                        if ((mask & ~m) != 0) {
                            Split rest = s;
                            rest.mask = mask & ~m, rest.pc = pc + 1;
                            w.splits.push_back(rest);
                        }
                        Split& self = w.splits[now];
                        self.mask = m, self.pc = pc, self.state = Split::at_barrier, self.barrier = number;
                    }
                    if (complete(block, block.barriers[number])) release(block, number);
                    if (!wait) {
                        ++pc;
                        continue;
                    }
                    goto reselect;
                }
                case Kind::stop:
                    raise_fault(w, int(Fault::trap), u32(__builtin_ctz(m)), 0, 0, false);
                case Kind::cluster_barrier: {
                    ClusterState& c = *w.block->cluster;
                    if (i.imm == 1) {  // arrive
                        c.arrived += u32(__builtin_popcount(m));
                        for (u32 l = 0; l < kLanes; ++l) {
                            if ((m >> l) & 1) w.cluster_phase[l] = c.phase;
                        }
                        check_cluster(c);
                        ++pc;
                        continue;
                    }
                    u32 phase = w.cluster_phase[__builtin_ctz(m)];
                    if (phase != c.phase) {
                        ++pc;
                        continue;
                    }
                    if ((mask & ~m) != 0) {
                        Split rest = w.splits[now];
                        rest.mask = mask & ~m, rest.pc = pc + 1;
                        w.splits.push_back(rest);
                    }
                    Split& self = w.splits[now];
                    self.mask = m, self.pc = pc, self.state = Split::at_cluster, self.barrier = phase;
                    goto reselect;
                }
            }
        }
    reselect:;
    }
}

}  // namespace softgpu::ptx
