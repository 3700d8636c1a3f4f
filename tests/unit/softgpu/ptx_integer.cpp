// Integer arithmetic, comparison, selection and carry chains against the host.
#include "tests/unit/softgpu/ptx_apply.h"

using namespace softgpu::ptx::test;

namespace {

__extension__ using u128 = unsigned __int128;
__extension__ using i128 = __int128;

template <class T>
struct WideOf;
template <>
struct WideOf<u16> {
    using type = u32;
};
template <>
struct WideOf<i16> {
    using type = i32;
};
template <>
struct WideOf<u32> {
    using type = u64;
};
template <>
struct WideOf<i32> {
    using type = i64;
};
template <>
struct WideOf<u64> {
    using type = u128;
};
template <>
struct WideOf<i64> {
    using type = i128;
};

template <class T>
void arithmetic(const std::string& t) {
    using W = typename WideOf<T>::type;
    constexpr bool is_signed = std::numeric_limits<T>::is_signed;
    constexpr int bits = int(sizeof(T)) * 8;
    auto e = int_edges<T>();
    check2<T, T>("add." + t, e, [](T a, T b) { return T(u64(a) + u64(b)); });
    check2<T, T>("sub." + t, e, [](T a, T b) { return T(u64(a) - u64(b)); });
    check2<T, T>("mul.lo." + t, e, [](T a, T b) { return T(u64(a) * u64(b)); });
    check2<T, T>("mul.hi." + t, e, [](T a, T b) { return T((W(a) * W(b)) >> bits); });
    check2<T, T>("min." + t, e, [](T a, T b) { return a < b ? a : b; });
    check2<T, T>("max." + t, e, [](T a, T b) { return a > b ? a : b; });
    check2<T, T>("div." + t, e, [](T a, T b) {
        if (b == 0) return T(-1);
        if (is_signed && b == T(-1)) return T(0 - u64(a));
        return T(a / b);
    });
    check2<T, T>("rem." + t, e, [](T a, T b) {
        if (b == 0) return a;
        if (is_signed && b == T(-1)) return T(0);
        return T(a % b);
    });
    std::vector<T> few{0, 1, T(-1), std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), 12345};
    check3<T, T, T>("mad.lo." + t, e, few, [](T a, T b, T c) { return T(u64(a) * u64(b) + u64(c)); });
    check3<T, T, T>("mad.hi." + t, e, few,
                    [](T a, T b, T c) { return T(u64(T((W(a) * W(b)) >> bits)) + u64(c)); });
    check3<T, T, T>("sad." + t, e, few,
                    [](T a, T b, T c) { return T(u64(c) + (a < b ? u64(b) - u64(a) : u64(a) - u64(b))); });
    if (is_signed) {
        check1<T, T>("neg." + t, e, [](T a) { return T(0 - u64(a)); });
        check1<T, T>("abs." + t, e, [](T a) { return a < T(0) ? T(0 - u64(a)) : a; });
    }
}

template <class T>
void wide(const std::string& t) {
    using W = typename WideOf<T>::type;
    auto e = int_edges<T>();
    check2<W, T>("mul.wide." + t, e, [](T a, T b) { return W(W(a) * W(b)); });
    std::vector<W> few{0, 1, W(-1), std::numeric_limits<W>::max(), std::numeric_limits<W>::min()};
    check3<W, T, W>("mad.wide." + t, e, few, [](T a, T b, W c) { return W(u64(W(a) * W(b)) + u64(c)); });
}

