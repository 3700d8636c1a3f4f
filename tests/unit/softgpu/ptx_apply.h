// Runs one PTX instruction (or a few) on every combination of edge values and gives the results back.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/unit/softgpu/ptx_memory.h"

namespace softgpu::ptx::test {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

template <class T>
std::string bits_type() {
    return "b" + std::to_string(sizeof(T) * 8);
}

/// `body` uses %a, %b, %c (inputs of types A, B, C) and writes %d (type D). It may use predicates %p, %q and
/// 32-bit registers %t<4>.
template <class D, class A, class B = u32, class C = u32>
std::vector<D> apply(const std::string& body, const std::vector<A>& a, const std::vector<B>& b = {},
                     const std::vector<C>& c = {}) {
    std::string text =
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 pa, .param .u64 pb, "
        ".param .u64 pc, .param .u64 pd, .param .u32 pn)\n{\n.reg .pred %p, %q, %out;\n.reg .b32 %i, %n, %s, "
        "%t<4>;\n"
        ".reg .b64 %x, %o;\n.reg ." +
        bits_type<A>() + " %a;\n.reg ." + bits_type<B>() + " %b;\n.reg ." + bits_type<C>() + " %c;\n.reg ." +
        bits_type<D>() +
        " %d;\n"
        "mov.u32 %i, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %s, %tid.x;\nmad.lo.u32 %i, %i, %n, %s;\n"
        "ld.param.u32 %n, [pn];\nsetp.ge.u32 %out, %i, %n;\n@%out ret;\n";
    auto load = [&](const char* param, const char* reg, std::size_t size) {
        text += "ld.param.u64 %x, [" + std::string(param) + "];\nmul.wide.u32 %o, %i, " +
                std::to_string(size) + ";\nadd.u64 %x, %x, %o;\nld.global.b" + std::to_string(size * 8) +
                " " + reg + ", [%x];\n";
    };
    load("pa", "%a", sizeof(A));
    if (!b.empty()) load("pb", "%b", sizeof(B));
    if (!c.empty()) load("pc", "%c", sizeof(C));
    text += body;
    text += "\nld.param.u64 %x, [pd];\nmul.wide.u32 %o, %i, " + std::to_string(sizeof(D)) +
            ";\nadd.u64 %x, %x, %o;\nst.global." + bits_type<D>() + " [%x], %d;\nret;\n}\n";
    TestMemory memory;
    INFO(body);
    std::unique_ptr<Module> module;
    try {
        module = load_text(text, memory);
    } catch (const PtxError& e) {
        FAIL(body << ": " << e.what());
    }
    Array<A> da(memory, a);
    Array<B> db(memory, b.empty() ? std::vector<B>(1) : b);
    Array<C> dc(memory, c.empty() ? std::vector<C>(1) : c);
    Array<D> dd(memory, a.size());
    u32 n = u32(a.size());
    LaunchResult r = run(*module, "k", memory, {(n + 63) / 64, 1, 1}, {64, 1, 1}, Params(da, db, dc, dd, n));
    INFO(r.detail);
    REQUIRE(r.fault == Fault::none);
    return {dd.data(), dd.data() + n};
}

/// All pairs and triples of edge values.
template <class A, class B>
void pairs(const std::vector<A>& x, const std::vector<B>& y, std::vector<A>& a, std::vector<B>& b) {
    for (const A& i : x) {
        for (const B& j : y) a.push_back(i), b.push_back(j);
    }
}
template <class A, class B, class C>
void triples(const std::vector<A>& x, const std::vector<B>& y, const std::vector<C>& z, std::vector<A>& a,
             std::vector<B>& b, std::vector<C>& c) {
    for (const A& i : x) {
        for (const B& j : y) {
            for (const C& k : z) a.push_back(i), b.push_back(j), c.push_back(k);
        }
    }
}

template <class T>
std::vector<T> int_edges() {
    using L = std::numeric_limits<T>;
    std::vector<T> v{0,
                     1,
                     2,
                     3,
                     7,
                     31,
                     32,
                     33,
                     100,
                     T(L::max() / 3),
                     T(L::max() - 1),
                     L::max(),
                     L::min(),
                     T(L::min() + 1),
                     T(-1),
                     T(-2),
                     T(-7)};
    for (int k = 0; k < 8; ++k) v.push_back(T(0x9e3779b97f4a7c15ULL * unsigned(k + 1) >> 7));
    return v;
}
inline std::vector<float> float_edges() {
    using L = std::numeric_limits<float>;
    return {0.0F,
            -0.0F,
            1.0F,
            -1.0F,
            0.5F,
            1.5F,
            2.5F,
            -2.5F,
            0.1F,
            3.14159F,
            1e10F,
            -1e10F,
            123456.7F,
            16777217.0F,
            L::max(),
            -L::max(),
            L::min(),
            L::denorm_min(),
            -L::denorm_min(),
            1e-40F,
            L::infinity(),
            -L::infinity(),
            L::quiet_NaN(),
            65504.0F,
            65520.0F,
            6e-8F,
            2147483648.0F,
            -2147483904.0F,
            1.0000001F,
            0.99999994F,
            1e-20F,
            7.5e30F};
}
inline std::vector<double> double_edges() {
    using L = std::numeric_limits<double>;
    return {0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            2.5,
            -3.5,
            0.1,
            1e100,
            -1e100,
            9007199254740993.0,
            4294967296.0,
            2147483647.5,
            L::max(),
            -L::max(),
            L::min(),
            L::denorm_min(),
            1e-310,
            L::infinity(),
            -L::infinity(),
            L::quiet_NaN(),
            1.0000000000000002,
            3.4e38,
            1e-45,
            9.3e18,
            -9.3e18,
            1.8446744073709552e19};
}

template <class To, class From>
To as(From v) {
    static_assert(sizeof(To) == sizeof(From));
    To t;
    std::memcpy(&t, &v, sizeof t);
    return t;
}
/// Bits of the device's result for a host value: NaN has one pattern.
inline u32 device_bits(float v) {
    return v != v ? 0x7fffffffU : as<u32>(v);
}
inline u64 device_bits(double v) {
    return v != v ? 0xfff8000000000000ULL : as<u64>(v);
}

/// Compares an instruction of two operands of one type with a host function on all pairs of edge values.
template <class D, class A, class F>
void check2(const std::string& instruction, const std::vector<A>& edges, F host) {
    std::vector<A> a, b;
    pairs(edges, edges, a, b);
    std::vector<D> d = apply<D, A, A>(instruction + " %d, %a, %b;", a, b);
    for (std::size_t k = 0; k < a.size(); ++k) {
        D want = host(a[k], b[k]);
        if (std::memcmp(&d[k], &want, sizeof(D)) != 0) {
            INFO(instruction << " of " << +a[k] << ", " << +b[k] << " gives " << +d[k] << ", not " << +want);
            REQUIRE(false);
        }
    }
    REQUIRE(!d.empty());
}
template <class D, class A, class F>
void check1(const std::string& instruction, const std::vector<A>& edges, F host) {
    std::vector<D> d = apply<D, A>(instruction + " %d, %a;", edges);
    for (std::size_t k = 0; k < edges.size(); ++k) {
        D want = host(edges[k]);
        if (std::memcmp(&d[k], &want, sizeof(D)) != 0) {
            INFO(instruction << " of " << +edges[k] << " gives " << +d[k] << ", not " << +want);
            REQUIRE(false);
        }
    }
    REQUIRE(!d.empty());
}
template <class D, class A, class C, class F>
void check3(const std::string& instruction, const std::vector<A>& edges, const std::vector<C>& more, F host) {
    std::vector<A> a, b;
    std::vector<C> c;
    triples(edges, edges, more, a, b, c);
    std::vector<D> d = apply<D, A, A, C>(instruction + " %d, %a, %b, %c;", a, b, c);
    for (std::size_t k = 0; k < a.size(); ++k) {
        D want = host(a[k], b[k], c[k]);
        if (std::memcmp(&d[k], &want, sizeof(D)) != 0) {
            INFO(instruction << " of " << +a[k] << ", " << +b[k] << ", " << +c[k] << " gives " << +d[k]
                             << ", not " << +want);
            REQUIRE(false);
        }
    }
    REQUIRE(!d.empty());
}

}  // namespace softgpu::ptx::test
