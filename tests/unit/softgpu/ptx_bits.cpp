// Logic, shifts, bit fields, byte permutation and dot products against the host.
#include "tests/unit/softgpu/ptx_apply.h"

using namespace softgpu::ptx::test;

namespace {

template <class T>
void logic(const std::string& t) {
    auto e = int_edges<T>();
    check2<T, T>("and." + t, e, [](T a, T b) { return T(a & b); });
    check2<T, T>("or." + t, e, [](T a, T b) { return T(a | b); });
    check2<T, T>("xor." + t, e, [](T a, T b) { return T(a ^ b); });
    check1<T, T>("not." + t, e, [](T a) { return T(~a); });
    check1<T, T>("cnot." + t, e, [](T a) { return T(a == 0); });
}

template <class T>
void shifts(const std::string& t) {
    std::vector<T> a;
    std::vector<u32> b;
    pairs(int_edges<T>(),
          std::vector<u32>{0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0x80000000U, 0xffffffffU},
          a, b);
    constexpr u32 width = sizeof(T) * 8;
    auto left = apply<T, T, u32>("shl." + bits_type<T>() + " %d, %a, %b;", a, b);
    auto right = apply<T, T, u32>("shr." + t + " %d, %a, %b;", a, b);
    for (std::size_t k = 0; k < a.size(); ++k) {
        INFO(+a[k] << " by " << b[k]);
        REQUIRE(left[k] == (b[k] >= width ? T(0) : T(u64(a[k]) << b[k])));
        T want = b[k] >= width ? (a[k] < T(0) ? T(-1) : T(0)) : T(a[k] >> b[k]);
        REQUIRE(right[k] == want);
    }
}

/// The reference loops over bits as the PTX manual's pseudo code does.
template <class T>
T bfe(T a, u32 b, u32 c, bool is_signed) {
    int msb = int(sizeof(T)) * 8 - 1;
    u32 pos = b & 0xff, len = c & 0xff;
    auto bit = [&](u32 k) { return (u64(a) >> k) & 1; };
    u64 sign = !is_signed || len == 0 ? 0 : bit(std::min(pos + len - 1, u32(msb)));
    u64 d = 0;
    for (int i = 0; i <= msb; ++i) {
        u64 v = u32(i) < len && pos + u32(i) <= u32(msb) ? bit(pos + u32(i)) : sign;
        d |= v << i;
    }
    return T(d);
}
template <class T>
T bfi(T a, T b, u32 c, u32 d) {
    int msb = int(sizeof(T)) * 8 - 1;
    u32 pos = c & 0xff, len = d & 0xff;
    u64 f = u64(b);
    for (u32 i = 0; i < len && pos + i <= u32(msb); ++i) {
        f = (f & ~(u64(1) << (pos + i))) | ((u64(a) >> i) & 1) << (pos + i);
    }
    return T(f);
}

template <class T>
void fields(const std::string& t, bool is_signed) {
    std::vector<T> a;
    std::vector<u32> b, c;
    std::vector<u32> amounts{0, 1, 7, 8, 16, 31, 32, 33, 63, 64, 200, 255, 256};
    triples(int_edges<T>(), amounts, amounts, a, b, c);
    auto d = apply<T, T, u32, u32>("bfe." + t + " %d, %a, %b, %c;", a, b, c);
    for (std::size_t k = 0; k < a.size(); ++k) {
        INFO(+a[k] << " " << b[k] << " " << c[k]);
        REQUIRE(d[k] == bfe<T>(a[k], b[k], c[k], is_signed));
    }
    if (is_signed) return;
    std::string w = bits_type<T>();
    auto f = apply<T, T, u32, u32>(
        ".reg ." + w + " %z;\nnot." + w + " %z, %a;\nbfi." + w + " %d, %a, %z, %b, %c;", a, b, c);
    for (std::size_t k = 0; k < a.size(); ++k) REQUIRE(f[k] == bfi<T>(a[k], T(~a[k]), b[k], c[k]));
}

}  // namespace

TEST_CASE("logic", "[ptx][conformance]") {
    logic<u16>("b16");
    logic<u32>("b32");
    logic<u64>("b64");
}

