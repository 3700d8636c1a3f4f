// Single and double precision arithmetic, round to nearest. Other roundings are in ops_round.cpp.
#include "tests/softgpu/ptx/isa.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

ALWAYS_INLINE float fused(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
ALWAYS_INLINE double fused(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}
ALWAYS_INLINE float root(float a) {
    return __builtin_sqrtf(a);
}
ALWAYS_INLINE double root(double a) {
    return __builtin_sqrt(a);
}

struct Add {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a + b;
    }
};
struct Sub {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a - b;
    }
};
struct Mul {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a * b;
    }
};
struct Div {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a / b;
    }
};
struct Fma {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b, T c) {
        return fused(a, b, c);
    }
};
struct Rcp {
    template <class T>
    static ALWAYS_INLINE T f(T a) {
        return T(1) / a;
    }
};
struct Sqrt {
    template <class T>
    static ALWAYS_INLINE T f(T a) {
        return root(a);
    }
};
struct Rsqrt {  // through double precision: within half an ulp and a bit of the true value, whatever the
                // machine
    static ALWAYS_INLINE float f(float a) { return float(1.0 / root(double(a))); }
    static ALWAYS_INLINE double f(double a) { return 1.0 / root(a); }
};

/// Arithmetic with .ftz (inputs and result) and .sat.
template <class F, class T, bool Ftz, bool Sat>
struct Arith {
    template <class... A>
    static ALWAYS_INLINE T f(A... a) {
        T r = F::f(flush_if<Ftz>(a)...);
        if constexpr (Sat)
            r = saturate(r);
        else
            r = canonical(r);
        return flush_if<Ftz>(r);
    }
};

/// The quotient of a float division with flushed operands is not flushed wrongly: b / huge keeps its sign.
template <class T>
struct Identity {
    static ALWAYS_INLINE T f(T a) { return a; }
};

// min, max: a NaN loses against a number; -0 is below +0.
template <class T>
ALWAYS_INLINE bool negative(T x) {
    return __builtin_signbit(x);
}
ALWAYS_INLINE bool negative(float x) {
    return (bits_as<u32>(x) >> 31) != 0;
}
ALWAYS_INLINE bool negative(double x) {
    return (bits_as<u64>(x) >> 63) != 0;
}
template <bool Nan, bool Xorsign, bool Abs, bool IsMax>
struct MinMax {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        bool sign = false;
        if constexpr (Xorsign) sign = negative(a) != negative(b);
        if constexpr (Abs || Xorsign) a = __builtin_fabs(a), b = __builtin_fabs(b);
        T r;
        if constexpr (IsMax)
            r = a > b ? a : b > a ? b : negative(a) ? b : a;
        else
            r = a < b ? a : b < a ? b : negative(a) ? a : b;
        bool na = a != a, nb = b != b;
        r = na ? b : nb ? a : r;
        if (Nan ? na || nb : na && nb) r = canonical(T(__builtin_nan("")));
        if constexpr (Xorsign) {
            if (r == r) r = sign ? -r : r;
        }
        return r;
    }
};
template <class F, bool Ftz>
struct Plain {  // no NaN rewriting: F does it
    template <class... A>
    static ALWAYS_INLINE auto f(A... a) {
        return F::f(flush_if<Ftz>(a)...);
    }
};
template <bool IsMax, bool Nan>
struct MinMax3 {
    static ALWAYS_INLINE float f(float a, float b, float c) {
        return MinMax<Nan, false, false, IsMax>::f(MinMax<Nan, false, false, IsMax>::f(a, b), c);
    }
};
struct Abs {
    static ALWAYS_INLINE float f(float a) { return bits_as<float>(bits_as<u32>(a) & 0x7fffffffU); }
    static ALWAYS_INLINE double f(double a) { return bits_as<double>(bits_as<u64>(a) & ~(u64(1) << 63)); }
};
struct Neg {
    static ALWAYS_INLINE float f(float a) { return bits_as<float>(bits_as<u32>(a) ^ 0x80000000U); }
    static ALWAYS_INLINE double f(double a) { return bits_as<double>(bits_as<u64>(a) ^ (u64(1) << 63)); }
};
struct Copysign {  // sign of a on the value of b
    static ALWAYS_INLINE u32 f(u32 a, u32 b) { return (a & 0x80000000U) | (b & 0x7fffffffU); }
    static ALWAYS_INLINE u64 f(u64 a, u64 b) {
        constexpr u64 s = u64(1) << 63;
        return (a & s) | (b & ~s);
    }
};