template <class T>
void compare(const std::string& t) {
    auto e = int_edges<T>();
    auto one = [&](const char* op, auto host) {
        std::vector<T> a, b;
        pairs(e, e, a, b);
        auto d = apply<u32, T, T>(
            std::string("setp.") + op + "." + t + " %p, %a, %b;\nselp.u32 %d, 1, 0, %p;", a, b);
        auto s = apply<u32, T, T>(std::string("set.") + op + ".u32." + t + " %d, %a, %b;", a, b);
        auto f = apply<u32, T, T>(std::string("set.") + op + ".f32." + t + " %d, %a, %b;", a, b);
        for (std::size_t k = 0; k < a.size(); ++k) {
            bool want = host(a[k], b[k]);
            INFO(op << "." << t << " " << +a[k] << " " << +b[k]);
            REQUIRE(d[k] == (want ? 1U : 0U));
            REQUIRE(s[k] == (want ? 0xffffffffU : 0U));
            REQUIRE(f[k] == (want ? 0x3f800000U : 0U));
        }
    };
    one("eq", [](T a, T b) { return a == b; });
    one("ne", [](T a, T b) { return a != b; });
    one("lt", [](T a, T b) { return a < b; });
    one("le", [](T a, T b) { return a <= b; });
    one("gt", [](T a, T b) { return a > b; });
    one("ge", [](T a, T b) { return a >= b; });
    if (!std::numeric_limits<T>::is_signed) {
        one("lo", [](T a, T b) { return a < b; });
        one("ls", [](T a, T b) { return a <= b; });
        one("hi", [](T a, T b) { return a > b; });
        one("hs", [](T a, T b) { return a >= b; });
    }
}

}  // namespace

TEST_CASE("integer arithmetic", "[ptx][conformance]") {
    arithmetic<u16>("u16");
    arithmetic<i16>("s16");
    arithmetic<u32>("u32");
    arithmetic<i32>("s32");
    arithmetic<u64>("u64");
    arithmetic<i64>("s64");
}

TEST_CASE("wide products", "[ptx][conformance]") {
    wide<u16>("u16");
    wide<i16>("s16");
    wide<u32>("u32");
    wide<i32>("s32");
}

TEST_CASE("integer saturation and 24-bit products", "[ptx][conformance]") {
    auto e = int_edges<i32>();
    auto clamp = [](i64 v) { return i32(std::min<i64>(std::max<i64>(v, INT32_MIN), INT32_MAX)); };
    check2<i32, i32>("add.sat.s32", e, [&](i32 a, i32 b) { return clamp(i64(a) + b); });
    check2<i32, i32>("sub.sat.s32", e, [&](i32 a, i32 b) { return clamp(i64(a) - b); });
    check3<i32, i32, i32>("mad.hi.sat.s32", e, e,
                          [&](i32 a, i32 b, i32 c) { return clamp(((i64(a) * b) >> 32) + c); });
    auto low = [](i32 v) { return i64(i32(u32(v) << 8) >> 8); };
    check2<i32, i32>("mul24.lo.s32", e, [&](i32 a, i32 b) { return i32(low(a) * low(b)); });
    check2<i32, i32>("mul24.hi.s32", e, [&](i32 a, i32 b) { return i32((low(a) * low(b)) >> 16); });
    check2<u32, u32>("mul24.lo.u32", int_edges<u32>(),
                     [](u32 a, u32 b) { return u32(u64(a & 0xffffff) * (b & 0xffffff)); });
    check2<u32, u32>("mul24.hi.u32", int_edges<u32>(),
                     [](u32 a, u32 b) { return u32((u64(a & 0xffffff) * (b & 0xffffff)) >> 16); });
    check3<i32, i32, i32>("mad24.lo.s32", e, e,
                          [&](i32 a, i32 b, i32 c) { return i32(u32(low(a) * low(b)) + u32(c)); });
}