TEST_CASE("shifts beyond the width", "[ptx][conformance]") {
    shifts<u16>("u16");
    shifts<i16>("s16");
    shifts<u32>("u32");
    shifts<i32>("s32");
    shifts<u64>("u64");
    shifts<i64>("s64");
    std::vector<u32> amounts{0, 1, 8, 31, 32, 33, 64, 0xffffffffU};
    for (bool left : {true, false}) {
        for (bool wrap : {true, false}) {
            std::string name =
                std::string("shf.") + (left ? "l" : "r") + (wrap ? ".wrap" : ".clamp") + ".b32";
            check3<u32, u32, u32>(name, int_edges<u32>(), amounts, [&](u32 a, u32 b, u32 c) {
                u32 n = wrap ? c & 31 : std::min(c, 32U);
                u64 both = u64(b) << 32 | a;
                return left ? u32((both << n) >> 32) : u32(both >> n);
            });
        }
    }
}

TEST_CASE("bit counts and reversals", "[ptx][conformance]") {
    check1<u32, u32>("popc.b32", int_edges<u32>(), [](u32 a) { return u32(__builtin_popcount(a)); });
    check1<u32, u64>("popc.b64", int_edges<u64>(), [](u64 a) { return u32(__builtin_popcountll(a)); });
    check1<u32, u32>("clz.b32", int_edges<u32>(), [](u32 a) { return a == 0 ? 32U : u32(__builtin_clz(a)); });
    check1<u32, u64>("clz.b64", int_edges<u64>(),
                     [](u64 a) { return a == 0 ? 64U : u32(__builtin_clzll(a)); });
    auto reverse = [](u64 a, int n) {
        u64 r = 0;
        for (int k = 0; k < n; ++k) r |= ((a >> k) & 1) << (n - 1 - k);
        return r;
    };
    check1<u32, u32>("brev.b32", int_edges<u32>(), [&](u32 a) { return u32(reverse(a, 32)); });
    check1<u64, u64>("brev.b64", int_edges<u64>(), [&](u64 a) { return reverse(a, 64); });
    auto find = [](u64 v, int top) {
        for (int k = top; k >= 0; --k) {
            if ((v >> k) & 1) return u32(k);
        }
        return ~0U;
    };
    check1<u32, u32>("bfind.u32", int_edges<u32>(), [&](u32 a) { return find(a, 31); });
    check1<u32, i32>("bfind.s32", int_edges<i32>(),
                     [&](i32 a) { return find(a < 0 ? u32(~a) : u32(a), 31); });
    check1<u32, u64>("bfind.u64", int_edges<u64>(), [&](u64 a) { return find(a, 63); });
    check1<u32, i64>("bfind.s64", int_edges<i64>(),
                     [&](i64 a) { return find(a < 0 ? u64(~a) : u64(a), 63); });
    check1<u32, u32>("bfind.shiftamt.u32", int_edges<u32>(),
                     [&](u32 a) { return find(a, 31) == ~0U ? ~0U : 31 - find(a, 31); });
}

TEST_CASE("bit fields", "[ptx][conformance]") {
    fields<u32>("u32", false);
    fields<i32>("s32", true);
    fields<u64>("u64", false);
    fields<i64>("s64", true);
    std::vector<u32> amounts{0, 1, 5, 31, 32, 40};
    check2<u32, u32>("bmsk.clamp.b32", amounts, [](u32 a, u32 b) {
        u64 m = b >= 32 ? 0xffffffffULL : (1ULL << b) - 1;
        return a >= 32 ? 0U : u32(m << a);
    });
}

TEST_CASE("lop3 truth tables", "[ptx][conformance]") {
    for (u32 table : {0x00U, 0xffU, 0x96U, 0xe8U, 0xcaU, 0x1bU, 0x80U, 0xfeU}) {
        std::vector<u32> a, b, c;
        triples(int_edges<u32>(), std::vector<u32>{0, ~0U, 0x12345678U, 0xf0f0f0f0U},
                std::vector<u32>{0, ~0U, 0xccccccccU}, a, b, c);
        auto d =
            apply<u32, u32, u32, u32>("lop3.b32 %d, %a, %b, %c, " + std::to_string(table) + ";", a, b, c);
        for (std::size_t k = 0; k < a.size(); ++k) {
            u32 want = 0;
            for (int i = 0; i < 32; ++i) {
                u32 at = ((a[k] >> i) & 1) << 2 | ((b[k] >> i) & 1) << 1 | ((c[k] >> i) & 1);
                want |= ((table >> at) & 1) << i;
            }
            REQUIRE(d[k] == want);
        }
    }
}

