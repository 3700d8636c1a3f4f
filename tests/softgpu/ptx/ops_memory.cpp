// Loads and stores. imm: displacement. n: vector length (registers in list when n > 1, else in d for loads
// and b for stores). Kernel addresses of global memory are host addresses that the memory owner has vouched
// for.
#include "tests/softgpu/ptx/isa.h"
#include "tests/softgpu/ptx/isa_memory.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

/// Value in memory of type M to a register of type R (sign- or zero-extending).
template <class M, class R>
ALWAYS_INLINE R widen(const u8* p) {
    M v;
    __builtin_memcpy(&v, p, sizeof v);
    return R(v);
}

template <class M, class R>
void load_lanes(Warp& w, const Inst& i, u32 mask, const u64* address) {
    if (i.n == 1) {
        R* d = slot<R>(w, i.d);
        if (mask == kAllLanes) {
            for (int l = 0; l < kLanes; ++l) d[l] = widen<M, R>(reinterpret_cast<const u8*>(address[l]));
        } else {
            FOR_LANES(l, mask) d[l] = widen<M, R>(reinterpret_cast<const u8*>(address[l]));
        }
        return;
    }
    for (u32 k = 0; k < i.n; ++k) {
        if (i.list[k] == ~0U) continue;
        R* d = slot<R>(w, i.list[k]);
        FOR_LANES(l, mask) d[l] = widen<M, R>(reinterpret_cast<const u8*>(address[l] + k * sizeof(M)));
    }
}
template <class M, class R>
void store_lanes(Warp& w, const Inst& i, u32 mask, const u64* address) {
    for (u32 k = 0; k < i.n; ++k) {
        const R* s = slot<R>(w, i.n == 1 ? i.b : i.list[k]);
        FOR_LANES(l, mask) {
            M v = M(s[l]);
            __builtin_memcpy(reinterpret_cast<u8*>(address[l] + k * sizeof(M)), &v, sizeof v);
        }
    }
}

/// All lanes in a row from `base`.
template <class M, class R>
ALWAYS_INLINE void load_row(Warp& w, const Inst& i, const u8* base) {
    if (i.n == 1) {
        R* d = slot<R>(w, i.d);
        for (int l = 0; l < kLanes; ++l) d[l] = widen<M, R>(base + u32(l) * sizeof(M));
        return;
    }
    u32 stride = i.n * sizeof(M);
    for (u32 k = 0; k < i.n; ++k) {
        if (i.list[k] == ~0U) continue;
        R* d = slot<R>(w, i.list[k]);
        const u8* p = base + k * sizeof(M);
        for (u32 l = 0; l < kLanes; ++l) d[l] = widen<M, R>(p + l * stride);
    }
}
template <class M, class R>
ALWAYS_INLINE void store_row(Warp& w, const Inst& i, u8* base) {
    u32 stride = i.n * sizeof(M);
    for (u32 k = 0; k < i.n; ++k) {
        const R* s = slot<R>(w, i.n == 1 ? i.b : i.list[k]);
        u8* p = base + k * sizeof(M);
        if (i.n == 1) {
            for (u32 l = 0; l < kLanes; ++l) {
                M v = M(s[l]);
                __builtin_memcpy(p + l * sizeof(M), &v, sizeof v);
            }
        } else {
            for (u32 l = 0; l < kLanes; ++l) {
                M v = M(s[l]);
                __builtin_memcpy(p + l * stride, &v, sizeof v);
            }
        }
    }
}
/// The same value for all lanes of the mask.
template <class M, class R>
ALWAYS_INLINE void load_uniform(Warp& w, const Inst& i, u32 mask, const u8* p) {
    for (u32 k = 0; k < i.n; ++k) {
        u32 off = i.n == 1 ? i.d : i.list[k];
        if (off == ~0U) continue;
        R v = widen<M, R>(p + k * sizeof(M));
        R* d = slot<R>(w, off);
        if (mask == w.live) {
            for (int l = 0; l < kLanes; ++l) d[l] = v;
        } else {
            FOR_LANES(l, mask) d[l] = v;
        }
    }
}

/// Generic accesses that are not all global: lane by lane.
template <class M, class R, bool Store>
void generic_lanes(Warp& w, const Inst& i, u32 mask) {
    alignas(64) u64 address[kLanes];
    FOR_LANES(l, mask) address[l] = slot<u64>(w, i.a)[l] + u64(i.imm);
    FOR_LANES(l, mask) {
        u8* host = resolve(w, l, address[l], u32(sizeof(M)) * i.n, Store);
        u32 local = u32(address[l]);
        for (u32 k = 0; k < i.n; ++k) {
            u32 reg = i.n != 1 ? i.list[k] : Store ? i.b : i.d;
            if (reg == ~0U) continue;
            R* r = slot<R>(w, reg);
            u32 at = k * u32(sizeof(M));
            if constexpr (Store) {
                M v = M(r[l]);
                if (host != nullptr)
                    __builtin_memcpy(host + at, &v, sizeof v);
                else
                    put_interleaved(w.local, local + at, l, v);
            } else {
                r[l] =
                    host != nullptr ? widen<M, R>(host + at) : R(get_interleaved<M>(w.local, local + at, l));
            }
        }
    }
}

