// Single and double precision in all roundings, with .ftz and .sat, comparisons, minima, and approximations.
#include "tests/unit/softgpu/ptx_reference.h"

using namespace softgpu::ptx::test;

namespace {

const struct {
    const char* name;
    Rounding mode;
} kModes[] = {
    {"rn", Rounding::nearest}, {"rz", Rounding::zero}, {"rm", Rounding::down}, {"rp", Rounding::up}};

float saturated(float v) {
    return v > 0 ? std::min(v, 1.0F) : 0.0F;
}

template <class T>
std::vector<T> edges();
template <>
std::vector<float> edges() {
    return float_edges();
}
template <>
std::vector<double> edges() {
    return double_edges();
}

template <class T, class Bits>
void rounded(const std::string& t) {
    struct Op {
        const char* name;
        char op;
        int operands;
    };
    for (const Op& o : {Op{"add", '+', 2}, Op{"sub", '-', 2}, Op{"mul", '*', 2}, Op{"div", '/', 2},
                        Op{"rcp", 'r', 1}, Op{"sqrt", 's', 1}, Op{"fma", 'f', 3}}) {
        for (auto [mode_name, mode] : kModes) {
            for (int variant = 0; variant < 4; ++variant) {
                bool ftz = variant & 1, sat = variant & 2;
                if ((ftz || sat) && sizeof(T) == 8) continue;
                if (sat && (o.op == '/' || o.op == 'r' || o.op == 's')) continue;
                std::vector<T> e = edges<T>(), a, b, c;
                std::vector<T> few{T(0),
                                   T(-0.0),
                                   T(1),
                                   T(-3.3),
                                   std::numeric_limits<T>::infinity(),
                                   std::numeric_limits<T>::quiet_NaN(),
                                   std::numeric_limits<T>::denorm_min(),
                                   T(1e-30)};
                if (o.operands == 1)
                    a = e;
                else if (o.operands == 2)
                    pairs(e, e, a, b);
                else
                    triples(e, e, few, a, b, c);
                std::string name = std::string(o.name) + "." + mode_name + (ftz ? ".ftz" : "") +
                                   (sat ? ".sat" : "") + "." + t;
                std::string list = o.operands == 1   ? "%d, %a;"
                                   : o.operands == 2 ? "%d, %a, %b;"
                                                     : "%d, %a, %b, %c;";
                auto d = apply<Bits, T, T, T>(name + " " + list, a, b, c);
                b.resize(a.size()), c.resize(a.size());
                for (std::size_t k = 0; k < a.size(); ++k) {
                    T x = a[k], y = b[k], z = c[k];
                    if constexpr (sizeof(T) == 4) {
                        if (ftz) x = flushed(x), y = flushed(y), z = flushed(z);
                    }
                    T want = with_rounding(mode, [&] { return host_op<T>(o.op, x, y, z); });
                    if constexpr (sizeof(T) == 4) {
                        if (sat) want = saturated(want);
                        if (ftz) want = flushed(want);
                    }
                    if (d[k] != device_bits(want)) {
                        INFO(name << " of " << a[k] << ", " << b[k] << ", " << c[k] << " gives "
                                  << as<T>(d[k]) << ", not " << want);
                        REQUIRE(false);
                    }
                }
            }
        }
    }
}

template <class T>
void comparisons(const std::string& t, bool ftz) {
    std::vector<T> a, b;
    pairs(edges<T>(), edges<T>(), a, b);
    auto one = [&](const char* op, auto host) {
        std::string name = std::string("setp.") + op + (ftz ? ".ftz." : ".") + t;
        auto d = apply<u32, T, T>(name + " %p, %a, %b;\nselp.u32 %d, 1, 0, %p;", a, b);
        for (std::size_t k = 0; k < a.size(); ++k) {
            T x = a[k], y = b[k];
            if constexpr (sizeof(T) == 4) {
                if (ftz) x = flushed(x), y = flushed(y);
            }
            INFO(name << " " << a[k] << " " << b[k]);
            REQUIRE(d[k] == (host(x, y) ? 1U : 0U));
        }
    };
    auto un = [](T x, T y) { return std::isnan(x) || std::isnan(y); };
    one("eq", [](T x, T y) { return x == y; });
    one("ne", [&](T x, T y) { return !un(x, y) && x != y; });
    one("lt", [](T x, T y) { return x < y; });
    one("le", [](T x, T y) { return x <= y; });
    one("gt", [](T x, T y) { return x > y; });
    one("ge", [](T x, T y) { return x >= y; });
    one("equ", [&](T x, T y) { return un(x, y) || x == y; });
    one("neu", [](T x, T y) { return x != y; });
    one("ltu", [&](T x, T y) { return un(x, y) || x < y; });
    one("leu", [&](T x, T y) { return un(x, y) || x <= y; });
    one("gtu", [&](T x, T y) { return un(x, y) || x > y; });
    one("geu", [&](T x, T y) { return un(x, y) || x >= y; });
    one("num", [&](T x, T y) { return !un(x, y); });
    one("nan", [&](T x, T y) { return un(x, y); });
}

template <class T>
T minimum(T a, T b, bool most) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) != most ? a : b;
    return (a < b) != most ? a : b;
}

}  // namespace

TEST_CASE("single precision arithmetic in all roundings", "[ptx][conformance]") {
    rounded<float, u32>("f32");
}
TEST_CASE("double precision arithmetic in all roundings", "[ptx][conformance]") {
    rounded<double, u64>("f64");
}

TEST_CASE("float comparisons", "[ptx][conformance]") {
    comparisons<float>("f32", false);
    comparisons<float>("f32", true);
    comparisons<double>("f64", false);
}

