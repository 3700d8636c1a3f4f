// Logic, shifts and bit fields.
#include "tests/softgpu/ptx/isa.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

struct And {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a & b;
    }
};
struct Or {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a | b;
    }
};
struct Xor {
    template <class T>
    static ALWAYS_INLINE T f(T a, T b) {
        return a ^ b;
    }
};
struct Not {
    template <class T>
    static ALWAYS_INLINE T f(T a) {
        return T(~a);
    }
};
struct Cnot {
    template <class T>
    static ALWAYS_INLINE T f(T a) {
        return a == 0;
    }
};
// Amounts beyond the width act like the width.
struct Shl {
    template <class T>
    static ALWAYS_INLINE T f(T a, u32 b) {
        return b >= sizeof(T) * 8 ? T(0) : T(a << (b & (sizeof(T) * 8 - 1)));
    }
};
struct Shr {
    template <class T>
    static ALWAYS_INLINE T f(T a, u32 b) {
        constexpr u32 top = sizeof(T) * 8 - 1;
        if constexpr (T(-1) < T(0)) return T(a >> (b > top ? top : b));
        return b > top ? T(0) : T(a >> (b & top));
    }
};
struct ShfLeft {
    template <bool Wrap>
    static ALWAYS_INLINE u32 g(u32 a, u32 b, u32 c) {
        u32 n = Wrap ? c & 31 : (c > 32 ? 32 : c);
        return u32(((u64(b) << 32 | a) << n) >> 32);
    }
};
template <bool Wrap>
struct ShfL {
    static ALWAYS_INLINE u32 f(u32 a, u32 b, u32 c) { return ShfLeft::g<Wrap>(a, b, c); }
};
template <bool Wrap>
struct ShfR {
    static ALWAYS_INLINE u32 f(u32 a, u32 b, u32 c) {
        u32 n = Wrap ? c & 31 : (c > 32 ? 32 : c);
        return u32((u64(b) << 32 | a) >> n);
    }
};
struct Popc {
    template <class T>
    static ALWAYS_INLINE u32 f(T a) {
        return u32(__builtin_popcountll(a));
    }
};
struct Clz {
    static ALWAYS_INLINE u32 f(u32 a) { return a == 0 ? 32 : u32(__builtin_clz(a)); }
    static ALWAYS_INLINE u32 f(u64 a) { return a == 0 ? 64 : u32(__builtin_clzll(a)); }
};
struct Brev {
    static ALWAYS_INLINE u32 f(u32 a) {
        a = (a >> 1 & 0x55555555U) | (a & 0x55555555U) << 1;
        a = (a >> 2 & 0x33333333U) | (a & 0x33333333U) << 2;
        a = (a >> 4 & 0x0f0f0f0fU) | (a & 0x0f0f0f0fU) << 4;
        return __builtin_bswap32(a);
    }
    static ALWAYS_INLINE u64 f(u64 a) { return u64(f(u32(a))) << 32 | f(u32(a >> 32)); }
};
template <bool ShiftAmount>
struct Bfind {
    template <class T>
    static ALWAYS_INLINE u32 f(T a) {
        using Un = decltype(T() | u32());
        u64 v = a < 0 ? u64(Un(~Un(a))) : u64(Un(a));
        if constexpr (sizeof(T) == 4) v = u32(v);
        if (v == 0) return ~0U;
        u32 at = 63 - u32(__builtin_clzll(v));
        return ShiftAmount ? u32(sizeof(T)) * 8 - 1 - at : at;
    }
};
struct Bfe {
    template <class T>
    static ALWAYS_INLINE T f(T a, u32 b, u32 c) {
        constexpr u32 top = sizeof(T) * 8 - 1;
        constexpr bool is_signed = T(-1) < T(0);
        u32 pos = b & 0xff, len = c & 0xff;
        u64 v = u64(i64(a));
        if constexpr (sizeof(T) == 4 && !is_signed) v = u32(a);
        u32 sign_at = pos + len - 1 > top ? top : pos + len - 1;
        bool sign = is_signed && len != 0 && ((v >> sign_at) & 1) != 0;
        u64 field = pos > top ? 0 : (u64(sizeof(T) == 4 ? u32(v) : v) >> pos);
        u32 avail = pos > top ? 0 : top + 1 - pos;
        u32 use = len < avail ? len : avail;
        field = use >= 64 ? field : field & ((u64(1) << use) - 1);
        if (sign) field |= use >= 64 ? 0 : ~u64(0) << use;
        return T(field);
    }
};
struct Bfi {
    template <class T>
    static ALWAYS_INLINE T g(T a, T b, u32 c, u32 d) {
        constexpr u32 width = sizeof(T) * 8;
        u32 pos = c & 0xff, len = d & 0xff;
        if (pos >= width || len == 0) return b;
        u32 use = len < width - pos ? len : width - pos;
        T field = use >= width ? T(~T(0)) : T((T(1) << use) - 1);
        T m = T(field << pos);
        return T((b & ~m) | ((a << pos) & m));
    }
};
template <class T>
void bfi(Warp& w, const Inst& i, u32 mask) {
    Result<T> r(w, i.d, mask);
    const T* a = slot<T>(w, i.a);
    const T* b = slot<T>(w, i.b);
    const u32* c = slot<u32>(w, i.c);
    const u32* d = slot<u32>(w, u32(i.imm));
    for (int l = 0; l < kLanes; ++l) r.out[l] = Bfi::g<T>(a[l], b[l], c[l], d[l]);
}
template <bool Clamp>
struct Bmsk {
    static ALWAYS_INLINE u32 f(u32 a, u32 b) {
        u32 pos = Clamp ? a : a & 31, len = Clamp ? b : b & 31;
        if (pos >= 32 || len == 0) return 0;
        u32 m = len >= 32 ? ~0U : (1U << len) - 1;
        return m << pos;
    }
};
template <class T, bool Wrap>
struct Szext {
    static ALWAYS_INLINE T f(T a, u32 b) {
        u32 n = Wrap ? b & 31 : b;
        if (n >= 32) return a;
        if (n == 0) return 0;
        return T(T(u32(a) << (32 - n)) >> (32 - n));
    }
};
/// imm: the truth table.
void lop3(Warp& w, const Inst& i, u32 mask) {
    Result<u32> r(w, i.d, mask);
    const u32* a = slot<u32>(w, i.a);
    const u32* b = slot<u32>(w, i.b);
    const u32* c = slot<u32>(w, i.c);
    u32 term[8];
    for (int k = 0; k < 8; ++k) term[k] = (i.imm >> k) & 1 ? ~0U : 0;
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) {
        u32 x = a[l], y = b[l], z = c[l];
        r.out[l] = (~x & ~y & ~z & term[0]) | (~x & ~y & z & term[1]) | (~x & y & ~z & term[2]) |
                   (~x & y & z & term[3]) | (x & ~y & ~z & term[4]) | (x & ~y & z & term[5]) |
                   (x & y & ~z & term[6]) | (x & y & z & term[7]);
    }
}
/// Byte permutation. Mode 0: by selector nibbles; the others are the named patterns.
template <int Mode>
struct Prmt {
    static ALWAYS_INLINE u32 f(u32 a, u32 b, u32 c) {
        u64 both = u64(b) << 32 | a;
        u32 r = 0;
        for (u32 k = 0; k < 4; ++k) {
            u32 sel, s = c & 3;
            bool sign = false;
            if constexpr (Mode == 0)
                sel = (c >> (4 * k)) & 7, sign = ((c >> (4 * k)) & 8) != 0;
            else if constexpr (Mode == 1)
                sel = s + k;  // f4e
            else if constexpr (Mode == 2)
                sel = (s + 8 - k) & 7;  // b4e
            else if constexpr (Mode == 3)
                sel = s;  // rc8
            else if constexpr (Mode == 4)
                sel = k < s ? s : k;  // ecl
            else if constexpr (Mode == 5)
                sel = k < s ? k : s;  // ecr
            else
                sel = (s & 1) * 2 + (k & 1);  // rc16
            u32 byte = u32(both >> (8 * sel)) & 0xff;
            if (sign) byte = byte & 0x80 ? 0xff : 0;
            r |= byte << (8 * k);
        }
        return r;
    }
};
template <class A, class B>
struct Dp4a {
    static ALWAYS_INLINE u32 f(u32 a, u32 b, u32 c) {
        for (u32 k = 0; k < 32; k += 8) c += u32(i32(A(a >> k)) * i32(B(b >> k)));
        return c;
    }
};
template <class A, class B, bool High>
struct Dp2a {
    static ALWAYS_INLINE u32 f(u32 a, u32 b, u32 c) {
        u32 bb = High ? b >> 16 : b;
        c += u32(i32(A(a))) * u32(i32(B(bb)));
        return c + u32(i32(A(a >> 16))) * u32(i32(B(bb >> 8)));
    }
};
/// n-th set bit: fns.b32 mask, base, offset.
struct Fns {
    static ALWAYS_INLINE u32 f(u32 m, u32 base, i32 offset) {
        if (offset == 0) return base < 32 && ((m >> base) & 1) != 0 ? base : ~0U;
        i32 at = i32(base), step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
        for (; at >= 0 && at < 32; at += step) {
            if (((m >> at) & 1) != 0 && --left == 0) return u32(at);
        }
        return ~0U;
    }
};

