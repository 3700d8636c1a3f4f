// Directed rounding (.rz .rm .rp) of single and double precision arithmetic and narrowing conversions, by the
// host's rounding control. The lane loops live in one noinline function each, so that no operation can move
// across the switch.
#include <immintrin.h>

#include "tests/softgpu/ptx/isa.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

enum { kDown = 0x2000, kUp = 0x4000, kZero = 0x6000 };

struct Add {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b, T) {
        return a + b;
    }
};
struct Sub {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b, T) {
        return a - b;
    }
};
struct Mul {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b, T) {
        return a * b;
    }
};
struct Div {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b, T) {
        return a / b;
    }
};
struct Rcp {
    template <class T>
    static ALWAYS_INLINE T f(T a, T, T) {
        return T(1) / a;
    }
};
struct Sqrt {
    static ALWAYS_INLINE float f(float a, float, float) { return __builtin_sqrtf(a); }
    static ALWAYS_INLINE double f(double a, double, double) { return __builtin_sqrt(a); }
};
struct Fma {
    static ALWAYS_INLINE float f(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
    static ALWAYS_INLINE double f(double a, double b, double c) { return __builtin_fma(a, b, c); }
};

template <class F, class T>
__attribute__((noinline)) void loop(T* out, const T* a, const T* b, const T* c) {
    for (int l = 0; l < kLanes; ++l) out[l] = F::f(a[l], b[l], c[l]);
}

template <class F, class T, int Mode, bool Ftz, bool Sat>
void rounded(Warp& w, const Inst& i, u32 mask) {
    alignas(64) T in[3][kLanes], out[kLanes];
    const T* src[3] = {slot<T>(w, i.a), slot<T>(w, i.b), slot<T>(w, i.c)};
    if constexpr (Ftz) {
        for (int k = 0; k < 3; ++k) {
            for (int l = 0; l < kLanes; ++l) in[k][l] = flush_if<Ftz>(src[k][l]);
            src[k] = in[k];
        }
    }
    unsigned saved = _mm_getcsr();
    _mm_setcsr((saved & ~0x6000U) | Mode);
    asm volatile("" ::: "memory");
    loop<F, T>(out, src[0], src[1], src[2]);
    asm volatile("" ::: "memory");
    _mm_setcsr(saved);
    Result<T> r(w, i.d, mask);
    for (int l = 0; l < kLanes; ++l) {
        T v = out[l];
        if constexpr (Sat)
            v = saturate(v);
        else
            v = canonical(v);
        r.out[l] = flush_if<Ftz>(v);
    }
}

__attribute__((noinline)) void narrow_loop(float* out, const double* a) {
    for (int l = 0; l < kLanes; ++l) out[l] = float(a[l]);
}
template <int Mode, bool Ftz, bool Sat>
void narrow(Warp& w, const Inst& i, u32 mask) {
    alignas(64) float out[kLanes];
    unsigned saved = _mm_getcsr();
    _mm_setcsr((saved & ~0x6000U) | Mode);
    asm volatile("" ::: "memory");
    narrow_loop(out, slot<double>(w, i.a));
    asm volatile("" ::: "memory");
    _mm_setcsr(saved);
    Result<float> r(w, i.d, mask);
    for (int l = 0; l < kLanes; ++l) {
        float v = Sat ? saturate(out[l]) : canonical(out[l]);
        r.out[l] = flush_if<Ftz>(v);
    }
}

template <class I, class T>
__attribute__((noinline)) void from_int_loop(T* out, const I* a) {
    for (int l = 0; l < kLanes; ++l) out[l] = T(a[l]);
}
template <class T>
__attribute__((noinline)) void from_u64_loop(T* out, const u64* a) {
    for (int l = 0; l < kLanes; ++l) {
        // Halving with a sticky low bit keeps every rounding right; the sum is then exact.
        u64 v = a[l];
        bool big = (v >> 63) != 0;
        T h = T(i64(big ? (v >> 1) | (v & 1) : v));
        out[l] = big ? h + h : h;
    }
}
template <class I, class T, int Mode>
void from_int(Warp& w, const Inst& i, u32 mask) {
    Result<T> r(w, i.d, mask);
    unsigned saved = _mm_getcsr();
    _mm_setcsr((saved & ~0x6000U) | Mode);
    asm volatile("" ::: "memory");
    if constexpr (sizeof(I) == 8 && I(-1) > I(0))
        from_u64_loop<T>(r.out, slot<u64>(w, i.a));
    else
        from_int_loop<I, T>(r.out, slot<I>(w, i.a));
    asm volatile("" ::: "memory");
    _mm_setcsr(saved);
}

#define MODES(name, F)                                               \
    {name ".rz.f32", rounded<F, float, kZero, false, false>},        \
        {name ".rm.f32", rounded<F, float, kDown, false, false>},    \
        {name ".rp.f32", rounded<F, float, kUp, false, false>},      \
        {name ".rz.ftz.f32", rounded<F, float, kZero, true, false>}, \
        {name ".rm.ftz.f32", rounded<F, float, kDown, true, false>}, \
        {name ".rp.ftz.f32", rounded<F, float, kUp, true, false>},   \
        {name ".rz.f64", rounded<F, double, kZero, false, false>},   \
        {name ".rm.f64", rounded<F, double, kDown, false, false>}, { \
        name ".rp.f64", rounded<F, double, kUp, false, false>        \
    }
#define SAT_MODES(name, F)                                                \
    {name ".rz.sat.f32", rounded<F, float, kZero, false, true>},          \
        {name ".rm.sat.f32", rounded<F, float, kDown, false, true>},      \
        {name ".rp.sat.f32", rounded<F, float, kUp, false, true>},        \
        {name ".rz.ftz.sat.f32", rounded<F, float, kZero, true, true>},   \
        {name ".rm.ftz.sat.f32", rounded<F, float, kDown, true, true>}, { \
        name ".rp.ftz.sat.f32", rounded<F, float, kUp, true, true>        \
    }
#define FROM(I, S)                                                                                  \
    {"cvt.rz.f32." S, from_int<I, float, kZero>}, {"cvt.rm.f32." S, from_int<I, float, kDown>},     \
        {"cvt.rp.f32." S, from_int<I, float, kUp>}, {"cvt.rz.f64." S, from_int<I, double, kZero>},  \
        {"cvt.rm.f64." S, from_int<I, double, kDown>}, {"cvt.rp.f64." S, from_int<I, double, kUp>}, \
        {"cvt.rn.f32." S, from_int<I, float, 0>}, {                                                 \
        "cvt.rn.f64." S, from_int<I, double, 0>                                                     \
    }
#define NARROW(mode, Mode)                                         \
    {"cvt." mode ".f32.f64", narrow<Mode, false, false>},          \
        {"cvt." mode ".ftz.f32.f64", narrow<Mode, true, false>},   \
        {"cvt." mode ".sat.f32.f64", narrow<Mode, false, true>}, { \
        "cvt." mode ".ftz.sat.f32.f64", narrow<Mode, true, true>   \
    }

const TableEntry kEntries_[] = {
    MODES("add", Add),     MODES("sub", Sub),     MODES("mul", Mul),     MODES("div", Div),
    MODES("rcp", Rcp),     MODES("sqrt", Sqrt),   MODES("fma", Fma),     SAT_MODES("add", Add),
    SAT_MODES("sub", Sub), SAT_MODES("mul", Mul), SAT_MODES("fma", Fma), FROM(u16, "u16"),
    FROM(i16, "s16"),      FROM(u32, "u32"),      FROM(i32, "s32"),      FROM(u64, "u64"),
    FROM(i64, "s64"),      NARROW("rn", 0),       NARROW("rz", kZero),   NARROW("rm", kDown),
    NARROW("rp", kUp),
};

}  // namespace

extern const Table table_round;
const Table table_round{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
