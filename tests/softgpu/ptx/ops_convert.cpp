// cvt between integer widths, between floats, and from floats to integers. Registers wider or narrower than
// the type are handled by the lowering with the ext.* steps. Integers to floats are in ops_round.cpp.
#include "tests/softgpu/ptx/isa.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

template <class D>
struct To {
    template <class S>
    static ALWAYS_INLINE D f(S a) {
        return D(a);
    }
};
/// Keep the low N bits, sign- or zero-extended to the register.
template <class Part>
struct Ext {
    template <class T>
    static ALWAYS_INLINE T f(T a) {
        return T(Part(a));
    }
};
template <class D>
constexpr bool kSignedType = D(-1) < D(0);
template <class D>
constexpr D kLowest = kSignedType<D> ? D(u64(1) << (sizeof(D) * 8 - 1)) : D(0);
template <class D>
constexpr D kHighest = D(~kLowest<D>);

/// Clamp to the range of D; the result keeps the source's width.
template <class D>
struct Clamp {
    template <class S>
    static ALWAYS_INLINE S f(S a) {
        i128 v = a;
        i128 lo = kLowest<D>, hi = kHighest<D>;
        return S(v < lo ? lo : v > hi ? hi : v);
    }
};

enum Round { kNearest, kZero, kDown, kUp };
template <int R>
ALWAYS_INLINE double integral(double x) {
#ifdef __SSE4_1__
    if constexpr (R == kNearest) return __builtin_rint(x);
    if constexpr (R == kZero) return __builtin_trunc(x);
    if constexpr (R == kDown) return __builtin_floor(x);
    return __builtin_ceil(x);
#endif
}
template <int R>
ALWAYS_INLINE float integral(float x) {
    if constexpr (R == kNearest) return __builtin_rintf(x);
    if constexpr (R == kZero) return __builtin_truncf(x);
    if constexpr (R == kDown) return __builtin_floorf(x);
    return __builtin_ceilf(x);
}
/// Float to integer, clamped. NaN gives 0, or the lowest/highest-bit pattern when either side has 64 bits.
template <class D, class S, int R>
struct ToInt {
    static ALWAYS_INLINE D f(S a) {
        constexpr bool wide = sizeof(S) == 8 || sizeof(D) == 8;
        S x = integral<R>(a);
        if constexpr (sizeof(D) < 4 || (sizeof(D) == 4 && sizeof(S) == 8 && kSignedType<D>)) {
            constexpr S lo = S(kLowest<D>), hi = S(kHighest<D>);
            S v = x < lo ? lo : x > hi ? hi : x;
            v = x == x ? v : S(0);
            D r = D(i32(v));
            return wide && x != x ? D(u64(1) << (sizeof(D) * 8 - 1)) : r;
        } else if constexpr (sizeof(D) == 4 && kSignedType<D>) {
            bool high = x >= S(2147483648.0), low = x < S(-2147483648.0);
            S v = high || low || x != x ? S(0) : x;
            return high ? kHighest<D> : low ? kLowest<D> : D(v);
        } else {
            constexpr S top = sizeof(D) == 4   ? S(4294967296.0)
                              : kSignedType<D> ? S(9223372036854775808.0)
                                               : S(18446744073709551616.0);
            constexpr S bottom = kSignedType<D> ? S(-9223372036854775808.0) : S(0);
            if (x != x) return wide ? D(u64(1) << (sizeof(D) * 8 - 1)) : D(0);
            if (x >= top) return kHighest<D>;
            if (x < bottom) return kLowest<D>;
            return D(x);
        }
    }
};
template <int R>
struct Integral {
    template <class T>
    static ALWAYS_INLINE T f(T a) {
        return canonical(integral<R>(a));
    }
};
template <class F, bool Ftz, bool Sat>
struct FloatOf {
    static ALWAYS_INLINE float f(float a) {
        float r = F::f(flush_if<Ftz>(a));
        if constexpr (Sat) r = saturate(r);
        return flush_if<Ftz>(r);
    }
    static ALWAYS_INLINE double f(double a) {
        double r = F::f(a);
        if constexpr (Sat) r = saturate(r);
        return r;
    }
};
struct Same {
    template <class T>
    static ALWAYS_INLINE T f(T a) {
        return canonical(a);
    }
};

template <bool Ftz, bool Sat>
struct Widen {
    static ALWAYS_INLINE double f(float a) {
        double r = canonical(double(flush_if<Ftz>(a)));
        return Sat ? saturate(r) : r;
    }
};