/// Global memory, or the generic space when `Generic` (then the addresses may lie in a window).
template <class M, class R, bool Generic, bool Store>
void global(Warp& w, const Inst& i, u32 mask) {
    const u64* a = slot<u64>(w, i.a);
    u32 size = sizeof(M) * i.n;
    u64 displacement = u64(i.imm);
    alignas(64) u64 address[kLanes];
    u64 row = 0, differ = 0, windows = 0, base;
    if (mask == kAllLanes) {
        base = a[0] + displacement;
        for (u32 l = 0; l < kLanes; ++l) {
            u64 v = a[l] + displacement;
            address[l] = v;
            row |= (v - base) ^ u64(l * size);
            differ |= v ^ base;
            windows |= v;
        }
    } else {
        u32 first = u32(__builtin_ctz(mask));
        base = a[first] + displacement;
        differ = gather_addresses(address, a, displacement, mask, first);
        for (u32 l = 0; l < kLanes; ++l) windows |= address[l];
        row = 1;
    }
    if (Generic && (windows >> kWindowShift) != 0) return generic_lanes<M, R, Store>(w, i, mask);
    if (row == 0) {
        check_global(w, base, size * kLanes, size, Store);
        if constexpr (Store)
            store_row<M, R>(w, i, reinterpret_cast<u8*>(base));
        else
            load_row<M, R>(w, i, reinterpret_cast<const u8*>(base));
        return;
    }
    if constexpr (Store) {
        check_lanes(w, address, mask, size, true);
        store_lanes<M, R>(w, i, mask, address);
    } else if (differ == 0) {
        check_global(w, base, size, size, false);
        load_uniform<M, R>(w, i, mask, reinterpret_cast<const u8*>(base));
    } else {
        check_lanes(w, address, mask, size, false);
        load_lanes<M, R>(w, i, mask, address);
    }
}

/// Shared memory; addresses of 32 or 64 bits (A).
template <class M, class R, class A>
void load_shared(Warp& w, const Inst& i, u32 mask) {
    alignas(64) u32 off[kLanes];
    u32 size = sizeof(M) * i.n;
    Pattern p = shared_offsets<A>(w, i, mask, size, off, false);
    const u8* shared = w.shared;
    if (p.same) return load_uniform<M, R>(w, i, mask, shared + p.base);
    if (p.row) return load_row<M, R>(w, i, shared + p.base);
    for (u32 k = 0; k < i.n; ++k) {
        u32 to = i.n == 1 ? i.d : i.list[k];
        if (to == ~0U) continue;
        R* d = slot<R>(w, to);
        const u8* from = shared + k * sizeof(M);
        if (mask != w.live) {
            FOR_LANES(l, mask) d[l] = widen<M, R>(from + off[l]);
        } else if constexpr (sizeof(M) == 4 && sizeof(R) == 4) {
            gather32(reinterpret_cast<u32*>(d), from, off);
        } else {
            for (u32 l = 0; l < kLanes; ++l) d[l] = widen<M, R>(from + off[l]);
        }
    }
}
template <class M, class R, class A>
void store_shared(Warp& w, const Inst& i, u32 mask) {
    alignas(64) u32 off[kLanes];
    u32 size = sizeof(M) * i.n;
    Pattern p = shared_offsets<A>(w, i, mask, size, off, true);
    u8* shared = w.shared;
    if (p.row) return store_row<M, R>(w, i, shared + p.base);
    for (u32 k = 0; k < i.n; ++k) {
        const R* s = slot<R>(w, i.n == 1 ? i.b : i.list[k]);
        FOR_LANES(l, mask) {
            M v = M(s[l]);
            __builtin_memcpy(shared + off[l] + k * sizeof(M), &v, sizeof v);
        }
    }
}