template <class F, class T>
struct PairOf {  // f32x2
    static ALWAYS_INLINE u64 f(u64 a, u64 b) {
        u32 lo = bits_as<u32>(F::f(bits_as<float>(u32(a)), bits_as<float>(u32(b))));
        u32 hi = bits_as<u32>(F::f(bits_as<float>(u32(a >> 32)), bits_as<float>(u32(b >> 32))));
        return u64(hi) << 32 | lo;
    }
    static ALWAYS_INLINE u64 f(u64 a, u64 b, u64 c) {
        u32 lo = bits_as<u32>(F::f(bits_as<float>(u32(a)), bits_as<float>(u32(b)), bits_as<float>(u32(c))));
        u32 hi = bits_as<u32>(
            F::f(bits_as<float>(u32(a >> 32)), bits_as<float>(u32(b >> 32)), bits_as<float>(u32(c >> 32))));
        return u64(hi) << 32 | lo;
    }
};

/// testp: a class of numbers to a predicate.
template <class T, class U, int Mantissa, int What>
void testp(Warp& w, const Inst& i, u32 mask) {
    const U* a = slot<U>(w, i.a);
    constexpr U sign = U(1) << (sizeof(U) * 8 - 1);
    [[maybe_unused]] constexpr U inf = (sign - 1) & ~((U(1) << Mantissa) - 1);
    u32 r = lane_mask<sizeof(U)>([&](int l) {
        U v = a[l] & ~sign;
        if constexpr (What == 0)
            return v < inf;  // finite
        else if constexpr (What == 1)
            return v == inf;  // infinite
        else if constexpr (What == 2)
            return v <= inf;  // number
        else if constexpr (What == 3)
            return v > inf;  // notanumber
        else if constexpr (What == 4)
            return v < inf && v >= (U(1) << Mantissa);  // normal
        else
            return v != 0 && v < (U(1) << Mantissa);  // subnormal
    });
    write_predicate(w, i.d, r, mask);
}

#define ARITH2(name, F, T, S, Ftz, Sat) \
    { name S, binary<Arith<F, T, Ftz, Sat>, T, T, T> }
#define ARITH3(name, F, T, S, Ftz, Sat) \
    { name S, ternary<Arith<F, T, Ftz, Sat>, T, T, T, T> }
#define ARITH1(name, F, T, S, Ftz) \
    { name S, unary<Arith<F, T, Ftz, false>, T, T> }
#define F32_MODES2(name, F)                                                                        \
    ARITH2(name, F, float, ".f32", false, false), ARITH2(name, F, float, ".ftz.f32", true, false), \
        ARITH2(name, F, float, ".sat.f32", false, true), ARITH2(name, F, float, ".ftz.sat.f32", true, true)
#define F32_MODES3(name, F)                                                                        \
    ARITH3(name, F, float, ".f32", false, false), ARITH3(name, F, float, ".ftz.f32", true, false), \
        ARITH3(name, F, float, ".sat.f32", false, true), ARITH3(name, F, float, ".ftz.sat.f32", true, true)
