// The table of entry points and the choice by version and flags.
#include "interpose/routes.h"

#include <cuda.h>

#include <catch2/catch.hpp>
#include <string>

#include "interpose/driver.h"

using namespace swapadvisor;

namespace {

std::string chosen(const char* name, int version, std::uint64_t flags = 0) {
    const EntryPoint* entry = choose_entry_point(entry_points(name), version, flags);
    return entry ? entry->symbol : "none";
}

constexpr std::uint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

}  // namespace

TEST_CASE("the newest ABI that is not newer than asked") {
    CHECK(chosen("cuMemAlloc", 2000) == "cuMemAlloc");
    CHECK(chosen("cuMemAlloc", 3010) == "cuMemAlloc");
    CHECK(chosen("cuMemAlloc", 3020) == "cuMemAlloc_v2");
    CHECK(chosen("cuMemAlloc", 99999) == "cuMemAlloc_v2");
    CHECK(chosen("cuMemAllocAsync", 11010) == "none");
    CHECK(chosen("cuCtxSynchronize", 12080) == "cuCtxSynchronize");
    CHECK(chosen("cuCtxSynchronize", 13000) == "cuCtxSynchronize_v2");
    CHECK(chosen("cuGetProcAddress", 11030) == "cuGetProcAddress");
    CHECK(chosen("cuGetProcAddress", 12000) == "cuGetProcAddress_v2");
    CHECK(chosen("cuNoSuchCall", 13000) == "none");
    CHECK(chosen("", 13000) == "none");
}

TEST_CASE("per-thread twins where there are any") {
    CHECK(chosen("cuMemcpyHtoDAsync", 13000, kPerThread) == "cuMemcpyHtoDAsync_v2_ptsz");
    CHECK(chosen("cuMemcpy", 13000, kPerThread) == "cuMemcpy_ptds");
    CHECK(chosen("cuMemcpy", 5000, kPerThread) == "cuMemcpy");  // the twins came with 7.0
    CHECK(chosen("cuMemAlloc", 13000, kPerThread) == "cuMemAlloc_v2");
    CHECK(chosen("cuMemcpy", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM) == "cuMemcpy");
}

TEST_CASE("hooked symbols are found by their exact name only") {
    CHECK(hooked_slot("cuMemAlloc_v2") >= 0);
    CHECK(hooked_slot("cuLaunchKernel_ptsz") >= 0);
    CHECK(hooked_slot("cuMemAlloc_v") == -1);
    CHECK(hooked_slot("cuMemAlloc_v22") == -1);
    CHECK(hooked_slot("cuInit") == -1);
    CHECK(hooked_slot("") == -1);
    for (unsigned i = 1; i < kHookCount; ++i) REQUIRE(std::string(kHookedSymbols[i - 1]) < kHookedSymbols[i]);
}