/// Local memory: words of the lanes interleaved.
template <class M, class R, class A, bool Store>
void local(Warp& w, const Inst& i, u32 mask) {
    const A* a = slot<A>(w, i.a);
    u32 size = sizeof(M) * i.n;
    alignas(64) u32 off[kLanes];
    u32 first = u32(__builtin_ctz(mask)), differ = 0;
    for (u32 l = 0; l < kLanes; ++l) {
        u32 v = u32(u64(a[l]) + u64(i.imm));
        off[l] = v;
        differ |= (mask >> l) & 1 ? v ^ u32(u64(a[first]) + u64(i.imm)) : 0;
    }
    FOR_LANES(l, differ == 0 ? mask & (0 - mask) : mask) {
        u64 at = off[l];
        if (sizeof(A) == 8 && u64(a[l]) + u64(i.imm) != at) at = u64(a[l]) + u64(i.imm);
        if (at + size > w.local_bytes || at > w.local_bytes) raise_illegal(w, l, at, size, Store, "local");
        if ((at & (size - 1)) != 0) raise_misaligned(w, l, at, size);
    }
    for (u32 k = 0; k < i.n; ++k) {
        u32 reg = i.n != 1 ? i.list[k] : Store ? i.b : i.d;
        if (reg == ~0U) continue;
        R* r = slot<R>(w, reg);
        u32 part = k * u32(sizeof(M));
        if (differ == 0 && mask == w.live) {
            // The same offset in all lanes: whole rows of words. Lanes that have ended may be written along.
            u32 at = off[first] + part;
#pragma GCC ivdep
            for (u32 l = 0; l < kLanes; ++l) {
                if constexpr (Store)
                    put_interleaved(w.local, at, l, M(r[l]));
                else
                    r[l] = R(get_interleaved<M>(w.local, at, l));
            }
            continue;
        }
        FOR_LANES(l, mask) {
            if constexpr (Store)
                put_interleaved(w.local, off[l] + part, l, M(r[l]));
            else
                r[l] = R(get_interleaved<M>(w.local, off[l] + part, l));
        }
    }
}

/// .param of functions: interleaved words in the frame at d (store) or a (load), byte offset imm.
template <class M, class R>
void load_words(Warp& w, const Inst& i, u32 mask) {
    Result<R> r(w, i.d, mask);
    for (u32 l = 0; l < kLanes; ++l) r.out[l] = R(get_interleaved<M>(w.regs + i.a, u32(i.imm), l));
}
template <class M, class R>
void store_words(Warp& w, const Inst& i, u32 mask) {
    const R* s = slot<R>(w, i.a);
    FOR_LANES(l, mask) put_interleaved(w.regs + i.d, u32(i.imm), l, M(s[l]));
}
/// Kernel parameters at a fixed offset: the same for every lane.
template <class M, class R>
void load_param(Warp& w, const Inst& i, u32 mask) {
    load_uniform<M, R>(w, i, mask, w.params + i.imm);
}
/// Kernel parameters at a computed address.
template <class M, class R>
void load_param_at(Warp& w, const Inst& i, u32 mask) {
    const u64* a = slot<u64>(w, i.a);
    FOR_LANES(l, mask) {
        u64 at = a[l] + u64(i.imm);
        if ((at >> kWindowShift) == (kParamWindow >> kWindowShift)) at -= kParamWindow;
        if (at + sizeof(M) * i.n > w.param_bytes || at > w.param_bytes)
            raise_illegal(w, l, at, sizeof(M), false, "param");
        for (u32 k = 0; k < i.n; ++k) {
            u32 to = i.n == 1 ? i.d : i.list[k];
            if (to != ~0U) slot<R>(w, to)[l] = widen<M, R>(w.params + at + k * sizeof(M));
        }
    }
}

#define ALL(M, m, R, r)                                                                                      \
    {"ld.global." m "." r, global<M, R, false, false>}, {"st.global." m "." r, global<M, R, false, true>},   \
        {"ld.generic." m "." r, global<M, R, true, false>},                                                  \
        {"st.generic." m "." r, global<M, R, true, true>}, {"ld.shared32." m "." r, load_shared<M, R, u32>}, \
        {"st.shared32." m "." r, store_shared<M, R, u32>}, {"ld.shared64." m "." r, load_shared<M, R, u64>}, \
        {"st.shared64." m "." r, store_shared<M, R, u64>}, {"ld.local32." m "." r, local<M, R, u32, false>}, \
        {"st.local32." m "." r, local<M, R, u32, true>}, {"ld.local64." m "." r, local<M, R, u64, false>},   \
        {"st.local64." m "." r, local<M, R, u64, true>}, {"ld.words." m "." r, load_words<M, R>},            \
        {"st.words." m "." r, store_words<M, R>}, {"ld.param." m "." r, load_param<M, R>}, {                 \
        "ld.param_at." m "." r, load_param_at<M, R>                                                          \
    }

// Memory type, then register width: unsigned also serve .b and .f types.
const TableEntry kEntries_[] = {
    ALL(u8, "u8", u16, "b16"),       ALL(i8, "s8", i16, "b16"),   ALL(u8, "u8", u32, "b32"),
    ALL(i8, "s8", i32, "b32"),       ALL(u8, "u8", u64, "b64"),   ALL(i8, "s8", i64, "b64"),
    ALL(u16, "u16", u16, "b16"),     ALL(u16, "u16", u32, "b32"), ALL(i16, "s16", i32, "b32"),
    ALL(u16, "u16", u64, "b64"),     ALL(i16, "s16", i64, "b64"), ALL(u32, "u32", u32, "b32"),
    ALL(u32, "u32", u64, "b64"),     ALL(i32, "s32", i64, "b64"), ALL(u64, "u64", u64, "b64"),
    ALL(u128, "b128", u128, "b128"),
};

}  // namespace

extern const Table table_memory;
const Table table_memory{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
