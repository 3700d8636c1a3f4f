// Integer arithmetic of 16, 32 and 64 bits, and moves.
#include "tests/softgpu/ptx/isa.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

template <class T>
struct Wide;
template <>
struct Wide<u16> {
    using type = u32;
};
template <>
struct Wide<i16> {
    using type = i32;
};
template <>
struct Wide<u32> {
    using type = u64;
};
template <>
struct Wide<i32> {
    using type = i64;
};
template <>
struct Wide<u64> {
    using type = u128;
};
template <>
struct Wide<i64> {
    using type = i128;
};
template <class T>
struct Unsigned;
template <>
struct Unsigned<u16> {
    using type = u16;
};
template <>
struct Unsigned<i16> {
    using type = u16;
};
template <>
struct Unsigned<u32> {
    using type = u32;
};
template <>
struct Unsigned<i32> {
    using type = u32;
};
template <>
struct Unsigned<u64> {
    using type = u64;
};
template <>
struct Unsigned<i64> {
    using type = u64;
};
template <class T>
using W = typename Wide<T>::type;
template <class T>
using U = typename Unsigned<T>::type;
template <class T>
constexpr bool kSigned = T(-1) < T(0);
template <class T>
constexpr T kMin = kSigned<T> ? T(U<T>(1) << (sizeof(T) * 8 - 1)) : T(0);
template <class T>
constexpr T kMax = T(~kMin<T>);

struct Move {
    template <class T>
    static ALWAYS_INLINE T f(T a) {
        return a;
    }
};
struct Add {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return T(a + b);
    }
};
struct Sub {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return T(a - b);
    }
};
struct AddSat {
    static ALWAYS_INLINE i32 f(i32 a, i32 b) {
        i64 s = i64(a) + b;
        return s > kMax<i32> ? kMax<i32> : s < kMin<i32> ? kMin<i32> : i32(s);
    }
};
struct SubSat {
    static ALWAYS_INLINE i32 f(i32 a, i32 b) {
        i64 s = i64(a) - b;
        return s > kMax<i32> ? kMax<i32> : s < kMin<i32> ? kMin<i32> : i32(s);
    }
};
struct MulLo {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return T(u64(a) * u64(b));
    }
    static ALWAYS_INLINE u32 f(u32 a, u32 b) { return a * b; }
    static ALWAYS_INLINE u16 f(u16 a, u16 b) { return u16(u32(a) * b); }
};
struct MulHi {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return T((W<T>(a) * W<T>(b)) >> (sizeof(T) * 8));
    }
};
template <class T>
struct MulWide {
    static ALWAYS_INLINE W<T> f(T a, T b) { return W<T>(a) * W<T>(b); }
};
template <>
struct MulWide<u16> {
    static ALWAYS_INLINE u32 f(u16 a, u16 b) { return u32(a) * b; }
};
struct MadLo {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b, T c) {
        return T(MulLo::f(a, b) + c);
    }
};
struct MadHi {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b, T c) {
        return T(U<T>(MulHi::f(a, b)) + U<T>(c));
    }
};
struct MadHiSat {
    static ALWAYS_INLINE i32 f(i32 a, i32 b, i32 c) { return AddSat::f(MulHi::f(a, b), c); }
};
template <class T>
struct MadWide {
    static ALWAYS_INLINE W<T> f(T a, T b, W<T> c) { return W<T>(u64(MulWide<T>::f(a, b)) + u64(c)); }
};
ALWAYS_INLINE u32 low24(u32 a) {
    return a & 0xffffffU;
}
ALWAYS_INLINE i32 low24(i32 a) {
    return i32(u32(a) << 8) >> 8;
}
struct Mul24Lo {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return T(u32(u64(i64(low24(a)) * i64(low24(b)))));
    }
};
struct Mul24Hi {  // bits 47..16 of the 48-bit product
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return T(u32(u64(i64(low24(a)) * i64(low24(b))) >> 16));
    }
};
struct Mad24Lo {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b, T c) {
        return T(u32(Mul24Lo::f(a, b)) + u32(c));
    }
};
struct Mad24Hi {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b, T c) {
        return T(u32(Mul24Hi::f(a, b)) + u32(c));
    }
};
struct Mad24HiSat {
    static ALWAYS_INLINE i32 f(i32 a, i32 b, i32 c) { return AddSat::f(Mul24Hi::f(a, b), c); }
};
// Division by zero gives all ones (quotient) and the dividend (remainder), as the device does.
struct Div {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        if (b == 0) return T(-1);
        if (kSigned<T> && b == T(-1)) return T(U<T>(0) - U<T>(a));
        return T(a / b);
    }
};
struct Rem {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        if (b == 0) return a;
        if (kSigned<T> && b == T(-1)) return 0;
        return T(a % b);
    }
};
struct Abs {
    template <class T>
    static ALWAYS_INLINE T f(T a) {
        return a < 0 ? T(U<T>(0) - U<T>(a)) : a;
    }
};
struct Neg {
    template <class T>
    static ALWAYS_INLINE T f(T a) {
        return T(U<T>(0) - U<T>(a));
    }
};
struct Min {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a < b ? a : b;
    }
};
struct Max {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a > b ? a : b;
    }
};
struct MinRelu {
    static ALWAYS_INLINE i32 f(i32 a, i32 b) { return max_of(min_of(a, b), 0); }
};
struct MaxRelu {
    static ALWAYS_INLINE i32 f(i32 a, i32 b) { return max_of(max_of(a, b), 0); }
};
template <class T, class F>
struct Halves {  // both 16-bit halves of a 32-bit register
    static ALWAYS_INLINE u32 f(u32 a, u32 b) {
        u32 lo = u16(F::template f<T>(T(a), T(b)));
        u32 hi = u16(F::template f<T>(T(a >> 16), T(b >> 16)));
        return lo | hi << 16;
    }
};
template <class F>
struct HalvesRelu {
    static ALWAYS_INLINE u32 f(u32 a, u32 b) {
        u32 r = Halves<i16, F>::f(a, b);
        return ((r & 0x8000U) ? 0 : r & 0xffffU) | ((r & 0x80000000U) ? 0 : r & 0xffff0000U);
    }
};
struct Relu2 {
    static ALWAYS_INLINE u32 f(u32 a) {
        return ((a & 0x8000U) ? 0 : a & 0xffffU) | ((a & 0x80000000U) ? 0 : a & 0xffff0000U);
    }
};
template <class T>
struct Sad {
    static ALWAYS_INLINE U<T> f(T a, T b, U<T> c) {
        return U<T>(c + (a < b ? U<T>(b) - U<T>(a) : U<T>(a) - U<T>(b)));
    }
};

