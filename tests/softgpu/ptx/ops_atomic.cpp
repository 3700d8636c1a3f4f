// atom and red. Lanes act in lane order. d: old value or ~0 (red); b: operand; c: second operand of cas; a:
// address; imm: displacement. Every access is a host atomic, because other blocks and the host may look at
// the same place.
#include "tests/softgpu/ptx/isa.h"
#include "tests/softgpu/ptx/isa_memory.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

#define ATOM(Name, expr)                                             \
    struct Name {                                                    \
        template <class T>                                           \
        static ALWAYS_INLINE T f(T old, T b, [[maybe_unused]] T c) { \
            return T(expr);                                          \
        }                                                            \
    }
template <class T>
ALWAYS_INLINE T wrap_add(T a, T b) {
    return T(u64(a) + u64(b));
}
ALWAYS_INLINE float wrap_add(float a, float b) {
    return canonical(a + b);
}
ALWAYS_INLINE double wrap_add(double a, double b) {
    return canonical(a + b);
}
ATOM(Add, wrap_add(old, b));
ATOM(Min, b < old ? b : old);
ATOM(Max, b > old ? b : old);
ATOM(And, old& b);
ATOM(Or, old | b);
ATOM(Xor, old ^ b);
ATOM(Exch, (void(old), b));
ATOM(Cas, old == b ? c : old);
ATOM(Inc, old >= b ? T(0) : T(old + 1));
ATOM(Dec, old == 0 || old > b ? b : T(old - 1));

/// Float type stored in its bits.
template <class Bits, class F>
struct FloatAdd {
    static ALWAYS_INLINE Bits f(Bits old, Bits b, Bits) {
        return bits_as<Bits>(wrap_add(bits_as<F>(old), bits_as<F>(b)));
    }
};
struct HalfOps {
    static ALWAYS_INLINE float up(u16 v) { return half_to_float(v); }
    static ALWAYS_INLINE u16 down(float v) { return float_to_half(v); }
};
struct Bf16Ops {
    static ALWAYS_INLINE float up(u16 v) { return bf16_to_float(v); }
    static ALWAYS_INLINE u16 down(float v) { return float_to_bf16(v); }
};
enum { kAdd, kMin, kMax };
template <class O, int What>
ALWAYS_INLINE u16 half_op(u16 old, u16 b) {
    float x = O::up(old), y = O::up(b);
    if (What == kAdd) return O::down(x + y);
    if (x != x) return y == y ? b : u16(kNan16);
    if (y != y) return old;
    bool take = What == kMin ? y < x : y > x;
    return take ? b : old;
}
template <class O, int What>
struct HalfAtom {
    static ALWAYS_INLINE u16 f(u16 old, u16 b, u16) { return half_op<O, What>(old, b); }
    static ALWAYS_INLINE u32 f(u32 old, u32 b, u32) {
        return u32(half_op<O, What>(u16(old), u16(b))) | u32(half_op<O, What>(u16(old >> 16), u16(b >> 16)))
                                                             << 16;
    }
};