// Narrow formats. Rounding towards zero of a half: drop bits of the magnitude.
ALWAYS_INLINE u16 half_toward_zero(float x) {
    u32 b = bits_as<u32>(x), a = b & 0x7fffffffU;
    u32 sign = (b >> 16) & 0x8000U;
    if (a > 0x7f800000U) return kNan16;
    if (a == 0x7f800000U) return u16(sign | 0x7c00U);
    if (a >= 0x47800000U) return u16(sign | 0x7bffU);
    if (a >= 0x38800000U) return u16(sign | ((a - 0x38000000U) >> 13));
    u32 shift = 126 - (a >> 23);  // 2^-14 has exponent field 113: 13 + 1 bits
    u32 m = (a & 0x7fffffU) | 0x800000U;
    return u16(sign | (shift > 24 ? 0 : m >> shift));
}
ALWAYS_INLINE u16 bf16_toward_zero(float x) {
    u32 b = bits_as<u32>(x);
    return (b & 0x7fffffffU) > 0x7f800000U ? u16(0x7fff) : u16(b >> 16);
}
/// Towards one infinity: one step up in magnitude from the cut value when something was cut off.
template <int Format, bool Up>
struct NarrowDirected {
    static ALWAYS_INLINE u16 f(float a) {
        u16 h = Format == 0 ? half_toward_zero(a) : bf16_toward_zero(a);
        float back = Format == 0 ? half_to_float(h) : bf16_to_float(h);
        bool away = back != a && a == a && ((bits_as<u32>(a) >> 31) == 0) == Up;
        return away ? u16(h + 1) : h;
    }
};
template <int Format, bool Rz, bool Relu, bool Finite>
struct Narrow16 {
    static ALWAYS_INLINE u16 f(float a) {
        u16 h;
        if constexpr (Format == 0)
            h = Rz ? half_toward_zero(a) : float_to_half(a);
        else
            h = Rz ? bf16_toward_zero(a) : float_to_bf16(a);
        constexpr u16 inf = Format == 0 ? 0x7c00 : 0x7f80;
        if constexpr (Finite) h = (h & 0x7fff) == inf ? u16(h - 1) : h;
        if constexpr (Relu) h = (h & 0x8000) ? 0 : h;
        return h;
    }
};
template <int Format>
struct Narrow16Sat {
    static ALWAYS_INLINE u16 f(float a) {
        return Format == 0 ? float_to_half(saturate(a)) : float_to_bf16(saturate(a));
    }
};
template <class N>
struct Pack16 {  // a goes to the upper half
    static ALWAYS_INLINE u32 f(float a, float b) { return u32(N::f(a)) << 16 | N::f(b); }
};
struct HalfUp {
    static ALWAYS_INLINE float f(u16 a) { return canonical(half_to_float(a)); }
};
struct Bf16Up {
    static ALWAYS_INLINE float f(u16 a) { return canonical(bf16_to_float(a)); }
};
struct HalfFromDouble {
    static ALWAYS_INLINE u16 f(double a) { return double_to_half(a); }
};
struct Bf16FromDouble {
    static ALWAYS_INLINE u16 f(double a) { return double_to_bf16(a); }
};
/// To tf32: 10 mantissa bits, nearest with ties away.
struct Tf32 {
    static ALWAYS_INLINE u32 f(u32 b) {
        if ((b & 0x7fffffffU) > 0x7f800000U) return kNan32;
        if ((b & 0x7f800000U) == 0x7f800000U) return b;
        return (b + 0x1000U) & 0xffffe000U;
    }
};
struct Tf32Even {
    static ALWAYS_INLINE u32 f(u32 b) {
        if ((b & 0x7fffffffU) > 0x7f800000U) return kNan32;
        if ((b & 0x7f800000U) == 0x7f800000U) return b;
        return (b + 0xfffU + ((b >> 13) & 1)) & 0xffffe000U;
    }
};