#define MINMAX(name, IsMax)                                                                                 \
    {name ".f32", binary<Plain<MinMax<false, false, false, IsMax>, false>, float, float, float>},           \
        {name ".ftz.f32", binary<Plain<MinMax<false, false, false, IsMax>, true>, float, float, float>},    \
        {name ".NaN.f32", binary<Plain<MinMax<true, false, false, IsMax>, false>, float, float, float>},    \
        {name ".ftz.NaN.f32", binary<Plain<MinMax<true, false, false, IsMax>, true>, float, float, float>}, \
        {name ".xorsign.abs.f32",                                                                           \
         binary<Plain<MinMax<false, true, true, IsMax>, false>, float, float, float>},                      \
        {name ".ftz.xorsign.abs.f32",                                                                       \
         binary<Plain<MinMax<false, true, true, IsMax>, true>, float, float, float>},                       \
        {name ".NaN.xorsign.abs.f32",                                                                       \
         binary<Plain<MinMax<true, true, true, IsMax>, false>, float, float, float>},                       \
        {name ".ftz.NaN.xorsign.abs.f32",                                                                   \
         binary<Plain<MinMax<true, true, true, IsMax>, true>, float, float, float>},                        \
        {name ".f64", binary<Plain<MinMax<false, false, false, IsMax>, false>, double, double, double>},    \
        {name "3.f32", ternary<Plain<MinMax3<IsMax, false>, false>, float, float, float, float>},           \
        {name "3.ftz.f32", ternary<Plain<MinMax3<IsMax, false>, true>, float, float, float, float>},        \
        {name "3.NaN.f32", ternary<Plain<MinMax3<IsMax, true>, false>, float, float, float, float>}, {      \
        name "3.ftz.NaN.f32", ternary<Plain<MinMax3<IsMax, true>, true>, float, float, float, float>        \
    }
#define TESTP(name, What)                                  \
    {"testp." name ".f32", testp<float, u32, 23, What>}, { \
        "testp." name ".f64", testp<double, u64, 52, What> \
    }

const TableEntry kEntries_[] = {
    F32_MODES2("add", Add),
    F32_MODES2("sub", Sub),
    F32_MODES2("mul", Mul),
    F32_MODES3("fma", Fma),
    ARITH2("div", Div, float, ".f32", false, false),
    ARITH2("div", Div, float, ".ftz.f32", true, false),
    ARITH1("rcp", Rcp, float, ".f32", false),
    ARITH1("rcp", Rcp, float, ".ftz.f32", true),
    ARITH1("sqrt", Sqrt, float, ".f32", false),
    ARITH1("sqrt", Sqrt, float, ".ftz.f32", true),
    ARITH1("rsqrt", Rsqrt, float, ".f32", false),
    ARITH1("rsqrt", Rsqrt, float, ".ftz.f32", true),
    ARITH2("add", Add, double, ".f64", false, false),
    ARITH2("sub", Sub, double, ".f64", false, false),
    ARITH2("mul", Mul, double, ".f64", false, false),
    ARITH2("div", Div, double, ".f64", false, false),
    ARITH3("fma", Fma, double, ".f64", false, false),
    ARITH1("rcp", Rcp, double, ".f64", false),
    ARITH1("sqrt", Sqrt, double, ".f64", false),
    ARITH1("rsqrt", Rsqrt, double, ".f64", false),
    MINMAX("min", false),
    MINMAX("max", true),
    {"abs.f32", unary<Abs, float, float>},
    {"abs.ftz.f32", unary<Plain<Abs, true>, float, float>},
    {"abs.f64", unary<Abs, double, double>},
    {"neg.f32", unary<Neg, float, float>},
    {"neg.ftz.f32", unary<Plain<Neg, true>, float, float>},
    {"neg.f64", unary<Neg, double, double>},
    {"flush.f32", unary<Plain<Identity<float>, true>, float, float>},
    {"copysign.f32", binary<Copysign, u32, u32, u32>},
    {"copysign.f64", binary<Copysign, u64, u64, u64>},
    {"add.f32x2", binary<PairOf<Arith<Add, float, false, false>, float>, u64, u64, u64>},
    {"mul.f32x2", binary<PairOf<Arith<Mul, float, false, false>, float>, u64, u64, u64>},
    {"fma.f32x2", ternary<PairOf<Arith<Fma, float, false, false>, float>, u64, u64, u64, u64>},
    TESTP("finite", 0),
    TESTP("infinite", 1),
    TESTP("number", 2),
    TESTP("notanumber", 3),
    TESTP("normal", 4),
    TESTP("subnormal", 5),
};

}  // namespace

extern const Table table_float;
const Table table_float{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
