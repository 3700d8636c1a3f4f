// f16 and bf16 arithmetic, scalar and in pairs, against exact references.
#include "tests/unit/softgpu/ptx_reference.h"

using namespace softgpu::ptx::test;

namespace {

std::vector<u16> edges() {
    return {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x3c01,
            0x3555, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x3f80, 0xbf80, 0x7f7f,
            0x7f80, 0xff80, 0x4248, 0x1234, 0x9abc, 0x5678, 0x0080, 0x3bff};
}

bool negative(u32 v) {
    return (v & 0x8000U) != 0;
}
bool is_nan(u32 v, Format f) {
    return (v & 0x7fffU) > (((1U << f.exponent_bits) - 1) << f.mantissa_bits);
}
u16 flush(u16 v, Format f) {
    return (v & (((1U << f.exponent_bits) - 1) << f.mantissa_bits)) == 0 ? u16(v & 0x8000) : v;
}

u16 add(u16 a, u16 b, Format f) {
    f128 x = value_of(a, f), y = value_of(b, f);
    return u16(round_to(x + y, f, Rounding::nearest, negative(a) && negative(b)));
}
u16 mul(u16 a, u16 b, Format f) {
    return u16(round_to(value_of(a, f) * value_of(b, f), f, Rounding::nearest, negative(a) != negative(b)));
}
u16 fma(u16 a, u16 b, u16 c, Format f) {
    // Exact for f16; for bf16 sums of far apart magnitudes only lose bits far below the rounding.
    bool sign = (negative(a) != negative(b)) && negative(c);
    return u16(round_to(value_of(a, f) * value_of(b, f) + value_of(c, f), f, Rounding::nearest, sign));
}

void family(const std::string& t, Format f) {
    check2<u16, u16>("add.rn." + t, edges(), [&](u16 a, u16 b) { return add(a, b, f); });
    check2<u16, u16>("sub.rn." + t, edges(),
                     [&](u16 a, u16 b) { return add(a, is_nan(b, f) ? b : u16(b ^ 0x8000), f); });
    check2<u16, u16>("mul.rn." + t, edges(), [&](u16 a, u16 b) { return mul(a, b, f); });
    check3<u16, u16, u16>("fma.rn." + t, edges(), edges(),
                          [&](u16 a, u16 b, u16 c) { return fma(a, b, c, f); });
    check3<u16, u16, u16>("fma.rn.relu." + t, edges(), {0, 0xbc00, 0x3c00}, [&](u16 a, u16 b, u16 c) {
        u16 r = fma(a, b, c, f);
        return is_nan(r, f) ? r : negative(r) ? u16(0) : r;
    });
    check1<u16, u16>("neg." + t, edges(), [](u16 a) { return u16(a ^ 0x8000); });
    check1<u16, u16>("abs." + t, edges(), [](u16 a) { return u16(a & 0x7fff); });
    for (bool most : {false, true}) {
        std::string name = most ? "max" : "min";
        auto pick = [&](u16 a, u16 b) {
            if (is_nan(a, f) && is_nan(b, f)) return u16(0x7fff);
            if (is_nan(a, f)) return b;
            if (is_nan(b, f)) return a;
            f128 x = value_of(a, f), y = value_of(b, f);
            if (x == y) return negative(a) != most ? a : b;
            return (x < y) != most ? a : b;
        };
        check2<u16, u16>(name + "." + t, edges(), pick);
        check2<u16, u16>(name + ".NaN." + t, edges(), [&](u16 a, u16 b) {
            return is_nan(a, f) || is_nan(b, f) ? u16(0x7fff) : pick(a, b);
        });
    }
    // Pairs do the same on both halves.
    std::vector<u32> two;
    for (u16 a : edges()) {
        for (u16 b : {u16(0x3c00), u16(0x8001), u16(0x7bff)}) two.push_back(u32(a) << 16 | b);
    }
    auto both = [](u32 a, u32 b, auto g) {
        return u32(g(u16(a >> 16), u16(b >> 16))) << 16 | g(u16(a), u16(b));
    };
    check2<u32, u32>("add.rn." + t + "x2", two,
                     [&](u32 a, u32 b) { return both(a, b, [&](u16 x, u16 y) { return add(x, y, f); }); });
    check2<u32, u32>("mul.rn." + t + "x2", two,
                     [&](u32 a, u32 b) { return both(a, b, [&](u16 x, u16 y) { return mul(x, y, f); }); });
    check3<u32, u32, u32>("fma.rn." + t + "x2", two, {0x3c003c00U, 0x80010400U}, [&](u32 a, u32 b, u32 c) {
        return u32(fma(u16(a >> 16), u16(b >> 16), u16(c >> 16), f)) << 16 | fma(u16(a), u16(b), u16(c), f);
    });
    // Comparisons.
    std::vector<u16> a, b;
    pairs(edges(), edges(), a, b);
    auto d = apply<u32, u16, u16>("setp.ltu." + t + " %p, %a, %b;\nselp.u32 %d, 1, 0, %p;", a, b);
    for (std::size_t k = 0; k < a.size(); ++k) {
        bool want = is_nan(a[k], f) || is_nan(b[k], f) || value_of(a[k], f) < value_of(b[k], f);
        REQUIRE(d[k] == (want ? 1U : 0U));
    }
    std::string one = f.exponent_bits == 5 ? "3c00" : "3f80";
    auto e = apply<u32, u32, u32>("set.gt." + t + "x2." + t + "x2 %d, %a, %b;",
                                  {u32(std::stoul(one + "0000", nullptr, 16))}, {1});
    REQUIRE(e[0] == u32(std::stoul(one + "0000", nullptr, 16)));
}

}  // namespace

TEST_CASE("half precision", "[ptx][conformance]") {
    family("f16", kHalf);
    check2<u16, u16>("add.ftz.f16", edges(),
                     [](u16 a, u16 b) { return flush(add(flush(a, kHalf), flush(b, kHalf), kHalf), kHalf); });
    check2<u16, u16>("mul.sat.f16", edges(), [](u16 a, u16 b) {
        u16 r = mul(a, b, kHalf);
        return is_nan(r, kHalf) || negative(r) ? u16(0) : r > 0x3c00 ? u16(0x3c00) : r;
    });
}
TEST_CASE("bfloat16", "[ptx][conformance]") {
    family("bf16", kBf16);
}