// 8-bit floats: e4m3 (bias 7, no infinity, NaN 0x7f) and e5m2 (bias 15). Always to nearest even, clamped to
// finite.
template <int Exp, int Man>
ALWAYS_INLINE u32 to_fp8(float x) {
    constexpr int bias = (1 << (Exp - 1)) - 1;
    constexpr u32 top = Exp == 4 ? 0x7e : 0x7b;
    u32 b = bits_as<u32>(x), sign = (b >> 24) & 0x80U, a = b & 0x7fffffffU;
    if (a > 0x7f800000U) return 0x7f;
    int e = int(a >> 23) - 127 + bias;
    u32 m = (a & 0x7fffffU) | 0x800000U;
    int shift = 23 - Man;
    if (e < 1) shift += 1 - e, e = 1;
    if (shift > 31) return sign;
    u32 q = m >> shift, rest = m & ((1U << shift) - 1), half = 1U << (shift - 1);
    if (rest > half || (rest == half && (q & 1) != 0)) ++q;
    u32 r = q + (u32(e - 1) << Man);
    return sign | (e > 31 || r > top ? top : r);
}
template <int Exp, int Man>
ALWAYS_INLINE float from_fp8(u32 v) {
    constexpr int bias = (1 << (Exp - 1)) - 1;
    u32 sign = (v & 0x80U) << 24, e = (v >> Man) & ((1U << Exp) - 1), m = v & ((1U << Man) - 1);
    if (Exp == 4 && (v & 0x7f) == 0x7f) return bits_as<float>(kNan32);
    if (Exp == 5 && e == 31) return m ? bits_as<float>(kNan32) : bits_as<float>(sign | 0x7f800000U);
    if (e == 0) {
        float f = float(int(m));
        u32 scale = u32(127 + 1 - bias - Man) << 23;
        return bits_as<float>(bits_as<u32>(f * bits_as<float>(scale)) | sign);
    }
    return bits_as<float>(sign | (e + u32(127 - bias)) << 23 | m << (23 - Man));
}
template <int Exp, int Man, bool Relu>
struct Fp8Pair {
    static ALWAYS_INLINE u16 f(float a, float b) {
        u32 x = to_fp8<Exp, Man>(a), y = to_fp8<Exp, Man>(b);
        if (Relu) x = x & 0x80 ? 0 : x, y = y & 0x80 ? 0 : y;
        return u16(x << 8 | y);
    }
};
template <int Exp, int Man, bool Relu>
struct Fp8FromHalves {
    static ALWAYS_INLINE u16 f(u32 a) {
        return Fp8Pair<Exp, Man, Relu>::f(half_to_float(u16(a >> 16)), half_to_float(u16(a)));
    }
};
template <int Exp, int Man, bool Relu>
struct Fp8ToHalves {
    static ALWAYS_INLINE u32 f(u16 a) {
        u32 hi = float_to_half(from_fp8<Exp, Man>(a >> 8)), lo = float_to_half(from_fp8<Exp, Man>(a & 0xff));
        if (Relu) hi = hi & 0x8000 ? 0 : hi, lo = lo & 0x8000 ? 0 : lo;
        return hi << 16 | lo;
    }
};

/// cvt.pack.sat: two s32 clamped and packed, the older contents c shifted up.
template <class D, int Bits>
struct CvtPack {
    static ALWAYS_INLINE u32 clamp(i32 v) {
        i64 lo = D(-1) < D(0) ? -(i64(1) << (Bits - 1)) : 0;
        i64 hi = D(-1) < D(0) ? (i64(1) << (Bits - 1)) - 1 : (i64(1) << Bits) - 1;
        return u32(u64(v < lo ? lo : v > hi ? hi : i64(v))) & ((1U << Bits) - 1);
    }
    static ALWAYS_INLINE u32 f(i32 a, i32 b) { return clamp(a) << Bits | clamp(b); }
    static ALWAYS_INLINE u32 f(i32 a, i32 b, u32 c) {
        return u32(u64(c) << (2 * Bits)) | clamp(a) << Bits | clamp(b);
    }
};

#define RESIZE(S, s)                                                                \
    {"cvt.b16." s, unary<To<u16>, u16, S>}, {"cvt.b32." s, unary<To<u32>, u32, S>}, \
        {"cvt.b64." s, unary<To<u64>, u64, S>}, {                                   \
        "cvt.b128." s, unary<To<u128>, u128, S>                                     \
    }
#define EXT(T, t)                                                                     \
    {"ext.u8." t, unary<Ext<u8>, T, T>}, {"ext.s8." t, unary<Ext<i8>, T, T>},         \
        {"ext.u16." t, unary<Ext<u16>, T, T>}, {"ext.s16." t, unary<Ext<i16>, T, T>}, \
        {"ext.u32." t, unary<Ext<u32>, T, T>}, {                                      \
        "ext.s32." t, unary<Ext<i32>, T, T>                                           \
    }
#define CLAMPS(D, d)                                                                                    \
    {"clamp." d ".u16", unary<Clamp<D>, u16, u16>}, {"clamp." d ".s16", unary<Clamp<D>, i16, i16>},     \
        {"clamp." d ".u32", unary<Clamp<D>, u32, u32>}, {"clamp." d ".s32", unary<Clamp<D>, i32, i32>}, \
        {"clamp." d ".u64", unary<Clamp<D>, u64, u64>}, {                                               \
        "clamp." d ".s64", unary<Clamp<D>, i64, i64>                                                    \
    }