// Carry chains. The carry of each lane lives in a predicate (i.guard is taken, so its offset is in imm).
template <class T, bool Subtract, bool CarryIn, bool CarryOut>
void add_carry(Warp& w, const Inst& i, u32 mask) {
    u32& cc = predicate(w, u32(i.imm));
    const T* a = slot<T>(w, i.a);
    const T* b = slot<T>(w, i.b);
    T* d = slot<T>(w, i.d);
    FOR_LANES(l, mask) {
        u128 x = a[l], y = Subtract ? T(~b[l]) : b[l];
        u32 in = CarryIn ? (cc >> l) & 1 : 0;
        // The device keeps a borrow as carry flag: subtraction adds the complement and 1 - borrow.
        u128 sum = x + y + (Subtract ? 1 - in : in);
        d[l] = T(sum);
        if (CarryOut) {
            u32 carry = u32(sum >> (sizeof(T) * 8)) & 1;
            cc = (cc & ~(1U << l)) | (Subtract ? carry ^ 1 : carry) << l;
        }
    }
}
template <class T, bool High, bool CarryIn, bool CarryOut>
void mad_carry(Warp& w, const Inst& i, u32 mask) {
    u32& cc = predicate(w, u32(i.imm));
    const T* a = slot<T>(w, i.a);
    const T* b = slot<T>(w, i.b);
    const T* c = slot<T>(w, i.c);
    T* d = slot<T>(w, i.d);
    FOR_LANES(l, mask) {
        W<T> product = W<T>(a[l]) * W<T>(b[l]);
        T part = High ? T(product >> (sizeof(T) * 8)) : T(product);
        u128 sum = u128(U<T>(part)) + U<T>(c[l]) + (CarryIn ? (cc >> l) & 1 : 0);
        d[l] = T(sum);
        if (CarryOut) cc = (cc & ~(1U << l)) | (u32(sum >> (sizeof(T) * 8)) & 1) << l;
    }
}

