// The approximate functions. Computed in double precision and rounded once, so better than the device
// promises and the same everywhere.
#include "tests/softgpu/ptx/isa.h"

extern "C" {
double exp2(double) noexcept;
double log2(double) noexcept;
double sin(double) noexcept;
double cos(double) noexcept;
double tanh(double) noexcept;
}

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

/// 2^x for float arguments: split at the nearest integer, degree-11 Taylor sum of exp(r ln 2), |r| <= 1/2.
/// Truncation is below 1e-14 of the value, so the rounded float is right but for near-ties.
struct Ex2 {
    static ALWAYS_INLINE float f(float a) {
        double x = double(a);
        double clamped = x > 200.0 ? 200.0 : x < -200.0 ? -200.0 : x;
        clamped = x == x ? clamped : 0.0;
        double whole = (clamped + 6755399441055744.0) - 6755399441055744.0;  // 1.5 * 2^52: to nearest integer
        double r = (clamped - whole) * 0.69314718055994530942;
        double p = 1.0 / 39916800;
        p = p * r + 1.0 / 3628800, p = p * r + 1.0 / 362880, p = p * r + 1.0 / 40320, p = p * r + 1.0 / 5040;
        p = p * r + 1.0 / 720, p = p * r + 1.0 / 120, p = p * r + 1.0 / 24, p = p * r + 1.0 / 6;
        p = p * r + 0.5, p = p * r + 1.0, p = p * r + 1.0;
        u64 shift = u64(i64(i32(whole))) << 52;
        double v = bits_as<double>(bits_as<u64>(p) + shift);
        return x == x ? float(v) : bits_as<float>(kNan32);
    }
};
struct Lg2 {
    static ALWAYS_INLINE float f(float a) { return canonical(float(log2(double(a)))); }
};
struct Sin {
    static ALWAYS_INLINE float f(float a) { return canonical(float(sin(double(a)))); }
};
struct Cos {
    static ALWAYS_INLINE float f(float a) { return canonical(float(cos(double(a)))); }
};
struct Tanh {
    static ALWAYS_INLINE float f(float a) { return canonical(float(tanh(double(a)))); }
};
template <class F>
struct Flushed {
    static ALWAYS_INLINE float f(float a) { return flush(F::f(flush(a))); }
};
template <class F>
struct HalfOf {
    static ALWAYS_INLINE u16 f(u16 a) { return float_to_half(F::f(half_to_float(a))); }
};
template <class F>
struct Bf16Of {
    static ALWAYS_INLINE u16 f(u16 a) { return float_to_bf16(F::f(bf16_to_float(a))); }
};
template <class F>
struct Both {
    static ALWAYS_INLINE u32 f(u32 a) { return u32(F::f(u16(a))) | u32(F::f(u16(a >> 16))) << 16; }
};
/// rcp.approx.ftz.f64, rsqrt.approx.ftz.f64: only the upper half of the result counts.
struct Rcp64 {
    static ALWAYS_INLINE double f(double a) {
        u64 b = bits_as<u64>(1.0 / a);
        return canonical(bits_as<double>(b & 0xffffffff00000000ULL));
    }
};
struct Rsqrt64 {
    static ALWAYS_INLINE double f(double a) {
        u64 b = bits_as<u64>(1.0 / __builtin_sqrt(a));
        return canonical(bits_as<double>(b & 0xffffffff00000000ULL));
    }
};

#define BOTH_MODES(name, F)                              \
    {name ".f32", unary<F, float, float>}, {             \
        name ".ftz.f32", unary<Flushed<F>, float, float> \
    }
#define NARROW_KINDS(name, F)                                                                     \
    {name ".f16", unary<HalfOf<F>, u16, u16>}, {name ".f16x2", unary<Both<HalfOf<F>>, u32, u32>}, \
        {name ".bf16", unary<Bf16Of<F>, u16, u16>}, {                                             \
        name ".bf16x2", unary<Both<Bf16Of<F>>, u32, u32>                                          \
    }

const TableEntry kEntries_[] = {
    BOTH_MODES("ex2", Ex2),
    BOTH_MODES("lg2", Lg2),
    BOTH_MODES("sin", Sin),
    BOTH_MODES("cos", Cos),
    BOTH_MODES("tanh", Tanh),
    NARROW_KINDS("ex2", Ex2),
    NARROW_KINDS("tanh", Tanh),
    {"rcp.ftz.f64", unary<Rcp64, double, double>},
    {"rsqrt.ftz.f64", unary<Rsqrt64, double, double>},
};

}  // namespace

extern const Table table_math;
const Table table_math{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