#define TO_INT(D, d)                                                         \
    {"cvt.rni." d ".f32", unary<ToInt<D, float, kNearest>, D, float>},       \
        {"cvt.rzi." d ".f32", unary<ToInt<D, float, kZero>, D, float>},      \
        {"cvt.rmi." d ".f32", unary<ToInt<D, float, kDown>, D, float>},      \
        {"cvt.rpi." d ".f32", unary<ToInt<D, float, kUp>, D, float>},        \
        {"cvt.rni." d ".f64", unary<ToInt<D, double, kNearest>, D, double>}, \
        {"cvt.rzi." d ".f64", unary<ToInt<D, double, kZero>, D, double>},    \
        {"cvt.rmi." d ".f64", unary<ToInt<D, double, kDown>, D, double>}, {  \
        "cvt.rpi." d ".f64", unary<ToInt<D, double, kUp>, D, double>         \
    }
/// 8-bit results keep a 16-bit register.
#define TO_INT8(D, d)                                                          \
    {"cvt.rni." d ".f32", unary<ToInt<D, float, kNearest>, u16, float>},       \
        {"cvt.rzi." d ".f32", unary<ToInt<D, float, kZero>, u16, float>},      \
        {"cvt.rmi." d ".f32", unary<ToInt<D, float, kDown>, u16, float>},      \
        {"cvt.rpi." d ".f32", unary<ToInt<D, float, kUp>, u16, float>},        \
        {"cvt.rni." d ".f64", unary<ToInt<D, double, kNearest>, u16, double>}, \
        {"cvt.rzi." d ".f64", unary<ToInt<D, double, kZero>, u16, double>},    \
        {"cvt.rmi." d ".f64", unary<ToInt<D, double, kDown>, u16, double>}, {  \
        "cvt.rpi." d ".f64", unary<ToInt<D, double, kUp>, u16, double>         \
    }
#define SAME_FLOAT(T, t, Ftz, ftz)                                                            \
    {"cvt" ftz "." t "." t, unary<FloatOf<Same, Ftz, false>, T, T>},                          \
        {"cvt" ftz ".sat." t "." t, unary<FloatOf<Same, Ftz, true>, T, T>},                   \
        {"cvt.rni" ftz "." t "." t, unary<FloatOf<Integral<kNearest>, Ftz, false>, T, T>},    \
        {"cvt.rzi" ftz "." t "." t, unary<FloatOf<Integral<kZero>, Ftz, false>, T, T>},       \
        {"cvt.rmi" ftz "." t "." t, unary<FloatOf<Integral<kDown>, Ftz, false>, T, T>},       \
        {"cvt.rpi" ftz "." t "." t, unary<FloatOf<Integral<kUp>, Ftz, false>, T, T>},         \
        {"cvt.rni" ftz ".sat." t "." t, unary<FloatOf<Integral<kNearest>, Ftz, true>, T, T>}, \
        {"cvt.rzi" ftz ".sat." t "." t, unary<FloatOf<Integral<kZero>, Ftz, true>, T, T>},    \
        {"cvt.rmi" ftz ".sat." t "." t, unary<FloatOf<Integral<kDown>, Ftz, true>, T, T>}, {  \
        "cvt.rpi" ftz ".sat." t "." t, unary<FloatOf<Integral<kUp>, Ftz, true>, T, T>         \
    }
#define NARROW(F, f)                                                                                       \
    {"cvt.rn." f ".f32", unary<Narrow16<F, false, false, false>, u16, float>},                             \
        {"cvt.rm." f ".f32", unary<NarrowDirected<F, false>, u16, float>},                                 \
        {"cvt.rp." f ".f32", unary<NarrowDirected<F, true>, u16, float>},                                  \
        {"cvt.rz." f ".f32", unary<Narrow16<F, true, false, false>, u16, float>},                          \
        {"cvt.rn.relu." f ".f32", unary<Narrow16<F, false, true, false>, u16, float>},                     \
        {"cvt.rz.relu." f ".f32", unary<Narrow16<F, true, true, false>, u16, float>},                      \
        {"cvt.rn.satfinite." f ".f32", unary<Narrow16<F, false, false, true>, u16, float>},                \
        {"cvt.rn.sat." f ".f32", unary<Narrow16Sat<F>, u16, float>},                                       \
        {"cvt.rn." f "x2.f32", binary<Pack16<Narrow16<F, false, false, false>>, u32, float, float>},       \
        {"cvt.rz." f "x2.f32", binary<Pack16<Narrow16<F, true, false, false>>, u32, float, float>},        \
        {"cvt.rn.relu." f "x2.f32", binary<Pack16<Narrow16<F, false, true, false>>, u32, float, float>},   \
        {"cvt.rz.relu." f "x2.f32", binary<Pack16<Narrow16<F, true, true, false>>, u32, float, float>}, {  \
        "cvt.rn.satfinite." f "x2.f32", binary<Pack16<Narrow16<F, false, false, true>>, u32, float, float> \
    }
