// setp, set, selp, slct.
#include "tests/softgpu/ptx/isa.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

#define COMPARE(Name, expr)                     \
    struct Name {                               \
        template <class T>                      \
        static ALWAYS_INLINE bool f(T a, T b) { \
            return expr;                        \
        }                                       \
    }
COMPARE(Eq, a == b);
COMPARE(Ne, a != b);
COMPARE(Lt, a < b);
COMPARE(Le, a <= b);
COMPARE(Gt, a > b);
COMPARE(Ge, a >= b);
// Ordered "not equal" and the unordered forms, for floats.
COMPARE(FNe, a<b || a> b);
COMPARE(Equ, !(a < b || a > b));
COMPARE(Neu, a != b);
COMPARE(Ltu, !(a >= b));
COMPARE(Leu, !(a > b));
COMPARE(Gtu, !(a <= b));
COMPARE(Geu, !(a < b));
COMPARE(Num, a == a && b == b);
COMPARE(Nan, a != a || b != b);

ALWAYS_INLINE float half_of(u16 v) {
    return half_to_float(v);
}

struct AsIs {
    template <class T>
    static ALWAYS_INLINE T f(T v) {
        return v;
    }
};
struct AsFlushed {
    static ALWAYS_INLINE float f(float v) { return flush(v); }
};
struct AsHalf {
    static ALWAYS_INLINE float f(u16 v) { return half_to_float(v); }
};
struct AsBf16 {
    static ALWAYS_INLINE float f(u16 v) { return bf16_to_float(v); }
};

/// d: result predicate.
template <class C, class T, class Conv>
void setp(Warp& w, const Inst& i, u32 mask) {
    const T* a = slot<T>(w, i.a);
    const T* b = slot<T>(w, i.b);
    write_predicate(w, i.d, lane_mask < sizeof(T) == 8 ? 8 : 4 > ([&](int l) {
                                                                 return C::f(Conv::f(a[l]), Conv::f(b[l]));
                                                             }),
                    mask);
}
/// Two halves: predicates d and c.
template <class C, class Conv>
void setp2(Warp& w, const Inst& i, u32 mask) {
    const u32* a = slot<u32>(w, i.a);
    const u32* b = slot<u32>(w, i.b);
    u32 lo = lane_mask([&](int l) { return C::f(Conv::f(u16(a[l])), Conv::f(u16(b[l]))); });
    u32 hi = lane_mask([&](int l) { return C::f(Conv::f(u16(a[l] >> 16)), Conv::f(u16(b[l] >> 16))); });
    write_predicate(w, i.d, lo, mask);
    if (i.c != ~0U) write_predicate(w, i.c, hi, mask);
}

/// Predicate a to a value per lane: imm when true, else 0 (set's results).
template <class T>
void spread(Warp& w, const Inst& i, u32 mask) {
    Result<T> r(w, i.d, mask);
    u32 p = predicate(w, i.a);
    for (u32 l = 0; l < kLanes; ++l) r.out[l] = (p >> l) & 1 ? T(i.imm) : T(0);
}
/// Two predicates to the halves of a register.
void spread2(Warp& w, const Inst& i, u32 mask) {
    Result<u32> r(w, i.d, mask);
    u32 p = predicate(w, i.a), q = predicate(w, i.b), v = u16(i.imm);
    for (u32 l = 0; l < kLanes; ++l) r.out[l] = ((p >> l) & 1 ? v : 0) | ((q >> l) & 1 ? v << 16 : 0);
}
template <class T>
void selp(Warp& w, const Inst& i, u32 mask) {
    Result<T> r(w, i.d, mask);
    choose(r.out, slot<T>(w, i.a), slot<T>(w, i.b), predicate(w, i.c));
}
template <class T, bool Ftz>
struct SlctF {
    static ALWAYS_INLINE T f(T a, T b, float c) { return flush_if<Ftz>(c) >= 0.0F ? a : b; }
};
template <class T>
struct SlctS {
    static ALWAYS_INLINE T f(T a, T b, i32 c) { return c >= 0 ? a : b; }
};