void mov_pred(Warp& w, const Inst& i, u32 mask) {
    write_predicate(w, i.d, predicate(w, i.a), mask);
}
void not_pred(Warp& w, const Inst& i, u32 mask) {
    write_predicate(w, i.d, ~predicate(w, i.a), mask);
}
void and_pred(Warp& w, const Inst& i, u32 mask) {
    write_predicate(w, i.d, predicate(w, i.a) & predicate(w, i.b), mask);
}
void or_pred(Warp& w, const Inst& i, u32 mask) {
    write_predicate(w, i.d, predicate(w, i.a) | predicate(w, i.b), mask);
}
void xor_pred(Warp& w, const Inst& i, u32 mask) {
    write_predicate(w, i.d, predicate(w, i.a) ^ predicate(w, i.b), mask);
}

/// {a0, a1, ..} -> d: the parts lie in list.
template <class Part, class D, int N>
void pack(Warp& w, const Inst& i, u32 mask) {
    Result<D> r(w, i.d, mask);
    for (int l = 0; l < kLanes; ++l) {
        D v = 0;
        for (int k = 0; k < N; ++k) v |= D(slot<Part>(w, i.list[k])[l]) << (k * int(sizeof(Part)) * 8);
        r.out[l] = v;
    }
}
template <class Part, class A, int N>
void unpack(Warp& w, const Inst& i, u32 mask) {
    alignas(64) A a[kLanes];
    for (int l = 0; l < kLanes; ++l) a[l] = slot<A>(w, i.a)[l];
    for (int k = 0; k < N; ++k) {
        if (i.list[k] == ~0U) continue;
        Result<Part> r(w, i.list[k], mask);
        for (int l = 0; l < kLanes; ++l) r.out[l] = Part(a[l] >> (k * int(sizeof(Part)) * 8));
    }
}

#define INT_OP2(name, F, T, suffix) \
    { name "." suffix, binary<F, T, T, T> }
#define INT_OPS(T, S)                                                                                    \
    INT_OP2("add", Add, T, S), INT_OP2("sub", Sub, T, S), INT_OP2("mul.lo", MulLo, T, S),                \
        INT_OP2("mul.hi", MulHi, T, S), INT_OP2("div", Div, T, S), INT_OP2("rem", Rem, T, S),            \
        INT_OP2("min", Min, T, S), INT_OP2("max", Max, T, S), {"mad.lo." S, ternary<MadLo, T, T, T, T>}, \
        {"mad.hi." S, ternary<MadHi, T, T, T, T>}, {                                                     \
        "sad." S, ternary<Sad<T>, U<T>, T, T, U<T>>                                                      \
    }
#define SIGNED_OPS(T, S)            \
    {"abs." S, unary<Abs, T, T>}, { \
        "neg." S, unary<Neg, T, T>  \
    }
#define WIDE_OPS(T, S)                                       \
    {"mul.wide." S, binary<MulWide<T>, W<T>, T, T>}, {       \
        "mad.wide." S, ternary<MadWide<T>, W<T>, T, T, W<T>> \
    }
#define CARRY_OPS(T, S)                                                                                  \
    {"add.cc." S, add_carry<T, false, false, true>}, {"addc." S, add_carry<T, false, true, false>},      \
        {"addc.cc." S, add_carry<T, false, true, true>}, {"sub.cc." S, add_carry<T, true, false, true>}, \
        {"subc." S, add_carry<T, true, true, false>}, {                                                  \
        "subc.cc." S, add_carry<T, true, true, true>                                                     \
    }
#define MADC_OPS(T, S)                                                                                     \
    {"mad.lo.cc." S, mad_carry<T, false, false, true>}, {"mad.hi.cc." S, mad_carry<T, true, false, true>}, \
        {"madc.lo." S, mad_carry<T, false, true, false>}, {"madc.hi." S, mad_carry<T, true, true, false>}, \
        {"madc.lo.cc." S, mad_carry<T, false, true, true>}, {                                              \
        "madc.hi.cc." S, mad_carry<T, true, true, true>                                                    \
    }

