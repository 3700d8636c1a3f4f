// The same C++ on the host and, through nvcc, on the engine.
#include <catch2/catch.hpp>
#include <random>

#include "tests/softgpu/ptx/kernels/semantics.h"
#include "tests/unit/softgpu/ptx_memory.h"

using namespace softgpu::ptx;
using namespace softgpu::ptx::test;

TEST_CASE("C++ means the same on host and device", "[ptx][conformance]") {
    std::vector<semantics::Input> inputs;
    const std::int64_t ints[] = {
        0,     1,         -1,        2,         7,         -13,       255,
        65535, INT32_MAX, INT32_MIN, 123456789, INT64_MAX, INT64_MIN, -987654321012345};
    const double doubles[] = {0.0,    -0.0,   1.0,   -1.5,     0.1,       3e9, -2.5,
                              1e-300, 5e-324, 1e300, INFINITY, -INFINITY, NAN, 16777217.0};
    for (std::size_t i = 0; i < 14; ++i) {
        for (std::size_t j = 0; j < 14; ++j) inputs.push_back({ints[i], ints[j], doubles[i], doubles[j]});
    }
    std::mt19937_64 gen(7);
    for (int k = 0; k < 300; ++k) {
        semantics::Input in{std::int64_t(gen() >> (gen() % 60)), std::int64_t(gen() >> (gen() % 60)), 0, 0};
        in.x = std::ldexp(double(std::int64_t(gen())), int(gen() % 80) - 100);
        in.y = std::ldexp(double(std::int64_t(gen())), int(gen() % 80) - 100);
        inputs.push_back(in);
    }
    TestMemory memory;
    auto module = load({read_file(PTX_KERNELS "/semantics.ptx")}, memory);
    int n = int(inputs.size());
    std::uint32_t total = std::uint32_t(n * semantics::kFunctions);
    Array<semantics::Input> in(memory, inputs);
    Array<unsigned long long> out(memory, total);
    LaunchResult r =
        run(*module, "mixed", memory, {(total + 127) / 128, 1, 1}, {128, 1, 1}, Params(in, out, n));
    INFO(r.detail);
    REQUIRE(r.fault == Fault::none);
    for (std::uint32_t k = 0; k < total; ++k) {
        const semantics::Input& v = inputs[k / semantics::kFunctions];
        INFO("function " << k % semantics::kFunctions << " of " << v.a << ", " << v.b << ", " << v.x << ", "
                         << v.y);
        REQUIRE(out[k] == semantics::call(int(k % semantics::kFunctions), v));
    }
}