TEST_CASE("carry chains", "[ptx][conformance]") {
    auto e = int_edges<u64>();
    std::vector<u64> a, b;
    pairs(e, e, a, b);
    std::string split = ".reg .b32 %l<8>;\nmov.b64 {%l0, %l1}, %a;\nmov.b64 {%l2, %l3}, %b;\n";
    auto sum = apply<u64, u64, u64>(
        split + "add.cc.u32 %l4, %l0, %l2;\naddc.u32 %l5, %l1, %l3;\nmov.b64 %d, {%l4, %l5};", a, b);
    auto difference = apply<u64, u64, u64>(
        split + "sub.cc.u32 %l4, %l0, %l2;\nsubc.u32 %l5, %l1, %l3;\nmov.b64 %d, {%l4, %l5};", a, b);
    auto borrow = apply<u64, u64, u64>(split +
                                           "sub.cc.u32 %l4, %l0, %l2;\nsubc.cc.u32 %l4, %l1, %l3;\nsubc.u32 "
                                           "%l4, 0, 0;\nmov.b64 %d, {%l4, %l4};",
                                       a, b);
    auto product = apply<u64, u64, u64>(
        split +
            "mul.lo.u32 %l4, %l0, %l2;\nmul.hi.u32 %l5, %l0, %l2;\nmad.lo.cc.u32 %l5, %l0, %l3, %l5;\n"
            "madc.hi.u32 %l6, %l0, %l3, 0;\nmad.lo.cc.u32 %l5, %l1, %l2, %l5;\nmadc.hi.u32 %l6, %l1, %l2, "
            "%l6;\nmov.b64 %d, {%l5, %l4};",
        a, b);
    for (std::size_t k = 0; k < a.size(); ++k) {
        REQUIRE(sum[k] == a[k] + b[k]);
        REQUIRE(difference[k] == a[k] - b[k]);
        REQUIRE(borrow[k] == (a[k] < b[k] ? ~u64(0) : 0));
        u64 p = a[k] * b[k];
        REQUIRE(product[k] == (p << 32 | p >> 32));
    }
    auto wide = apply<u64, u64, u64>(".reg .b64 %w<2>;\nadd.cc.u64 %w0, %a, %b;\naddc.u64 %d, 0, 0;", a, b);
    for (std::size_t k = 0; k < a.size(); ++k) REQUIRE(wide[k] == (a[k] + b[k] < a[k] ? 1 : 0));
}

TEST_CASE("integer comparison", "[ptx][conformance]") {
    compare<u16>("u16");
    compare<i16>("s16");
    compare<u32>("u32");
    compare<i32>("s32");
    compare<u64>("u64");
    compare<i64>("s64");
}

TEST_CASE("predicate combinations of setp", "[ptx][conformance]") {
    std::vector<u32> a, b;
    for (u32 x = 0; x < 4; ++x) {
        for (u32 y = 0; y < 4; ++y) a.push_back(x), b.push_back(y);
    }
    for (const char* op : {"and", "or", "xor"}) {
        for (bool negate : {false, true}) {
            std::string body = ".reg .pred %z;\nsetp.gt.u32 %z, %a, 1;\nsetp.lt." + std::string(op) +
                               ".u32 %p|%q, %a, %b, " + (negate ? "!" : "") +
                               "%z;\nselp.u32 %t0, 1, 0, %p;\nselp.u32 %t1, 2, 0, %q;\nor.b32 %d, %t0, %t1;";
            auto d = apply<u32, u32, u32>(body, a, b);
            for (std::size_t k = 0; k < a.size(); ++k) {
                bool c = (a[k] > 1) != negate, less = a[k] < b[k];
                auto join = [&](bool x) { return op[0] == 'a' ? x && c : op[0] == 'o' ? x || c : x != c; };
                REQUIRE(d[k] == (join(less) ? 1U : 0U) + (join(!less) ? 2U : 0U));
            }
        }
    }
}

TEST_CASE("select", "[ptx][conformance]") {
    auto e = int_edges<i32>();
    check3<u32, u32, i32>("slct.u32.s32", {1, 2, 0xffffffffU}, e,
                          [](u32 a, u32 b, i32 c) { return c >= 0 ? a : b; });
    check3<u64, u64, float>("slct.u64.f32", {1, 2, ~u64(0)}, float_edges(),
                            [](u64 a, u64 b, float c) { return c >= 0 ? a : b; });
    auto d =
        apply<u16, u16, u16>("setp.lt.s16 %p, %a, %b;\nselp.b16 %d, %a, %b, !%p;", {1, 5, 0xffff}, {2, 3, 4});
    REQUIRE(d == std::vector<u16>{2, 5, 4});
}