#define LOGIC(T, S)                                                                                     \
    {"and." S, binary<And, T, T, T>}, {"or." S, binary<Or, T, T, T>}, {"xor." S, binary<Xor, T, T, T>}, \
        {"not." S, unary<Not, T, T>}, {"cnot." S, unary<Cnot, T, T>}, {                                 \
        "shl." S, binary<Shl, T, T, u32>                                                                \
    }
#define DP(SA, A, SB, B)                                                                 \
    {"dp4a." SA "." SB, ternary<Dp4a<A##8, B##8>, u32, u32, u32, u32>},                  \
        {"dp2a.lo." SA "." SB, ternary<Dp2a<A##16, B##8, false>, u32, u32, u32, u32>}, { \
        "dp2a.hi." SA "." SB, ternary<Dp2a<A##16, B##8, true>, u32, u32, u32, u32>       \
    }

const TableEntry kEntries_[] = {
    LOGIC(u16, "b16"),
    LOGIC(u32, "b32"),
    LOGIC(u64, "b64"),
    {"shr.u16", binary<Shr, u16, u16, u32>},
    {"shr.u32", binary<Shr, u32, u32, u32>},
    {"shr.u64", binary<Shr, u64, u64, u32>},
    {"shr.s16", binary<Shr, i16, i16, u32>},
    {"shr.s32", binary<Shr, i32, i32, u32>},
    {"shr.s64", binary<Shr, i64, i64, u32>},
    {"shf.l.wrap.b32", ternary<ShfL<true>, u32, u32, u32, u32>},
    {"shf.l.clamp.b32", ternary<ShfL<false>, u32, u32, u32, u32>},
    {"shf.r.wrap.b32", ternary<ShfR<true>, u32, u32, u32, u32>},
    {"shf.r.clamp.b32", ternary<ShfR<false>, u32, u32, u32, u32>},
    {"popc.b32", unary<Popc, u32, u32>},
    {"popc.b64", unary<Popc, u32, u64>},
    {"clz.b32", unary<Clz, u32, u32>},
    {"clz.b64", unary<Clz, u32, u64>},
    {"brev.b32", unary<Brev, u32, u32>},
    {"brev.b64", unary<Brev, u64, u64>},
    {"bfind.u32", unary<Bfind<false>, u32, u32>},
    {"bfind.s32", unary<Bfind<false>, u32, i32>},
    {"bfind.u64", unary<Bfind<false>, u32, u64>},
    {"bfind.s64", unary<Bfind<false>, u32, i64>},
    {"bfind.shiftamt.u32", unary<Bfind<true>, u32, u32>},
    {"bfind.shiftamt.s32", unary<Bfind<true>, u32, i32>},
    {"bfind.shiftamt.u64", unary<Bfind<true>, u32, u64>},
    {"bfind.shiftamt.s64", unary<Bfind<true>, u32, i64>},
    {"bfe.u32", ternary<Bfe, u32, u32, u32, u32>},
    {"bfe.s32", ternary<Bfe, i32, i32, u32, u32>},
    {"bfe.u64", ternary<Bfe, u64, u64, u32, u32>},
    {"bfe.s64", ternary<Bfe, i64, i64, u32, u32>},
    {"bfi.b32", bfi<u32>},
    {"bfi.b64", bfi<u64>},
    {"bmsk.clamp.b32", binary<Bmsk<true>, u32, u32, u32>},
    {"bmsk.wrap.b32", binary<Bmsk<false>, u32, u32, u32>},
    {"szext.wrap.u32", binary<Szext<u32, true>, u32, u32, u32>},
    {"szext.wrap.s32", binary<Szext<i32, true>, i32, i32, u32>},
    {"szext.clamp.u32", binary<Szext<u32, false>, u32, u32, u32>},
    {"szext.clamp.s32", binary<Szext<i32, false>, i32, i32, u32>},
    {"lop3.b32", lop3},
    {"prmt.b32", ternary<Prmt<0>, u32, u32, u32, u32>},
    {"prmt.b32.f4e", ternary<Prmt<1>, u32, u32, u32, u32>},
    {"prmt.b32.b4e", ternary<Prmt<2>, u32, u32, u32, u32>},
    {"prmt.b32.rc8", ternary<Prmt<3>, u32, u32, u32, u32>},
    {"prmt.b32.ecl", ternary<Prmt<4>, u32, u32, u32, u32>},
    {"prmt.b32.ecr", ternary<Prmt<5>, u32, u32, u32, u32>},
    {"prmt.b32.rc16", ternary<Prmt<6>, u32, u32, u32, u32>},
    DP("u32", u, "u32", u),
    DP("u32", u, "s32", i),
    DP("s32", i, "u32", u),
    DP("s32", i, "s32", i),
    {"fns.b32", ternary<Fns, u32, u32, u32, i32>},
};

}  // namespace

extern const Table table_bits;
const Table table_bits{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
