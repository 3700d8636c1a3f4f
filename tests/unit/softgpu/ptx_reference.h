// Slow exact references: rounding of an exact value to any small float format, and host arithmetic in any
// rounding.
#pragma once

#include <cfenv>
#include <cmath>

#include "tests/unit/softgpu/ptx_apply.h"

namespace softgpu::ptx::test {

__extension__ using f128 = __float128;

enum class Rounding { nearest, zero, down, up };

struct Format {
    int exponent_bits, mantissa_bits;
    u32 nan;
};
constexpr Format kHalf{5, 10, 0x7fff}, kBf16{8, 7, 0x7fff};

/// The value of a small float.
inline f128 value_of(u32 bits, Format f) {
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    u32 m = bits & ((1U << f.mantissa_bits) - 1),
        e = (bits >> f.mantissa_bits) & ((1U << f.exponent_bits) - 1);
    bool negative = (bits >> (f.exponent_bits + f.mantissa_bits)) & 1;
    double v;
    if (e == (1U << f.exponent_bits) - 1)
        v = m != 0 ? std::nan("") : INFINITY;
    else if (e == 0)
        v = std::ldexp(double(m), 1 - bias - f.mantissa_bits);
    else
        v = std::ldexp(double(m + (1U << f.mantissa_bits)), int(e) - bias - f.mantissa_bits);
    return negative ? -f128(v) : f128(v);
}

/// Rounds an exact value by searching the neighbours; `zero_sign` gives the sign of a zero result.
inline u32 round_to(f128 x, Format f, Rounding mode, bool zero_negative) {
    u32 sign_bit = 1U << (f.exponent_bits + f.mantissa_bits);
    if (x != x) return f.nan;
    bool negative = x < 0 || (x == 0 && zero_negative);
    f128 a = x < 0 ? -x : x;
    u32 inf = ((1U << f.exponent_bits) - 1) << f.mantissa_bits;
    if (a > f128(1e300)) return (negative ? sign_bit : 0) | inf;
    // Largest finite pattern not above a, by bisection (patterns are ordered).
    u32 lo = 0, hi = inf;
    while (hi - lo > 1) {
        u32 mid = (lo + hi) / 2;
        if (value_of(mid, f) <= a)
            lo = mid;
        else
            hi = mid;
    }
    f128 below = value_of(lo, f);
    f128 above = hi == inf ? below + (below - value_of(lo - 1, f)) : value_of(hi, f);
    u32 r = lo;
    if (below != a) {
        bool up;
        if (mode == Rounding::nearest)
            up = a - below > above - a || (a - below == above - a && (lo & 1) != 0);
        else if (mode == Rounding::zero)
            up = false;
        else
            up = (mode == Rounding::up) != negative;
        if (up) r = hi;
    }
    return (negative ? sign_bit : 0) | r;
}

template <class F>
auto with_rounding(Rounding mode, F f) {
    int m = mode == Rounding::zero   ? FE_TOWARDZERO
            : mode == Rounding::down ? FE_DOWNWARD
            : mode == Rounding::up   ? FE_UPWARD
                                     : FE_TONEAREST;
    std::fesetround(m);
    auto r = f();
    std::fesetround(FE_TONEAREST);
    return r;
}

/// Arithmetic that neither the compiler's folding nor code motion can touch.
template <class T>
__attribute__((noinline)) T host_op(char op, T a, T b, T c) {
    volatile T x = a, y = b, z = c;
    volatile T r = 0;
    switch (op) {
        case '+':
            r = x + y;
            break;
        case '-':
            r = x - y;
            break;
        case '*':
            r = x * y;
            break;
        case '/':
            r = x / y;
            break;
        case 'r':
            r = T(1) / x;
            break;
        case 's':
            r = std::sqrt(T(x));
            break;
        case 'f':
            r = std::fma(T(x), T(y), T(z));
            break;
        default:
            break;
    }
    return r;
}

inline float flushed(float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
}

}  // namespace softgpu::ptx::test