const TableEntry kEntries_[] = {
    INT_OPS(u16, "u16"),
    INT_OPS(i16, "s16"),
    INT_OPS(u32, "u32"),
    INT_OPS(i32, "s32"),
    INT_OPS(u64, "u64"),
    INT_OPS(i64, "s64"),
    SIGNED_OPS(i16, "s16"),
    SIGNED_OPS(i32, "s32"),
    SIGNED_OPS(i64, "s64"),
    WIDE_OPS(u16, "u16"),
    WIDE_OPS(i16, "s16"),
    WIDE_OPS(u32, "u32"),
    WIDE_OPS(i32, "s32"),
    CARRY_OPS(u32, "u32"),
    CARRY_OPS(u64, "u64"),
    MADC_OPS(u32, "u32"),
    MADC_OPS(i32, "s32"),
    MADC_OPS(u64, "u64"),
    MADC_OPS(i64, "s64"),
    {"mul.wide.u64", binary<MulWide<u64>, u128, u64, u64>},
    {"mul.wide.s64", binary<MulWide<i64>, i128, i64, i64>},
    {"add.sat.s32", binary<AddSat, i32, i32, i32>},
    {"sub.sat.s32", binary<SubSat, i32, i32, i32>},
    {"mad.hi.sat.s32", ternary<MadHiSat, i32, i32, i32, i32>},
    {"min.relu.s32", binary<MinRelu, i32, i32, i32>},
    {"max.relu.s32", binary<MaxRelu, i32, i32, i32>},
    {"mul24.lo.u32", binary<Mul24Lo, u32, u32, u32>},
    {"mul24.lo.s32", binary<Mul24Lo, i32, i32, i32>},
    {"mul24.hi.u32", binary<Mul24Hi, u32, u32, u32>},
    {"mul24.hi.s32", binary<Mul24Hi, i32, i32, i32>},
    {"mad24.lo.u32", ternary<Mad24Lo, u32, u32, u32, u32>},
    {"mad24.lo.s32", ternary<Mad24Lo, i32, i32, i32, i32>},
    {"mad24.hi.u32", ternary<Mad24Hi, u32, u32, u32, u32>},
    {"mad24.hi.s32", ternary<Mad24Hi, i32, i32, i32, i32>},
    {"mad24.hi.sat.s32", ternary<Mad24HiSat, i32, i32, i32, i32>},
    {"add.u16x2", binary<Halves<u16, Add>, u32, u32, u32>},
    {"add.s16x2", binary<Halves<i16, Add>, u32, u32, u32>},
    {"min.u16x2", binary<Halves<u16, Min>, u32, u32, u32>},
    {"min.s16x2", binary<Halves<i16, Min>, u32, u32, u32>},
    {"max.u16x2", binary<Halves<u16, Max>, u32, u32, u32>},
    {"max.s16x2", binary<Halves<i16, Max>, u32, u32, u32>},
    {"min.relu.s16x2", binary<HalvesRelu<Min>, u32, u32, u32>},
    {"max.relu.s16x2", binary<HalvesRelu<Max>, u32, u32, u32>},
    {"relu.s16x2", unary<Relu2, u32, u32>},
    {"mov.b16", unary<Move, u16, u16>},
    {"mov.b32", unary<Move, u32, u32>},
    {"mov.b64", unary<Move, u64, u64>},
    {"mov.b128", unary<Move, u128, u128>},
    {"mov.pred", mov_pred},
    {"not.pred", not_pred},
    {"and.pred", and_pred},
    {"or.pred", or_pred},
    {"xor.pred", xor_pred},
    {"pack.b16.b32.2", pack<u16, u32, 2>},
    {"pack.b16.b64.4", pack<u16, u64, 4>},
    {"pack.b32.b64.2", pack<u32, u64, 2>},
    {"pack.b64.b128.2", pack<u64, u128, 2>},
    {"pack.b32.b128.4", pack<u32, u128, 4>},
    {"unpack.b16.b32.2", unpack<u16, u32, 2>},
    {"unpack.b16.b64.4", unpack<u16, u64, 4>},
    {"unpack.b32.b64.2", unpack<u32, u64, 2>},
    {"unpack.b64.b128.2", unpack<u64, u128, 2>},
    {"unpack.b32.b128.4", unpack<u32, u128, 4>},
};

}  // namespace

extern const Table table_int;
const Table table_int{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
