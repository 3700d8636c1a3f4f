// Exchange between the lanes of a warp: shfl, vote, match, redux, elect, activemask. The interpreter has seen
// to it that all lanes of the member mask that still run are in `mask`.
#include "tests/softgpu/ptx/isa.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

enum Mode { kUp, kDown, kBfly, kIdx };

/// a: value, b: lane operand, imm: offset of the clamp operand, list[0]: result predicate or ~0.
template <int M>
void shfl(Warp& w, const Inst& i, u32 mask) {
    alignas(64) u32 source[kLanes], from[kLanes], ok[kLanes];
    const u32* a = slot<u32>(w, i.a);
    const u32* b = slot<u32>(w, i.b);
    const u32* c = slot<u32>(w, u32(i.imm));
    for (u32 l = 0; l < kLanes; ++l) {
        u32 value = b[l] & 31, clamp = c[l] & 31, segment = (c[l] >> 8) & 31;
        u32 most = (l & segment) | (clamp & ~segment), least = l & segment;
        i32 j;
        bool in;
        if constexpr (M == kUp)
            j = i32(l) - i32(value), in = j >= i32(most);
        else if constexpr (M == kDown)
            j = i32(l + value), in = j <= i32(most);
        else if constexpr (M == kBfly)
            j = i32(l ^ value), in = j <= i32(most);
        else
            j = i32(least | (value & ~segment)), in = j <= i32(most);
        from[l] = in ? u32(j) & 31 : l;
        ok[l] = in;
        source[l] =
            (mask >> l) & 1 ? a[l] : 0;  // undefined in the manual; idioms with partial masks count on 0
    }
    Result<u32> r(w, i.d, mask);
    for (int l = 0; l < kLanes; ++l) r.out[l] = source[from[l]];
    if (i.list[0] != ~0U) write_predicate(w, i.list[0], lane_mask([&](int l) { return ok[l] != 0; }), mask);
}

ALWAYS_INLINE u32 members(Warp& w, const Inst& i, u32 mask) {
    return slot<u32>(w, i.c)[__builtin_ctz(mask)] & mask;
}

enum Vote { kAll, kAny, kUni };
template <int V>
void vote(Warp& w, const Inst& i, u32 mask) {
    u32 m = members(w, i, mask), p = predicate(w, i.a) & m;
    bool r = V == kAll ? p == m : V == kAny ? p != 0 : p == m || p == 0;
    write_predicate(w, i.d, r ? kAllLanes : 0, mask);
}
void ballot(Warp& w, const Inst& i, u32 mask) {
    Result<u32> r(w, i.d, mask);
    u32 v = predicate(w, i.a) & members(w, i, mask);
    for (int l = 0; l < kLanes; ++l) r.out[l] = v;
}
void activemask(Warp& w, const Inst& i, u32 mask) {
    Result<u32> r(w, i.d, mask);
    for (int l = 0; l < kLanes; ++l) r.out[l] = mask;
}
template <class T, bool All>
void match(Warp& w, const Inst& i, u32 mask) {
    alignas(64) T a[kLanes];
    for (int l = 0; l < kLanes; ++l) a[l] = slot<T>(w, i.a)[l];
    u32* d = slot<u32>(w, i.d);
    u32 m = members(w, i, mask);
    u32 same[kLanes];
    FOR_LANES(l, mask) {
        u32 r = 0;
        FOR_LANES(k, m) r |= u32(a[k] == a[l]) << k;
        same[l] = r;
    }
    bool all = m != 0 && same[__builtin_ctz(m)] == m;
    FOR_LANES(l, mask) d[l] = All ? (all ? m : 0) : same[l];
    if (All && i.list[0] != ~0U) write_predicate(w, i.list[0], all ? kAllLanes : 0, mask);
}
struct RAdd {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return T(u32(a) + u32(b));
    }
};
struct RMin {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a < b ? a : b;
    }
};
struct RMax {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a > b ? a : b;
    }
};
struct RAnd {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a & b;
    }
};
struct ROr {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a | b;
    }
};
struct RXor {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a ^ b;
    }
};
template <class F, class T>
void redux(Warp& w, const Inst& i, u32 mask) {
    const T* a = slot<T>(w, i.a);
    u32 m = members(w, i, mask);
    T v = a[__builtin_ctz(m)];
    FOR_LANES(l, m & (m - 1)) v = F::f(v, a[l]);
    T* d = slot<T>(w, i.d);
    FOR_LANES(l, mask) d[l] = v;
}
void elect(Warp& w, const Inst& i, u32 mask) {
    u32 leader = u32(__builtin_ctz(members(w, i, mask)));
    u32* d = slot<u32>(w, i.d);
    FOR_LANES(l, mask) d[l] = leader;
    if (i.list[0] != ~0U) write_predicate(w, i.list[0], 1U << leader, mask);
}
void nothing(Warp&, const Inst&, u32) {}

const TableEntry kEntries_[] = {
    {"shfl.up", shfl<kUp>},
    {"shfl.down", shfl<kDown>},
    {"shfl.bfly", shfl<kBfly>},
    {"shfl.idx", shfl<kIdx>},
    {"vote.all", vote<kAll>},
    {"vote.any", vote<kAny>},
    {"vote.uni", vote<kUni>},
    {"vote.ballot", ballot},
    {"activemask", activemask},
    {"match.any.b32", match<u32, false>},
    {"match.any.b64", match<u64, false>},
    {"match.all.b32", match<u32, true>},
    {"match.all.b64", match<u64, true>},
    {"redux.add.u32", redux<RAdd, u32>},
    {"redux.add.s32", redux<RAdd, i32>},
    {"redux.min.u32", redux<RMin, u32>},
    {"redux.min.s32", redux<RMin, i32>},
    {"redux.max.u32", redux<RMax, u32>},
    {"redux.max.s32", redux<RMax, i32>},
    {"redux.and.b32", redux<RAnd, u32>},
    {"redux.or.b32", redux<ROr, u32>},
    {"redux.xor.b32", redux<RXor, u32>},
    {"elect", elect},
    {"nop", nothing},
};

}  // namespace

extern const Table table_warp;
const Table table_warp{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