template <class F, class T>
ALWAYS_INLINE T update(u8* host, T b, T c) {
    T* p = reinterpret_cast<T*>(host);
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    for (;;) {
        T next = F::f(old, b, c);
        if (__atomic_compare_exchange_n(p, &old, next, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return old;
    }
}
template <class F>
ALWAYS_INLINE u128 update(u8* host, u128 b, u128 c) {
    // Only kernels run in block order use it, so plain accesses are alone.
    u128 old;
    __builtin_memcpy(&old, host, sizeof old);
    u128 next = F::f(old, b, c);
    __builtin_memcpy(host, &next, sizeof next);
    return old;
}

enum Where { kGlobal, kShared32, kShared64, kGeneric };

template <class F, class T, int Space>
void atom(Warp& w, const Inst& i, u32 mask) {
    alignas(64) T b[kLanes], c[kLanes];
    for (int l = 0; l < kLanes; ++l) b[l] = slot<T>(w, i.b)[l], c[l] = slot<T>(w, i.c)[l];
    T* d = i.d == ~0U ? nullptr : slot<T>(w, i.d);
    if constexpr (Space == kShared32 || Space == kShared64) {
        alignas(64) u32 off[kLanes];
        if constexpr (Space == kShared32)
            shared_offsets<u32>(w, i, mask, sizeof(T), off, true);
        else
            shared_offsets<u64>(w, i, mask, sizeof(T), off, true);
        FOR_LANES(l, mask) {
            T old, next;
            __builtin_memcpy(&old, w.shared + off[l], sizeof old);
            next = F::f(old, b[l], c[l]);
            __builtin_memcpy(w.shared + off[l], &next, sizeof next);
            if (d != nullptr) d[l] = old;
        }
        return;
    }
    alignas(64) u64 address[kLanes];
    gather_addresses(address, slot<u64>(w, i.a), u64(i.imm), mask, u32(__builtin_ctz(mask)));
    if constexpr (Space == kGlobal) check_lanes(w, address, mask, sizeof(T), true);
    FOR_LANES(l, mask) {
        u8* host = reinterpret_cast<u8*>(address[l]);
        if constexpr (Space == kGeneric) host = resolve(w, l, address[l], sizeof(T), true);
        T old;
        if (host == nullptr) {
            old = get_interleaved<T>(w.local, u32(address[l]), l);
            put_interleaved(w.local, u32(address[l]), l, F::f(old, b[l], c[l]));
        } else {
            old = update<F>(host, b[l], c[l]);
        }
        if (d != nullptr) d[l] = old;
    }
}

using AddF32 = FloatAdd<u32, float>;
using AddF64 = FloatAdd<u64, double>;
using HalfAdd = HalfAtom<HalfOps, kAdd>;
using HalfMin = HalfAtom<HalfOps, kMin>;
using HalfMax = HalfAtom<HalfOps, kMax>;
using Bf16Add = HalfAtom<Bf16Ops, kAdd>;
using Bf16Min = HalfAtom<Bf16Ops, kMin>;
using Bf16Max = HalfAtom<Bf16Ops, kMax>;

#define SPACES(op, type, F, T)                                   \
    {"atom.global." op "." type, atom<F, T, kGlobal>},           \
        {"atom.shared32." op "." type, atom<F, T, kShared32>},   \
        {"atom.shared64." op "." type, atom<F, T, kShared64>}, { \
        "atom.generic." op "." type, atom<F, T, kGeneric>        \
    }

const TableEntry kEntries_[] = {
    SPACES("add", "u32", Add, u32),      SPACES("add", "s32", Add, u32),
    SPACES("add", "u64", Add, u64),      SPACES("add", "s64", Add, u64),
    SPACES("add", "f32", AddF32, u32),   SPACES("add", "f64", AddF64, u64),
    SPACES("add", "f16", HalfAdd, u16),  SPACES("add", "f16x2", HalfAdd, u32),
    SPACES("add", "bf16", Bf16Add, u16), SPACES("add", "bf16x2", Bf16Add, u32),
    SPACES("min", "f16", HalfMin, u16),  SPACES("min", "f16x2", HalfMin, u32),
    SPACES("max", "f16", HalfMax, u16),  SPACES("max", "f16x2", HalfMax, u32),
    SPACES("min", "bf16", Bf16Min, u16), SPACES("min", "bf16x2", Bf16Min, u32),
    SPACES("max", "bf16", Bf16Max, u16), SPACES("max", "bf16x2", Bf16Max, u32),
    SPACES("min", "u32", Min, u32),      SPACES("min", "s32", Min, i32),
    SPACES("min", "u64", Min, u64),      SPACES("min", "s64", Min, i64),
    SPACES("max", "u32", Max, u32),      SPACES("max", "s32", Max, i32),
    SPACES("max", "u64", Max, u64),      SPACES("max", "s64", Max, i64),
    SPACES("and", "b32", And, u32),      SPACES("and", "b64", And, u64),
    SPACES("or", "b32", Or, u32),        SPACES("or", "b64", Or, u64),
    SPACES("xor", "b32", Xor, u32),      SPACES("xor", "b64", Xor, u64),
    SPACES("exch", "b32", Exch, u32),    SPACES("exch", "b64", Exch, u64),
    SPACES("exch", "b128", Exch, u128),  SPACES("cas", "b16", Cas, u16),
    SPACES("cas", "b32", Cas, u32),      SPACES("cas", "b64", Cas, u64),
    SPACES("cas", "b128", Cas, u128),    SPACES("inc", "u32", Inc, u32),
    SPACES("dec", "u32", Dec, u32),
};

}  // namespace

extern const Table table_atomic;
const Table table_atomic{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