TEST_CASE("byte permutation", "[ptx][conformance]") {
    std::vector<u32> selectors{0x3210, 0x7654, 0x0123, 0xfedc, 0x8888, 0x4444, 0x9a3b, 0xffff7531};
    auto byte = [](u32 a, u32 b, u32 k) { return u32((u64(b) << 32 | a) >> (8 * k)) & 0xff; };
    check3<u32, u32, u32>("prmt.b32", int_edges<u32>(), selectors, [&](u32 a, u32 b, u32 c) {
        u32 r = 0;
        for (u32 k = 0; k < 4; ++k) {
            u32 s = (c >> (4 * k)) & 15, v = byte(a, b, s & 7);
            if (s & 8) v = v & 0x80 ? 0xff : 0;
            r |= v << (8 * k);
        }
        return r;
    });
    // The named modes, as the table of the manual lists them: byte sources for selectors 0..3.
    struct Mode {
        const char* name;
        u8 from[4][4];  // [selector][byte 3 .. 0]
    };
    const Mode modes[] = {{"f4e", {{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}}},
                          {"b4e", {{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}}},
                          {"rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
                          {"ecl", {{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}}},
                          {"ecr", {{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}}},
                          {"rc16", {{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}}}};
    for (const Mode& m : modes) {
        std::string name = std::string("prmt.b32.") + m.name;
        check3<u32, u32, u32>(name, {0x03020100U, 0x87654321U, 0xfedcba98U}, std::vector<u32>{0, 1, 2, 3},
                              [&](u32 a, u32 b, u32 c) {
                                  u32 r = 0;
                                  for (u32 k = 0; k < 4; ++k) r |= byte(a, b, m.from[c][3 - k]) << (8 * k);
                                  return r;
                              });
    }
}

TEST_CASE("dot products", "[ptx][conformance]") {
    std::vector<u32> c{0, 1, 0x7fffffffU, 0xffffffffU};
    auto dot4 = [](auto x, auto y) {
        using X = decltype(x);
        using Y = decltype(y);
        return [](u32 a, u32 b, u32 add) {
            for (int k = 0; k < 4; ++k) add += u32(i32(X(a >> (8 * k))) * i32(Y(b >> (8 * k))));
            return add;
        };
    };
    check3<u32, u32, u32>("dp4a.u32.u32", int_edges<u32>(), c, dot4(u8(), u8()));
    check3<u32, u32, u32>("dp4a.s32.s32", int_edges<u32>(), c, dot4(i8(), i8()));
    check3<u32, u32, u32>("dp4a.s32.u32", int_edges<u32>(), c, dot4(i8(), u8()));
    check3<u32, u32, u32>("dp2a.lo.s32.s32", int_edges<u32>(), c, [](u32 a, u32 b, u32 add) {
        return add + u32(i32(i16(a)) * i8(b)) + u32(i32(i16(a >> 16)) * i8(b >> 8));
    });
    check3<u32, u32, u32>("dp2a.hi.u32.u32", int_edges<u32>(), c, [](u32 a, u32 b, u32 add) {
        return add + u32(u16(a)) * u8(b >> 16) + (a >> 16) * u8(b >> 24);
    });
}

TEST_CASE("SIMD video instructions", "[ptx][conformance]") {
    check3<u32, u32, u32>("vabsdiff4.u32.u32.u32.add", int_edges<u32>(), {0, 5}, [](u32 a, u32 b, u32 c) {
        for (int k = 0; k < 32; k += 8) c += u32(std::abs(int(u8(a >> k)) - int(u8(b >> k))));
        return c;
    });
    check3<u32, u32, u32>("vadd2.s32.s32.s32.sat", int_edges<u32>(), {0}, [](u32 a, u32 b, u32) {
        u32 r = 0;
        for (int k = 0; k < 32; k += 16) {
            int v = int(i16(a >> k)) + int(i16(b >> k));
            r |= u32(u16(std::min(std::max(v, -32768), 32767))) << k;
        }
        return r;
    });
}
