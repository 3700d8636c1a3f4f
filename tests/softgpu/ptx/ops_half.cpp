// Arithmetic of f16 and bf16, scalar and in pairs.
#include "tests/softgpu/ptx/isa.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

struct Half {
    static constexpr u16 kExponent = 0x7c00, kOne = 0x3c00;
    static ALWAYS_INLINE float up(u16 v) { return half_to_float(v); }
    static ALWAYS_INLINE u16 down(float v) { return float_to_half(v); }
    static ALWAYS_INLINE u16 down(double v) { return double_to_half(v); }
};
struct Bf16 {
    static constexpr u16 kExponent = 0x7f80, kOne = 0x3f80;
    static ALWAYS_INLINE float up(u16 v) { return bf16_to_float(v); }
    static ALWAYS_INLINE u16 down(float v) { return float_to_bf16(v); }
    static ALWAYS_INLINE u16 down(double v) { return double_to_bf16(v); }
};
template <class T, bool Ftz>
ALWAYS_INLINE u16 flush16(u16 v) {
    if constexpr (Ftz) return (v & T::kExponent) == 0 ? u16(v & 0x8000) : v;
    return v;
}

// One rounding each: sums and products of 16-bit floats are exact or harmless in wider precision, and fma
// goes through a sum rounded to odd.
struct Add {
    template <class T>
    static ALWAYS_INLINE u16 f(u16 a, u16 b) {
        return T::down(T::up(a) + T::up(b));
    }
};
struct Sub {
    template <class T>
    static ALWAYS_INLINE u16 f(u16 a, u16 b) {
        return T::down(T::up(a) - T::up(b));
    }
};
struct Mul {
    template <class T>
    static ALWAYS_INLINE u16 f(u16 a, u16 b) {
        return T::down(double(T::up(a)) * double(T::up(b)));
    }
};
struct Fma {
    template <class T>
    static ALWAYS_INLINE u16 f(u16 a, u16 b, u16 c) {
        return T::down(add_odd(double(T::up(a)) * double(T::up(b)), double(T::up(c))));
    }
};
template <class T, bool Sat, bool Relu>
ALWAYS_INLINE u16 clamp16(u16 r) {
    if constexpr (Sat) {
        bool nan = (r & 0x7fff) > T::kExponent;
        return nan || (r & 0x8000) != 0 ? 0 : r > T::kOne ? T::kOne : r;
    }
    if constexpr (Relu) {
        bool nan = (r & 0x7fff) > T::kExponent;
        return nan ? u16(kNan16) : (r & 0x8000) != 0 ? u16(0) : r;
    }
    return r;
}
template <class F, class T, bool Ftz, bool Sat, bool Relu>
struct Scalar {
    template <class... A>
    static ALWAYS_INLINE u16 f(A... a) {
        return flush16<T, Ftz>(clamp16<T, Sat, Relu>(F::template f<T>(flush16<T, Ftz>(a)...)));
    }
};
template <class S>
struct Pair {
    template <class... A>
    static ALWAYS_INLINE u32 f(A... a) {
        return u32(S::f(u16(a)...)) | u32(S::f(u16(a >> 16)...)) << 16;
    }
};

template <class T, bool IsMax, bool Ftz, bool Nan, bool Xorsign>
struct MinMax {
    static ALWAYS_INLINE u16 f(u16 a, u16 b) {
        a = flush16<T, Ftz>(a), b = flush16<T, Ftz>(b);
        u16 sign = Xorsign ? u16((a ^ b) & 0x8000) : u16(0);
        if (Xorsign) a &= 0x7fff, b &= 0x7fff;
        float x = T::up(a), y = T::up(b);
        bool na = x != x, nb = y != y;
        if (Nan ? na || nb : na && nb) return kNan16;
        // -0 is below +0.
        bool first = IsMax ? x > y || (x == y && (a & 0x8000) == 0) : x < y || (x == y && (a & 0x8000) != 0);
        u16 r = na ? b : nb ? a : first ? a : b;
        return u16(r | sign);
    }
};
struct Abs {
    static ALWAYS_INLINE u16 f(u16 a) { return a & 0x7fff; }
};
struct Neg {
    static ALWAYS_INLINE u16 f(u16 a) { return a ^ 0x8000; }
};
template <class F, class T>
struct Flushed {
    static ALWAYS_INLINE u16 f(u16 a) { return F::f(flush16<T, true>(a)); }
};

#define BOTH2(name, t, ...)                                       \
    {name "." t, binary<__VA_ARGS__, u16, u16, u16>}, {           \
        name "." t "x2", binary<Pair<__VA_ARGS__>, u32, u32, u32> \
    }
#define BOTH3(name, t, ...)                                             \
    {name "." t, ternary<__VA_ARGS__, u16, u16, u16, u16>}, {           \
        name "." t "x2", ternary<Pair<__VA_ARGS__>, u32, u32, u32, u32> \
    }
#define BOTH1(name, t, ...)                                 \
    {name "." t, unary<__VA_ARGS__, u16, u16>}, {           \
        name "." t "x2", unary<Pair<__VA_ARGS__>, u32, u32> \
    }
#define ARITH(name, F, t, T, BOTH)                              \
    BOTH(name, t, Scalar<F, T, false, false, false>),           \
        BOTH(name ".ftz", t, Scalar<F, T, true, false, false>), \
        BOTH(name ".sat", t, Scalar<F, T, false, true, false>), \
        BOTH(name ".ftz.sat", t, Scalar<F, T, true, true, false>)
#define MINMAX(name, IsMax, t, T)                                            \
    BOTH2(name, t, MinMax<T, IsMax, false, false, false>),                   \
        BOTH2(name ".ftz", t, MinMax<T, IsMax, true, false, false>),         \
        BOTH2(name ".NaN", t, MinMax<T, IsMax, false, true, false>),         \
        BOTH2(name ".ftz.NaN", t, MinMax<T, IsMax, true, true, false>),      \
        BOTH2(name ".xorsign.abs", t, MinMax<T, IsMax, false, false, true>), \
        BOTH2(name ".NaN.xorsign.abs", t, MinMax<T, IsMax, false, true, true>)
#define ALL(t, T)                                                                                   \
    ARITH("add", Add, t, T, BOTH2), ARITH("sub", Sub, t, T, BOTH2), ARITH("mul", Mul, t, T, BOTH2), \
        ARITH("fma", Fma, t, T, BOTH3), BOTH3("fma.relu", t, Scalar<Fma, T, false, false, true>),   \
        BOTH3("fma.ftz.relu", t, Scalar<Fma, T, true, false, true>), MINMAX("min", false, t, T),    \
        MINMAX("max", true, t, T), BOTH1("abs", t, Abs), BOTH1("neg", t, Neg),                      \
        BOTH1("abs.ftz", t, Flushed<Abs, T>), BOTH1("neg.ftz", t, Flushed<Neg, T>)

const TableEntry kEntries_[] = {ALL("f16", Half), ALL("bf16", Bf16)};

}  // namespace

extern const Table table_half;
const Table table_half{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
