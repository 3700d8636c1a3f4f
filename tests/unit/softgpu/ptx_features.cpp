// Cooperative groups, clusters, asynchronous copies, matrix units, device heap and stack, and faults.
#include <catch2/catch.hpp>

#include "tests/unit/softgpu/ptx_reference.h"

using namespace softgpu::ptx;
using namespace softgpu::ptx::test;

namespace {

struct Features {
    Features() : module(load({read_file(PTX_KERNELS "/features_90.ptx")}, memory)) {}
    LaunchResult run(const std::string& kernel, u32 blocks, u32 threads, const Params& params,
                     bool cooperative = false, u32 workers = 0) {
        LaunchConfig c;
        c.grid = {blocks, 1, 1}, c.block = {threads, 1, 1}, c.params = params.data();
        c.cooperative = cooperative, c.threads = int(workers), c.instruction_budget = 50'000'000;
        return launch(*module->functions().at(kernel), c, memory);
    }
    void ok(const std::string& kernel, u32 blocks, u32 threads, const Params& params,
            bool cooperative = false) {
        LaunchResult r = run(kernel, blocks, threads, params, cooperative);
        INFO(r.detail);
        REQUIRE(r.fault == Fault::none);
    }
    TestMemory memory;
    std::unique_ptr<Module> module;
};

u16 half(double v) {
    return u16(round_to(v, kHalf, Rounding::nearest, v < 0));
}

}  // namespace

TEST_CASE_METHOD(Features, "grid-wide barrier of a cooperative launch", "[ptx]") {
    u32 n = 8 * 64;
    Array<int> data(memory, n);
    std::vector<int> want(n);
    for (u32 k = 0; k < n; ++k) data[k] = want[k] = int(k * k % 101);
    ok("grid_sync", 8, 64, Params(data, 5), true);
    for (int r = 0; r < 5; ++r) {
        std::vector<int> next(n);
        for (u32 k = 0; k < n; ++k) next[k] = want[(k + 1) % n] + 1;
        want = next;
    }
    for (u32 k = 0; k < n; ++k) REQUIRE(data[k] == want[k]);
}

TEST_CASE_METHOD(Features, "clusters share memory", "[ptx]") {
    Array<int> out(memory, 8 * 32);
    REQUIRE(module->functions().at("cluster_exchange")->info().required_cluster[0] == 4);
    ok("cluster_exchange", 8, 32, Params(out));
    for (u32 b = 0; b < 8; ++b) {
        u32 next = b / 4 * 4 + (b % 4 + 1) % 4;
        for (u32 t = 0; t < 32; ++t) REQUIRE(out[b * 32 + t] == int(next * 100 + 31 - t));
    }
}

TEST_CASE_METHOD(Features, "asynchronous copies and block barriers", "[ptx]") {
    Array<float> in(memory, 2 * 64 * 4), out(memory, 128);
    for (u32 k = 0; k < 512; ++k) in[k] = float(k % 37);
    ok("async_copy", 2, 64, Params(in, out));
    for (u32 b = 0; b < 2; ++b) {
        for (u32 t = 0; t < 64; ++t) {
            const float* v = in.data() + (b * 64 + 63 - t) * 4;
            REQUIRE(out[b * 64 + t] == v[0] + v[1] * 2 + v[2] * 3 + v[3] * 4);
        }
    }
    Array<int> ring(memory, 64);
    ok("block_barrier", 1, 64, Params(ring, 10));
    for (u32 t = 0; t < 64; ++t) REQUIRE(ring[t] == int((t + 10) % 64));
}

TEST_CASE_METHOD(Features, "tiles, coalesced groups and labels", "[ptx]") {
    Array<int> out(memory, 32);
    ok("tiles", 1, 32, Params(out));
    for (int t = 0; t < 32; ++t) {
        int sum = 0;
        for (int k = t / 4 * 4; k < t / 4 * 4 + 4; ++k) sum += k * k;
        int odd = t % 2 ? 16 * 100 + t / 2 : 0;
        int match = t % 3 == 2 ? 10 : 11;
        REQUIRE(out[std::size_t(t)] == sum + 31 * 31 * 1000 + odd * 7 + match);
    }
}

