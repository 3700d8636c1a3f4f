// Building blocks of the instruction handlers. Every ops_*.cpp is compiled once per instruction set (build.mk
// sets SOFTGPU_ISA to a namespace name and the -m flags), so that lane loops use the widest vectors of the
// machine. Everything here is always_inline or in the namespace of the instruction set: no symbol may be
// shared.
#pragma once

#include "tests/softgpu/ptx/runtime.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifndef SOFTGPU_ISA
#define SOFTGPU_ISA base
#endif

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace softgpu::ptx::SOFTGPU_ISA {

template <class T>
ALWAYS_INLINE T* slot(Warp& w, u32 offset) {
    return static_cast<T*>(__builtin_assume_aligned(w.regs + offset, 64));
}
ALWAYS_INLINE u32& predicate(Warp& w, u32 offset) {
    return *reinterpret_cast<u32*>(w.regs + offset);
}

template <class To, class From>
ALWAYS_INLINE To bits_as(From v) {
    static_assert(sizeof(To) == sizeof(From));
    return __builtin_bit_cast(To, v);
}

#ifdef __AVX2__
/// Bits 0..7 of `mask` as 32-bit lanes of all ones or zeros.
ALWAYS_INLINE __m256i spread8(u32 mask) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(int(mask)), bit), bit);
}
/// Bits 0..3 as 64-bit lanes.
ALWAYS_INLINE __m256i spread4(u32 mask) {
    const __m256i bit = _mm256_setr_epi64x(1, 2, 4, 8);
    return _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(i64(mask)), bit), bit);
}
#endif

/// out = mask ? a : b, lane by lane. All may be the same array.
template <class T>
ALWAYS_INLINE void choose(T* out, const T* a, const T* b, u32 mask) {
#ifdef __AVX2__
    if constexpr (sizeof(T) == 4) {
        for (int g = 0; g < kLanes; g += 8) {
            __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(a + g)),
                    y = _mm256_load_si256(reinterpret_cast<const __m256i*>(b + g));
            _mm256_store_si256(reinterpret_cast<__m256i*>(out + g),
                               _mm256_blendv_epi8(y, x, spread8(mask >> g)));
        }
        return;
    } else if constexpr (sizeof(T) == 8) {
        for (int g = 0; g < kLanes; g += 4) {
            __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(a + g)),
                    y = _mm256_load_si256(reinterpret_cast<const __m256i*>(b + g));
            _mm256_store_si256(reinterpret_cast<__m256i*>(out + g),
                               _mm256_blendv_epi8(y, x, spread4(mask >> g)));
        }
        return;
    }
#endif
    for (u32 l = 0; l < kLanes; ++l) out[l] = (mask >> l) & 1 ? a[l] : b[l];
}
/// d = mask ? r : d.
template <class T>
ALWAYS_INLINE void blend(T* d, const T* r, u32 mask) {
    choose(d, r, d, mask);
}

/// Result array of a handler: the register itself when all live lanes take part, else a copy blended in at
/// the end.
template <class T>
struct Result {
    T* d;
    T* out;
    u32 mask;
    bool full;
    alignas(64) T copy[kLanes];
    ALWAYS_INLINE Result(Warp& w, u32 offset, u32 m) : d(slot<T>(w, offset)), mask(m), full(m == w.live) {
        out = full ? d : copy;
    }
    ALWAYS_INLINE ~Result() {
        if (!full) blend(d, copy, mask);
    }
};

template <class F, class D, class A>
void unary(Warp& w, const Inst& i, u32 mask) {
    Result<D> r(w, i.d, mask);
    const A* a = slot<A>(w, i.a);
    D* out = r.out;
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) out[l] = F::f(a[l]);
}
template <class F, class D, class A, class B>
void binary(Warp& w, const Inst& i, u32 mask) {
    Result<D> r(w, i.d, mask);
    const A* a = slot<A>(w, i.a);
    const B* b = slot<B>(w, i.b);
    D* out = r.out;
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) out[l] = F::f(a[l], b[l]);
}
template <class F, class D, class A, class B, class C>
void ternary(Warp& w, const Inst& i, u32 mask) {
    Result<D> r(w, i.d, mask);
    const A* a = slot<A>(w, i.a);
    const B* b = slot<B>(w, i.b);
    const C* c = slot<C>(w, i.c);
    D* out = r.out;
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) out[l] = F::f(a[l], b[l], c[l]);
}

/// A lane loop's boolean results as a mask. `Width`: of the compared values, in bytes.
template <int Width = 4, class P>
ALWAYS_INLINE u32 lane_mask(P test) {
#ifdef __AVX2__
    u32 r = 0;
    if constexpr (Width == 8) {
        alignas(32) i64 flags[kLanes];
#pragma GCC ivdep
        for (int l = 0; l < kLanes; ++l) flags[l] = test(l) ? -1 : 0;
        for (int g = 0; g < kLanes; g += 4)
            r |= u32(_mm256_movemask_pd(_mm256_load_pd(reinterpret_cast<const double*>(flags + g)))) << g;
    } else {
        alignas(32) i32 flags[kLanes];
#pragma GCC ivdep
        for (int l = 0; l < kLanes; ++l) flags[l] = test(l) ? -1 : 0;
        for (int g = 0; g < kLanes; g += 8)
            r |= u32(_mm256_movemask_ps(_mm256_load_ps(reinterpret_cast<const float*>(flags + g)))) << g;
    }
    return r;
#else
    u32 bits[4] = {};
    for (int g = 0; g < 4; ++g) {
        u32 part = 0;
        for (int l = 0; l < 8; ++l) part |= u32(test(g * 8 + l) ? 1 : 0) << (g * 8 + l);
        bits[g] = part;
    }
    return bits[0] | bits[1] | bits[2] | bits[3];
#endif
}
ALWAYS_INLINE void write_predicate(Warp& w, u32 offset, u32 value, u32 mask) {
    u32& p = predicate(w, offset);
    p = (p & ~mask) | (value & mask);
}

