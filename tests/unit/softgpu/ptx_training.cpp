// nvcc-compiled kernels of training programs on the engine against the same arithmetic on the host.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/unit/softgpu/ptx_memory.h"

using namespace softgpu::ptx;
using namespace softgpu::ptx::test;

namespace {

std::vector<float> random_floats(std::size_t n, unsigned seed) {
    std::mt19937 gen(seed);
    std::uniform_real_distribution<float> d(-1, 1);
    std::vector<float> v(n);
    for (float& x : v) x = d(gen);
    return v;
}

void ok(const LaunchResult& r) {
    INFO(r.detail);
    REQUIRE(r.fault == Fault::none);
}

}  // namespace

TEST_CASE("tiled matrix product", "[ptx]") {
    int m = 50, n = 37, k = 41;
    for (int threads : {1, 2, 3}) {
        TestMemory memory;
        auto module = load({read_file(PTX_KERNELS "/training.ptx")}, memory);
        Array<float> a(memory, random_floats(std::size_t(m * k), 1)),
            b(memory, random_floats(std::size_t(k * n), 2)), c(memory, std::size_t(m * n));
        ok(run(*module, "sgemm", memory, {3, 4, 1}, {16, 16, 1}, Params(a, b, c, m, n, k), 0, threads));
        for (int i = 0; i < m; ++i) {
            for (int j = 0; j < n; ++j) {
                float sum = 0;
                for (int x = 0; x < k; ++x)
                    sum = std::fma(a[std::size_t(i * k + x)], b[std::size_t(x * n + j)], sum);
                REQUIRE(c[std::size_t(i * n + j)] == sum);
            }
        }
    }
}

TEST_CASE("convolution", "[ptx]") {
    TestMemory memory;
    struct {
        int channels = 3, height = 11, width = 13, filters = 4, size = 3, stride = 2;
    } p;
    int oh = 5, ow = 6;
    Array<float> in(memory, random_floats(std::size_t(3 * 11 * 13), 3)),
        w(memory, random_floats(4 * 3 * 9, 4)), out(memory, std::size_t(4 * oh * ow));
    ok(run(*load({read_file(PTX_KERNELS "/training.ptx")}, memory), "conv", memory, {2, 1, 1}, {96, 1, 1},
           Params(in, w, out, p)));
    for (int f = 0; f < 4; ++f) {
        for (int y = 0; y < oh; ++y) {
            for (int x = 0; x < ow; ++x) {
                float sum = 0;
                for (int c = 0; c < 3; ++c) {
                    for (int dy = 0; dy < 3; ++dy) {
                        for (int dx = 0; dx < 3; ++dx) {
                            sum = std::fma(in[std::size_t((c * 11 + y * 2 + dy) * 13 + x * 2 + dx)],
                                           w[std::size_t(((f * 3 + c) * 3 + dy) * 3 + dx)], sum);
                        }
                    }
                }
                REQUIRE(out[std::size_t((f * oh + y) * ow + x)] == sum);
            }
        }
    }
}

TEST_CASE("softmax", "[ptx]") {
    TestMemory memory;
    int n = 100;
    Array<float> in(memory, random_floats(300, 5)), out(memory, 300);
    ok(run(*load({read_file(PTX_KERNELS "/training.ptx")}, memory), "softmax", memory, {3, 1, 1}, {64, 1, 1},
           Params(in, out, n), 400));
    for (std::size_t r = 0; r < 3; ++r) {
        double sum = 0;
        for (std::size_t i = 0; i < 100; ++i) sum += std::exp(double(in[r * 100 + i]));
        for (std::size_t i = 0; i < 100; ++i)
            REQUIRE(out[r * 100 + i] == Approx(std::exp(double(in[r * 100 + i])) / sum).epsilon(1e-5));
    }
}

TEST_CASE("Adam step", "[ptx]") {
    TestMemory memory;
    int n = 1000, t = 3;
    float lr = 1e-2F, b1 = 0.9F, b2 = 0.999F, eps = 1e-8F;
    Array<float> w(memory, random_floats(1000, 6)), g(memory, random_floats(1000, 7)),
        m(memory, random_floats(1000, 8)), v(memory, 1000);
    std::vector<float> w0(w.data(), w.data() + n), m0(m.data(), m.data() + n);
    ok(run(*load({read_file(PTX_KERNELS "/training.ptx")}, memory), "adam", memory, {8, 1, 1}, {128, 1, 1},
           Params(w, g, m, v, n, lr, b1, b2, eps, t)));
    for (std::size_t i = 0; i < 1000; ++i) {
        double mi = double(b1) * m0[i] + (1 - double(b1)) * g[i], vi = (1 - double(b2)) * g[i] * g[i];
        double step = double(lr) * (mi / (1 - std::pow(double(b1), 3))) /
                      (std::sqrt(vi / (1 - std::pow(double(b2), 3))) + double(eps));
        REQUIRE(w[i] == Approx(w0[i] - step).epsilon(1e-4).margin(1e-4 * std::abs(step)));
    }
}