#define FP8(E, M, f)                                                                           \
    {"cvt.rn.satfinite." f "x2.f32", binary<Fp8Pair<E, M, false>, u16, float, float>},         \
        {"cvt.rn.satfinite.relu." f "x2.f32", binary<Fp8Pair<E, M, true>, u16, float, float>}, \
        {"cvt.rn.satfinite." f "x2.f16x2", unary<Fp8FromHalves<E, M, false>, u16, u32>},       \
        {"cvt.rn.satfinite.relu." f "x2.f16x2", unary<Fp8FromHalves<E, M, true>, u16, u32>},   \
        {"cvt.rn.f16x2." f "x2", unary<Fp8ToHalves<E, M, false>, u32, u16>}, {                 \
        "cvt.rn.relu.f16x2." f "x2", unary<Fp8ToHalves<E, M, true>, u32, u16>                  \
    }
#define PACKS(D, d, Bits)                                                           \
    {"cvt.pack.sat." d ".s32", binary<CvtPack<D, Bits>, u32, i32, i32>}, {          \
        "cvt.pack.sat." d ".s32.b32", ternary<CvtPack<D, Bits>, u32, i32, i32, u32> \
    }

const TableEntry kEntries_[] = {
    RESIZE(u16, "u16"),
    RESIZE(i16, "s16"),
    RESIZE(u32, "u32"),
    RESIZE(i32, "s32"),
    RESIZE(u64, "u64"),
    RESIZE(i64, "s64"),
    RESIZE(u128, "b128"),
    EXT(u16, "b16"),
    EXT(u32, "b32"),
    EXT(u64, "b64"),
    CLAMPS(u8, "u8"),
    CLAMPS(i8, "s8"),
    CLAMPS(u16, "u16"),
    CLAMPS(i16, "s16"),
    CLAMPS(u32, "u32"),
    CLAMPS(i32, "s32"),
    CLAMPS(u64, "u64"),
    CLAMPS(i64, "s64"),
    TO_INT8(u8, "u8"),
    TO_INT8(i8, "s8"),
    TO_INT(u16, "u16"),
    TO_INT(i16, "s16"),
    TO_INT(u32, "u32"),
    TO_INT(i32, "s32"),
    TO_INT(u64, "u64"),
    TO_INT(i64, "s64"),
    SAME_FLOAT(float, "f32", false, ""),
    SAME_FLOAT(float, "f32", true, ".ftz"),
    SAME_FLOAT(double, "f64", false, ""),
    {"cvt.f64.f32", unary<Widen<false, false>, double, float>},
    {"cvt.ftz.f64.f32", unary<Widen<true, false>, double, float>},
    {"cvt.sat.f64.f32", unary<Widen<false, true>, double, float>},
    {"cvt.ftz.sat.f64.f32", unary<Widen<true, true>, double, float>},
    NARROW(0, "f16"),
    NARROW(1, "bf16"),
    {"cvt.f32.f16", unary<HalfUp, float, u16>},
    {"cvt.f32.bf16", unary<Bf16Up, float, u16>},
    {"cvt.rn.f16.f64", unary<HalfFromDouble, u16, double>},
    {"cvt.rn.bf16.f64", unary<Bf16FromDouble, u16, double>},
    {"cvt.rna.tf32.f32", unary<Tf32, u32, u32>},
    {"cvt.rn.tf32.f32", unary<Tf32Even, u32, u32>},
    FP8(4, 3, "e4m3"),
    FP8(5, 2, "e5m2"),
    PACKS(u16, "u16", 16),
    PACKS(i16, "s16", 16),
    PACKS(u8, "u8", 8),
    PACKS(i8, "s8", 8),
    PACKS(u8, "u4", 4),
    PACKS(i8, "s4", 4),
    PACKS(u8, "u2", 2),
    PACKS(i8, "s2", 2),
};

}  // namespace

extern const Table table_convert;
const Table table_convert{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