TEST_CASE("float minima and maxima", "[ptx][conformance]") {
    for (bool most : {false, true}) {
        std::string name = most ? "max" : "min";
        check2<u32, float>(name + ".f32", float_edges(),
                           [&](float a, float b) { return device_bits(minimum(a, b, most)); });
        check2<u64, double>(name + ".f64", double_edges(),
                            [&](double a, double b) { return device_bits(minimum(a, b, most)); });
        check2<u32, float>(name + ".ftz.f32", float_edges(), [&](float a, float b) {
            return device_bits(minimum(flushed(a), flushed(b), most));
        });
        check2<u32, float>(name + ".NaN.f32", float_edges(), [&](float a, float b) {
            return std::isnan(a) || std::isnan(b) ? 0x7fffffffU : device_bits(minimum(a, b, most));
        });
        check2<u32, float>(name + ".xorsign.abs.f32", float_edges(), [&](float a, float b) {
            float r = minimum(std::fabs(a), std::fabs(b), most);
            if (std::isnan(r)) return 0x7fffffffU;
            return device_bits(std::signbit(a) != std::signbit(b) ? -r : r);
        });
    }
}

TEST_CASE("float sign operations and classes", "[ptx][conformance]") {
    check1<u32, float>("abs.f32", float_edges(), [](float a) { return as<u32>(a) & 0x7fffffffU; });
    check1<u32, float>("neg.f32", float_edges(), [](float a) { return as<u32>(a) ^ 0x80000000U; });
    check1<u32, float>("neg.ftz.f32", float_edges(),
                       [](float a) { return as<u32>(flushed(a)) ^ 0x80000000U; });
    check1<u64, double>("abs.f64", double_edges(), [](double a) { return as<u64>(a) & ~(u64(1) << 63); });
    check2<u32, float>("copysign.f32", float_edges(), [](float a, float b) {
        return (as<u32>(a) & 0x80000000U) | (as<u32>(b) & 0x7fffffffU);
    });
    auto test = [](const char* what, auto host) {
        std::vector<float> e = float_edges();
        auto d = apply<u32, float>(std::string("testp.") + what + ".f32 %p, %a;\nselp.u32 %d, 1, 0, %p;", e);
        std::vector<double> f = double_edges();
        auto g = apply<u32, double>(std::string("testp.") + what + ".f64 %p, %a;\nselp.u32 %d, 1, 0, %p;", f);
        for (std::size_t k = 0; k < e.size(); ++k) REQUIRE(d[k] == (host(std::fpclassify(e[k])) ? 1U : 0U));
        for (std::size_t k = 0; k < f.size(); ++k) REQUIRE(g[k] == (host(std::fpclassify(f[k])) ? 1U : 0U));
    };
    test("finite", [](int c) { return c != FP_INFINITE && c != FP_NAN; });
    test("infinite", [](int c) { return c == FP_INFINITE; });
    test("number", [](int c) { return c != FP_NAN; });
    test("notanumber", [](int c) { return c == FP_NAN; });
    test("normal", [](int c) { return c == FP_NORMAL; });
    test("subnormal", [](int c) { return c == FP_SUBNORMAL; });
}

TEST_CASE("approximate functions", "[ptx][conformance]") {
    std::vector<float> v = float_edges();
    for (int k = -400; k <= 400; ++k) v.push_back(float(k) * 0.37F);
    auto near = [&](const std::string& name, auto host, double error) {
        for (bool ftz : {false, true}) {
            auto d = apply<u32, float>(name + (ftz ? ".approx.ftz.f32" : ".approx.f32") + " %d, %a;", v);
            for (std::size_t k = 0; k < v.size(); ++k) {
                float x = ftz ? flushed(v[k]) : v[k];
                auto want = float(host(double(x)));
                if (ftz) want = flushed(want);
                float got = as<float>(d[k]);
                INFO(name << " of " << v[k] << " gives " << got << ", not " << want);
                if (std::isnan(want))
                    REQUIRE(d[k] == 0x7fffffffU);
                else if (std::isinf(want) || want == 0)
                    REQUIRE(d[k] == as<u32>(want));
                else
                    REQUIRE(std::fabs(got - want) <= std::max(error * std::fabs(double(want)), 1e-44));
            }
        }
    };
    near(
        "ex2", [](double x) { return std::exp2(x); }, 6e-8);
    near(
        "lg2", [](double x) { return std::log2(x); }, 6e-8);
    near(
        "rcp", [](double x) { return 1 / x; }, 6e-8);
    near(
        "rsqrt", [](double x) { return 1 / std::sqrt(x); }, 6e-8);
    near(
        "sqrt", [](double x) { return std::sqrt(x); }, 6e-8);
    std::vector<float> small;
    for (float x : v) {
        if (std::fabs(x) < 1e5F) small.push_back(x);
    }
    v = small;
    near(
        "sin", [](double x) { return std::sin(x); }, 6e-8);
    near(
        "cos", [](double x) { return std::cos(x); }, 6e-8);
    auto t = apply<float, float>("tanh.approx.f32 %d, %a;", v);
    for (std::size_t k = 0; k < v.size(); ++k)
        REQUIRE(t[k] == Approx(std::tanh(v[k])).epsilon(1e-6).margin(1e-40));
    check2<u32, float>("div.approx.f32", float_edges(),
                       [](float a, float b) { return device_bits(host_op<float>('/', a, b, 0)); });
    check2<u32, float>("div.full.f32", float_edges(),
                       [](float a, float b) { return device_bits(host_op<float>('/', a, b, 0)); });
}