TEST_CASE_METHOD(Features, "matrix products of warps", "[ptx]") {
    Array<u16> a(memory, 512), b(memory, 512);
    auto va = [](u32 k) { return double(int(k * 7 % 23) - 11) / 8; };
    auto vb = [](u32 k) { return double(int(k * 5 % 19) - 9) / 4; };
    for (u32 k = 0; k < 512; ++k) a[k] = half(va(k)), b[k] = half(vb(k));
    Array<float> c(memory, 768);
    for (u32 k = 0; k < 768; ++k) c[k] = float(k % 5);
    ok("wmma_half", 1, 32, Params(a, b, c));
    struct Shape {
        u32 m, n, at;
        bool a_column, b_column;
    };
    for (const Shape& s :
         {Shape{16, 16, 0, false, true}, Shape{32, 8, 256, false, false}, Shape{8, 32, 512, true, false}}) {
        for (u32 i = 0; i < s.m; ++i) {
            for (u32 j = 0; j < s.n; ++j) {
                double sum = (s.at + i * s.n + j) % 5;
                for (u32 k = 0; k < 16; ++k)
                    sum +=
                        va(s.a_column ? k * s.m + i : i * 16 + k) * vb(s.b_column ? j * 16 + k : k * s.n + j);
                REQUIRE(c[s.at + i * s.n + j] == float(2 * sum));
            }
        }
    }
    Array<float> d(memory, 128);
    ok("mma_ldmatrix", 1, 32, Params(a, b, d));
    for (u32 i = 0; i < 16; ++i) {
        for (u32 j = 0; j < 8; ++j) {
            double sum = 0;
            for (u32 k = 0; k < 16; ++k) sum += va(i * 16 + k) * vb(j * 16 + k);
            REQUIRE(d[i * 8 + j] == float(sum));
        }
    }
    Array<i8> ia(memory, 256), ib(memory, 256);
    Array<int> ic(memory, 256);
    Array<double> da(memory, 32), db(memory, 32), dc(memory, 64);
    for (u32 k = 0; k < 256; ++k) ia[k] = i8(k * 37), ib[k] = i8(k * 91 + 5), ic[k] = int(k);
    for (u32 k = 0; k < 32; ++k) da[k] = k * 0.5, db[k] = 3.0 - k;
    ok("wmma_other", 1, 32, Params(ia, ib, ic, da, db, dc));
    for (u32 i = 0; i < 16; ++i) {
        for (u32 j = 0; j < 16; ++j) {
            int sum = int(i * 16 + j);
            for (u32 k = 0; k < 16; ++k) sum += int(ia[i * 16 + k]) * ib[j * 16 + k];
            REQUIRE(ic[i * 16 + j] == 2 * sum);
        }
    }
    for (u32 i = 0; i < 8; ++i) {
        for (u32 j = 0; j < 8; ++j) {
            double sum = 0;
            for (u32 k = 0; k < 4; ++k) sum += da[i * 4 + k] * db[j * 4 + k];
            REQUIRE(dc[i * 8 + j] == 2 * sum);
        }
    }
}

TEST_CASE_METHOD(Features, "device heap and stack", "[ptx]") {
    Array<int> out(memory, 64);
    ok("heap", 1, 64, Params(out));
    for (int t = 0; t < 64; ++t) REQUIRE(out[std::size_t(t)] == t * t * (t + 1) / 2);
    ok("stack", 1, 64, Params(out, 9));
    for (int t = 0; t < 64; ++t) {
        int sum = 0;
        for (int k = 8; k >= 0; --k) sum = sum * 3 + k + t;
        REQUIRE(out[std::size_t(t)] == sum);
    }
}

TEST_CASE_METHOD(Features, "assertions, traps, deadlocks and stack overflow are faults", "[ptx]") {
    LaunchResult r = run("fails", 2, 32, Params(2));
    REQUIRE(r.fault == Fault::assert_failed);
    REQUIRE(memory.printed.find(
                "block: [0,0,0], thread: [3,0,0] Assertion `threadIdx.x + n < 5 && \"too large\"` failed.") !=
            std::string::npos);
    r = run("traps", 1, 64, Params(40));
    REQUIRE(r.fault == Fault::trap);
    REQUIRE(r.detail.find("thread (40,0,0)") != std::string::npos);
    Array<int> out(memory, 4);
    r = run("stuck", 1, 64, Params(out));
    REQUIRE(r.fault == Fault::launch_failure);
    INFO(r.detail);
    REQUIRE(r.detail.find("for barrier 1 (32 of 96 arrived)") != std::string::npos);
    r = run("endless_recursion", 1, 1, Params(out));
    REQUIRE(r.fault == Fault::stack_error);
}