#define FOR_LANES(l, mask)                                                                          \
    for (u32 bits_##l = (mask), l = 0; bits_##l != 0 && ((l = u32(__builtin_ctz(bits_##l))), true); \
         bits_##l &= bits_##l - 1)

// Floating point
// ----------------------------------------------------------------------------------------------

constexpr u32 kNan32 = 0x7fffffffU;
constexpr u64 kNan64 = 0xfff8000000000000ULL;
constexpr u16 kNan16 = 0x7fff;

template <class T>
ALWAYS_INLINE T min_of(T a, T b) {
    return a < b ? a : b;
}
template <class T>
ALWAYS_INLINE T max_of(T a, T b) {
    return a > b ? a : b;
}

/// Results that are NaN have one bit pattern on the device, whatever the operands.
ALWAYS_INLINE float canonical(float x) {
    return x == x ? x : bits_as<float>(kNan32);
}
ALWAYS_INLINE double canonical(double x) {
    return x == x ? x : bits_as<double>(kNan64);
}

/// Subnormals to zero of the same sign.
ALWAYS_INLINE float flush(float x) {
    u32 b = bits_as<u32>(x);
    return bits_as<float>((b & 0x7f800000U) == 0 ? b & 0x80000000U : b);
}
template <bool Ftz>
ALWAYS_INLINE float flush_if(float x) {
    if constexpr (Ftz) return flush(x);
    return x;
}
template <bool Ftz>
ALWAYS_INLINE double flush_if(double x) {
    return x;
}

/// [0, 1], NaN to +0.
template <class T>
ALWAYS_INLINE T saturate(T x) {
    return x > T(0) ? (x < T(1) ? x : T(1)) : T(0);
}

ALWAYS_INLINE float half_to_float(u16 h) {
    u32 sign = u32(h & 0x8000U) << 16;
    u32 rest = h & 0x7fffU;
    // Subnormals: scale by a float product (exact); normals: rebias; infinities and NaN: top exponent.
    float subnormal = float(i32(rest)) * 5.9604644775390625e-8F;  // 2^-24
    u32 normal = (rest << 13) + 0x38000000U;
    u32 special = (rest << 13) | 0x7f800000U;
    u32 b = rest < 0x0400U ? bits_as<u32>(subnormal) : rest < 0x7c00U ? normal : special;
    return bits_as<float>(b | sign);
}
/// Round to nearest even; NaN becomes 0x7fff.
ALWAYS_INLINE u16 float_to_half(float x) {
    u32 b = bits_as<u32>(x);
    u32 sign = (b >> 16) & 0x8000U;
    u32 a = b & 0x7fffffffU;
    u32 normal = (a - 0x38000000U + 0xfffU + ((a >> 13) & 1U)) >> 13;
    // Below 2^-14: adding 0.5 makes the float unit round at 2^-24.
    float shifted = bits_as<float>(a) + 0.5F;
    u32 subnormal = bits_as<u32>(shifted) - 0x3f000000U;
    u32 h = a < 0x38800000U ? subnormal : a < 0x477ff000U ? normal : 0x7c00U;
    return u16(a > 0x7f800000U ? u32(kNan16) : (h | sign));
}
ALWAYS_INLINE float bf16_to_float(u16 h) {
    return bits_as<float>(u32(h) << 16);
}
ALWAYS_INLINE u16 float_to_bf16(float x) {
    u32 b = bits_as<u32>(x);
    u32 rounded = (b + 0x7fffU + ((b >> 16) & 1U)) >> 16;
    return u16((b & 0x7fffffffU) > 0x7f800000U ? 0x7fffU : rounded);
}

/// a + b rounded to odd: a later rounding to a narrower format is then the correct one.
ALWAYS_INLINE double add_odd(double a, double b) {
    double s = a + b;
    double bb = s - a;
    double error = (a - (s - bb)) + (b - bb);
    u64 bits = bits_as<u64>(s);
    bool inexact = error != 0 && (error == error) && (bits & 0x7ff0000000000000ULL) != 0x7ff0000000000000ULL;
    if (inexact && (bits & 1) == 0) {
        bool away = (error > 0) == (s > 0);
        bits += away ? u64(1) : ~u64(0);
    }
    return bits_as<double>(bits);
}
/// To float, rounded to odd.
ALWAYS_INLINE float narrow_odd(double x) {
    float f = float(x);
    u32 bits = bits_as<u32>(f);
    bool inexact = double(f) != x && x == x;
    if (inexact && (bits & 1) == 0) {
        bool toward = (double(f) < x) == (x > 0);
        bits += toward ? 1U : ~0U;
    } else if (inexact && (bits & 0x7fffffffU) == 0x7f800000U) {
        bits -= 1;  // overflow: the largest finite number has an odd pattern
    }
    return bits_as<float>(bits);
}
ALWAYS_INLINE u16 double_to_half(double x) {
    return float_to_half(narrow_odd(x));
}
ALWAYS_INLINE u16 double_to_bf16(double x) {
    return float_to_bf16(narrow_odd(x));
}

}  // namespace softgpu::ptx::SOFTGPU_ISA