TEST_CASE("atomics", "[ptx]") {
    float first = 0;
    for (int threads : {1, 2, 4}) {
        TestMemory memory;
        auto module = load({read_file(PTX_KERNELS "/training.ptx")}, memory);
        Array<float> in(memory, random_floats(5000, 9)), out(memory, 1);
        Array<int> count(memory, 1);
        ok(run(*module, "sum_atomic", memory, {40, 1, 1}, {128, 1, 1}, Params(in, out, count, 5000), 0,
               threads));
        REQUIRE(count[0] == 160);
        if (threads == 1) first = out[0];
        REQUIRE(out[0] == first);  // float sums do not depend on the number of threads
        Array<int> values(memory, 10000);
        std::vector<unsigned> want(64);
        for (std::size_t i = 0; i < 10000; ++i) values[i] = int(i * i % 977), ++want[i * i % 977 & 63];
        Array<unsigned> bins(memory, 64);
        ok(run(*module, "histogram", memory, {16, 1, 1}, {64, 1, 1}, Params(values, bins, 10000), 0,
               threads));
        for (std::size_t i = 0; i < 64; ++i) REQUIRE(bins[i] == want[i]);
    }
}

TEST_CASE("calls, recursion, function pointers, local arrays, switch, division", "[ptx]") {
    struct Float4 {
        alignas(16) float x;
        float y, z, w;
    };
    struct Point {
        float x;
        int k;
        double d[3];
    };
    TestMemory memory;
    int n = 1000;
    Array<Float4> in(memory, std::size_t(n));
    Array<float> out(memory, std::size_t(n));
    std::vector<float> f = random_floats(4000, 10);
    std::memcpy(in.data(), f.data(), 16000);
    Point p{0.5F, 3, {1.5, 2.5, -3.25}};
    ok(run(*load({read_file(PTX_KERNELS "/training.ptx")}, memory), "language", memory, {5, 1, 1},
           {224, 1, 1}, Params(out, in, p, n)));
    const float table[8] = {1, 2, 3, 5, 7, 11, 13, 17};
    const int fib[8] = {0, 1, 1, 2, 3, 5, 8, 13};
    for (int i = 0; i < n; ++i) {
        Float4 v = in[std::size_t(i)];
        float local[8];
        for (int j = 0; j < 8; ++j) local[(j + i) & 7] = v.x * float(j);
        float r = local[i & 7] + local[(i * 3) & 7];
        r += float(double(v.y * p.x) + p.d[i % 3]);
        r += float(fib[i & 7]);
        r += (i & 1) ? v.z * 2 : v.z + 1;
        r += table[i & 7] + 40;
        switch (i % 7) {
            case 0:
                r += 1;
                break;
            case 1:
                r *= 2;
                break;
            case 2:
                r -= 3;
                break;
            case 3:
                r = -r;
                break;
            case 4:
                r += v.w;
                break;
            case 5:
                r *= v.w;
                break;
            default:
                r = 0;
        }
        r += float((i * 1000) / (p.k + i % 5 + 1) + (i * 77) % (i % 9 + 1));
        REQUIRE(out[std::size_t(i)] == Approx(r).epsilon(1e-5));
    }
}

TEST_CASE("divergence reconverges before warp exchanges", "[ptx]") {
    TestMemory memory;
    Array<int> out(memory, 32);
    ok(run(*load({read_file(PTX_KERNELS "/training.ptx")}, memory), "divergent", memory, {1, 1, 1},
           {32, 1, 1}, Params(out, 200)));
    int r[32], votes = 0;
    for (int i = 0; i < 32; ++i) {
        r[i] = 0;
        for (int k = 0; k < i; ++k) {
            if (k % 3 == 0) continue;
            if (k * k > 200) break;
            r[i] += k % 2 ? k : -k;
        }
        votes += r[i] > 3;
    }
    for (int i = 0; i < 32; ++i) REQUIRE(out[std::size_t(i)] == r[(i + 1) & 31] + votes);
}

TEST_CASE("printf", "[ptx]") {
    TestMemory memory;
    ok(run(*load({read_file(PTX_KERNELS "/training.ptx")}, memory), "speak", memory, {1, 1, 1}, {2, 1, 1},
           Params(7)));
    REQUIRE(memory.printed ==
            "thread 0 of 7: even 3.50 1099511627776\nthread 1 of 7: odd 3.50 1099511627776\n");
}

TEST_CASE("waiting lanes and blocks make progress", "[ptx]") {
    TestMemory memory;
    auto module = load({read_file(PTX_KERNELS "/training.ptx")}, memory);
    Array<int> lock(memory, 1), value(memory, 1), out(memory, 1024);
    ok(run(*module, "spin_lock", memory, {3, 1, 1}, {64, 1, 1}, Params(lock, value)));
    REQUIRE(value[0] == 192);
    ok(run(*module, "hand_barrier", memory, {16, 1, 1}, {64, 1, 1}, Params(lock, out)));
    for (std::size_t i = 0; i < 1024; ++i) REQUIRE(out[i] == 16);
}

TEST_CASE("faults name kernel, block, thread, address and line", "[ptx]") {
    TestMemory memory;
    auto module = load({read_file(PTX_KERNELS "/training.ptx")}, memory);
    Array<float> p(memory, 100);
    LaunchResult r = run(*module, "out_of_bounds", memory, {2, 1, 1}, {64, 1, 1}, Params(p, 1));
    REQUIRE(r.fault == Fault::illegal_address);
    REQUIRE(r.fault_address == p.address + 400);
    INFO(r.detail);
    REQUIRE(
        r.detail.find(
            "kernel out_of_bounds, block (1,0,0), thread (36,0,0), write of 4 bytes at global address 0x") !=
        std::string::npos);
    Array<int> zero(memory, 1);
    r = run(*module, "endless", memory, {1, 1, 1}, {32, 1, 1}, Params(zero), 0, 1, 100000);
    REQUIRE(r.fault == Fault::timeout);
}