#define INT_COMPARES(T, S)                                                                                   \
    {"setp.eq." S, setp<Eq, T, AsIs>}, {"setp.ne." S, setp<Ne, T, AsIs>}, {"setp.lt." S, setp<Lt, T, AsIs>}, \
        {"setp.le." S, setp<Le, T, AsIs>}, {"setp.gt." S, setp<Gt, T, AsIs>}, {                              \
        "setp.ge." S, setp<Ge, T, AsIs>                                                                      \
    }
#define FLOAT_COMPARES(SETP, S, ...)                                                      \
    {"setp.eq." S, SETP<Eq, __VA_ARGS__>}, {"setp.ne." S, SETP<FNe, __VA_ARGS__>},        \
        {"setp.lt." S, SETP<Lt, __VA_ARGS__>}, {"setp.le." S, SETP<Le, __VA_ARGS__>},     \
        {"setp.gt." S, SETP<Gt, __VA_ARGS__>}, {"setp.ge." S, SETP<Ge, __VA_ARGS__>},     \
        {"setp.equ." S, SETP<Equ, __VA_ARGS__>}, {"setp.neu." S, SETP<Neu, __VA_ARGS__>}, \
        {"setp.ltu." S, SETP<Ltu, __VA_ARGS__>}, {"setp.leu." S, SETP<Leu, __VA_ARGS__>}, \
        {"setp.gtu." S, SETP<Gtu, __VA_ARGS__>}, {"setp.geu." S, SETP<Geu, __VA_ARGS__>}, \
        {"setp.num." S, SETP<Num, __VA_ARGS__>}, {                                        \
        "setp.nan." S, SETP<Nan, __VA_ARGS__>                                             \
    }

const TableEntry kEntries_[] = {
    INT_COMPARES(u16, "u16"),
    INT_COMPARES(i16, "s16"),
    INT_COMPARES(u32, "u32"),
    INT_COMPARES(i32, "s32"),
    INT_COMPARES(u64, "u64"),
    INT_COMPARES(i64, "s64"),
    FLOAT_COMPARES(setp, "f32", float, AsIs),
    FLOAT_COMPARES(setp, "ftz.f32", float, AsFlushed),
    FLOAT_COMPARES(setp, "f64", double, AsIs),
    FLOAT_COMPARES(setp, "f16", u16, AsHalf),
    FLOAT_COMPARES(setp, "bf16", u16, AsBf16),
    FLOAT_COMPARES(setp2, "f16x2", AsHalf),
    FLOAT_COMPARES(setp2, "bf16x2", AsBf16),
    {"spread.b16", spread<u16>},
    {"spread.b32", spread<u32>},
    {"spread2", spread2},
    {"selp.b16", selp<u16>},
    {"selp.b32", selp<u32>},
    {"selp.b64", selp<u64>},
    {"selp.b128", selp<u128>},
    {"slct.b16.f32", ternary<SlctF<u16, false>, u16, u16, u16, float>},
    {"slct.b32.f32", ternary<SlctF<u32, false>, u32, u32, u32, float>},
    {"slct.b64.f32", ternary<SlctF<u64, false>, u64, u64, u64, float>},
    {"slct.b16.ftz.f32", ternary<SlctF<u16, true>, u16, u16, u16, float>},
    {"slct.b32.ftz.f32", ternary<SlctF<u32, true>, u32, u32, u32, float>},
    {"slct.b64.ftz.f32", ternary<SlctF<u64, true>, u64, u64, u64, float>},
    {"slct.b16.s32", ternary<SlctS<u16>, u16, u16, u16, i32>},
    {"slct.b32.s32", ternary<SlctS<u32>, u32, u32, u32, i32>},
    {"slct.b64.s32", ternary<SlctS<u64>, u64, u64, u64, i32>},
};

}  // namespace

extern const Table table_compare;
const Table table_compare{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
