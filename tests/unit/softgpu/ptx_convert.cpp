// cvt between all types, with rounding, saturation and registers wider than the type.
#include "tests/unit/softgpu/ptx_reference.h"

using namespace softgpu::ptx::test;

namespace {

__extension__ using i128 = __int128;

template <class T>
constexpr const char* name_of() {
    if constexpr (std::is_same_v<T, u8>)
        return "u8";
    else if constexpr (std::is_same_v<T, i8>)
        return "s8";
    else if constexpr (std::is_same_v<T, u16>)
        return "u16";
    else if constexpr (std::is_same_v<T, i16>)
        return "s16";
    else if constexpr (std::is_same_v<T, u32>)
        return "u32";
    else if constexpr (std::is_same_v<T, i32>)
        return "s32";
    else if constexpr (std::is_same_v<T, u64>)
        return "u64";
    else
        return "s64";
}

/// From S held in a 64-bit register (so every source is wider than its type), to D in a 64-bit register.
template <class D, class S>
void int_to_int() {
    for (bool sat : {false, true}) {
        std::string name = std::string("cvt") + (sat ? ".sat." : ".") + name_of<D>() + "." + name_of<S>();
        check1<u64, u64>(name, int_edges<u64>(), [&](u64 v) {
            i128 s = S(v);
            if (sat)
                s = std::min<i128>(std::max<i128>(s, std::numeric_limits<D>::min()),
                                   std::numeric_limits<D>::max());
            D d = D(s);
            return std::numeric_limits<D>::is_signed ? u64(i64(d)) : u64(d);
        });
    }
    // And at the natural width.
    if constexpr (sizeof(D) >= 2 && sizeof(S) >= 2) {
        std::string name = std::string("cvt.") + name_of<D>() + "." + name_of<S>();
        check1<D, S>(name, int_edges<S>(), [](S s) { return D(s); });
    }
}
template <class D>
void from_all() {
    int_to_int<D, u8>();
    int_to_int<D, i8>();
    int_to_int<D, u16>();
    int_to_int<D, i16>();
    int_to_int<D, u32>();
    int_to_int<D, i32>();
    int_to_int<D, u64>();
    int_to_int<D, i64>();
}

const struct {
    const char* name;
    Rounding mode;
} kModes[] = {
    {"rn", Rounding::nearest}, {"rz", Rounding::zero}, {"rm", Rounding::down}, {"rp", Rounding::up}};

template <class D, class S>
D clamped(S v) {
    bool wide = sizeof(D) == 8 || sizeof(S) == 8;
    if (std::isnan(v)) return wide ? D(u64(1) << (sizeof(D) * 8 - 1)) : D(0);
    f128 x = v;
    if (x <= f128(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
    if (x >= f128(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
    return D(x);
}
template <class D, class S, class Reg>
void float_to_int(const std::vector<S>& edges, const char* s) {
    for (auto [mode_name, mode] : kModes) {
        for (bool ftz : {false, true}) {
            if (ftz && sizeof(S) == 8) continue;
            std::string name =
                std::string("cvt.") + mode_name + "i" + (ftz ? ".ftz." : ".") + name_of<D>() + "." + s;
            check1<Reg, S>(name, edges, [&, mode = mode](S v) {
                if constexpr (sizeof(S) == 4) {
                    if (ftz) v = flushed(v);
                }
                S r = with_rounding(mode, [&] { return std::nearbyint(v); });
                D d = clamped<D, S>(r);
                return Reg(std::numeric_limits<D>::is_signed ? i64(d) : i64(u64(d)));
            });
        }
    }
}
template <class S>
void int_to_float() {
    for (auto [mode_name, mode] : kModes) {
        std::string base = std::string("cvt.") + mode_name;
        check1<u32, S>(base + ".f32." + name_of<S>(), int_edges<S>(), [mode = mode](S v) {
            return with_rounding(mode, [&] {
                volatile S x = v;
                volatile float f = float(x);
                return as<u32>(float(f));
            });
        });
        check1<u64, S>(base + ".f64." + name_of<S>(), int_edges<S>(), [mode = mode](S v) {
            return with_rounding(mode, [&] {
                volatile S x = v;
                volatile double f = double(x);
                return as<u64>(double(f));
            });
        });
    }
}

}  // namespace

TEST_CASE("integer conversions", "[ptx][conformance]") {
    from_all<u8>();
    from_all<i8>();
    from_all<u16>();
    from_all<i16>();
    from_all<u32>();
    from_all<i32>();
    from_all<u64>();
    from_all<i64>();
}

TEST_CASE("float to integer conversions", "[ptx][conformance]") {
    std::vector<float> f = float_edges();
    for (float x :
         {2.49F, -0.5F, 255.5F, 256.0F, -128.5F, 32767.5F, 65535.5F, 4294967040.0F, 9.2e18F, 1.8e19F})
        f.push_back(x);
    std::vector<double> g = double_edges();
    for (double x :
         {2.5, -0.49, 255.5, -129.0, 32768.0, 4294967295.5, 2147483648.0, -2147483648.5, 9007199254740991.0})
        g.push_back(x);
    float_to_int<u8, float, u32>(f, "f32");
    float_to_int<i8, float, u32>(f, "f32");
    float_to_int<u16, float, u16>(f, "f32");
    float_to_int<i16, float, u16>(f, "f32");
    float_to_int<u32, float, u32>(f, "f32");
    float_to_int<i32, float, u32>(f, "f32");
    float_to_int<u64, float, u64>(f, "f32");
    float_to_int<i64, float, u64>(f, "f32");
    float_to_int<u16, double, u16>(g, "f64");
    float_to_int<i16, double, u16>(g, "f64");
    float_to_int<u32, double, u32>(g, "f64");
    float_to_int<i32, double, u32>(g, "f64");
    float_to_int<u64, double, u64>(g, "f64");
    float_to_int<i64, double, u64>(g, "f64");
}

TEST_CASE("integer to float conversions", "[ptx][conformance]") {
    int_to_float<u16>();
    int_to_float<i16>();
    int_to_float<u32>();
    int_to_float<i32>();
    int_to_float<u64>();
    int_to_float<i64>();
}

TEST_CASE("float to float conversions", "[ptx][conformance]") {
    check1<u64, float>("cvt.f64.f32", float_edges(), [](float a) { return device_bits(double(a)); });
    check1<u64, float>("cvt.ftz.f64.f32", float_edges(),
                       [](float a) { return device_bits(double(flushed(a))); });
    for (auto [mode_name, mode] : kModes) {
        check1<u32, double>(std::string("cvt.") + mode_name + ".f32.f64", double_edges(),
                            [mode = mode](double a) {
                                return with_rounding(mode, [&] {
                                    volatile double x = a;
                                    volatile float f = float(x);
                                    return device_bits(float(f));
                                });
                            });
        check1<u32, float>(std::string("cvt.") + mode_name + "i.f32.f32", float_edges(),
                           [mode = mode](float a) {
                               return with_rounding(mode, [&] { return device_bits(std::nearbyint(a)); });
                           });
        check1<u64, double>(std::string("cvt.") + mode_name + "i.f64.f64", double_edges(),
                            [mode = mode](double a) {
                                return with_rounding(mode, [&] { return device_bits(std::nearbyint(a)); });
                            });
        for (auto [format, name] : {std::pair{kHalf, "f16"}, std::pair{kBf16, "bf16"}}) {
            if (mode == Rounding::down || mode == Rounding::up) {
                if (format.exponent_bits == 8) continue;
            }
            check1<u16, float>(
                std::string("cvt.") + mode_name + "." + name + ".f32", float_edges(),
                [mode = mode, format = format](float a) {
                    return u16(round_to(std::isnan(a) ? f128(a) : f128(a), format, mode, std::signbit(a)));
                });
        }
    }
    check1<u32, float>("cvt.sat.f32.f32", float_edges(),
                       [](float a) { return as<u32>(a > 0 ? std::min(a, 1.0F) : 0.0F); });
    check1<u16, double>("cvt.rn.f16.f64", double_edges(),
                        [](double a) { return u16(round_to(a, kHalf, Rounding::nearest, std::signbit(a))); });
    std::vector<u16> halves;
    for (u32 h = 0; h < 0x10000; h += 7) halves.push_back(u16(h));
    check1<u32, u16>("cvt.f32.f16", halves, [](u16 a) { return device_bits(float(value_of(a, kHalf))); });
    check1<u32, u16>("cvt.f32.bf16", halves, [](u16 a) { return device_bits(float(value_of(a, kBf16))); });
    check1<u32, float>("cvt.rna.tf32.f32", {1.0F, 1.0005F, -3.7F, 65519.0F},
                       [](float a) { return (as<u32>(a) + 0x1000U) & 0xffffe000U; });
}

TEST_CASE("packed conversions", "[ptx][conformance]") {
    for (auto [format, name] : {std::pair{kHalf, "f16x2"}, std::pair{kBf16, "bf16x2"}}) {
        check2<u32, float>(std::string("cvt.rn.") + name + ".f32", float_edges(),
                           [format = format](float a, float b) {
                               return round_to(a, format, Rounding::nearest, std::signbit(a)) << 16 |
                                      round_to(b, format, Rounding::nearest, std::signbit(b));
                           });
        check2<u32, float>(std::string("cvt.rz.relu.") + name + ".f32", float_edges(),
                           [format = format](float a, float b) {
                               auto one = [&](float v) {
                                   u32 r = round_to(v, format, Rounding::zero, std::signbit(v));
                                   return r & 0x8000U ? 0U : r;
                               };
                               return one(a) << 16 | one(b);
                           });
    }
    check2<u32, i32>("cvt.pack.sat.u16.s32", int_edges<i32>(), [](i32 a, i32 b) {
        auto c = [](i32 v) { return u32(std::min(std::max(v, 0), 65535)); };
        return c(a) << 16 | c(b);
    });
    check3<u32, i32, u32>(
        "cvt.pack.sat.s8.s32.b32", int_edges<i32>(), int_edges<u32>(), [](i32 a, i32 b, u32 c) {
            auto clamp = [](i32 v) { return u32(u8(i8(std::min(std::max(v, -128), 127)))); };
            return c << 16 | clamp(a) << 8 | clamp(b);
        });
    // e4m3 and e5m2: all patterns survive a trip through halves.
    for (const char* f : {"e4m3x2", "e5m2x2"}) {
        std::vector<u16> all;
        for (u32 v = 0; v < 256; ++v) {
            bool special = f[1] == '4' ? (v & 0x7f) == 0x7f : (v & 0x7f) >= 0x7c;
            if (!special) all.push_back(u16(v << 8 | v));
        }
        auto d = apply<u16, u16>(
            std::string("cvt.rn.f16x2.") + f + " %t0, %a;\ncvt.rn.satfinite." + f + ".f16x2 %d, %t0;", all);
        REQUIRE(d == all);
    }
    auto d = apply<u16, float, float>("cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", {1.0F, 1e9F, NAN, 0.0625F},
                                      {-2.0F, -1e9F, 0.0F, 448.0F});
    REQUIRE(d == std::vector<u16>{0x38c0, 0x7efe, 0x7f00, 0x187e});
}
