#include "recorder/callsite.h"

#include <alloca.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>

#include "recorder/symbol_table.h"

using namespace swapadvisor;

namespace {

// Kept out of each other by the compiler, and no tail calls.
#define FRAME __attribute__((noinline, noclone))

FRAME std::uint64_t leaf() {
    const std::uint64_t site = capture_site();
    asm volatile("");
    return site;
}
FRAME std::uint64_t one() {
    const std::uint64_t site = leaf();
    asm volatile("");
    return site;
}
FRAME std::uint64_t two() {
    const std::uint64_t site = leaf();
    asm volatile("");
    return site;
}
FRAME std::uint64_t deep(int n) {
    const std::uint64_t site = n > 0 ? deep(n - 1) : leaf();
    asm volatile("");
    return site;
}
FRAME std::uint64_t varying(std::size_t bytes) {
    char* memory = static_cast<char*>(alloca(bytes));
    std::memset(memory, 7, bytes);
    asm volatile("" : : "r"(memory) : "memory");
    const std::uint64_t site = leaf();
    asm volatile("");
    return site;
}

}  // namespace

TEST_CASE("equal stacks have equal sites, different ones different") {
    std::set<std::uint64_t> from_one, from_two;
    std::uint64_t unwinds = 0;
    for (int i = 0; i < 100; ++i) {
        from_one.insert(one());
        from_two.insert(two());
        if (i == 2) unwinds = site_unwinds();
    }
    CHECK(from_one.size() == 1);
    CHECK(from_two.size() == 1);
    CHECK(*from_one.begin() != *from_two.begin());
    CHECK(*from_one.begin() != 0);
    CHECK(site_unwinds() == unwinds);  // repeated stacks never ask the unwinder
    CHECK(site_addresses(*from_one.begin()).size() > 3);
}

TEST_CASE("recursion, deeper than a site looks") {
    CHECK(deep(3) != deep(4));
    CHECK(deep(100) == deep(101));
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 3; ++i) seen.insert(deep(5));
    CHECK(seen.size() == 1);
}

TEST_CASE("frames of varying size are walked right") {
    const std::uint64_t site = varying(100);
    const std::uint64_t plain = leaf();
    std::set<std::uint64_t> seen;
    for (std::size_t bytes = 1; bytes < 3000; bytes += 97) seen.insert(varying(bytes));
    CHECK(seen.size() == 1);
    CHECK(varying(1) != plain);
    CHECK(site != 0);
}

TEST_CASE("sites from many threads") {
    std::vector<std::thread> threads;
    std::array<std::uint64_t, 8> sites{};
    for (std::size_t t = 0; t < sites.size(); ++t)
        threads.emplace_back([&sites, t] {
            for (int i = 0; i < 2000; ++i) {
                sites[t] = i % 2 ? one() : deep(i % 20);
            }
        });
    for (auto& thread : threads) thread.join();
    for (const std::uint64_t site : sites) CHECK(site == sites[0]);
}

TEST_CASE("sites are described by function and place") {
    const std::string text = describe_site(one());
    CHECK(text.find(std::string(program_invocation_short_name) + "+0x") != std::string::npos);
    CHECK(text.find(" < ") != std::string::npos);
    CHECK(describe_site(0).empty());
    CHECK(describe_site(1u << 30).empty());
}

TEST_CASE("functions that the program does not export are named from its file") {
    const std::uint64_t site = one();
    const std::string text = describe_site(site);
    CAPTURE(text);
    CHECK(text.find("leaf (") != std::string::npos);
    CHECK(text.find("one (") != std::string::npos);
    CHECK(text.find("invokeActiveTestCase (") != std::string::npos);
    CHECK(function_in_file("/proc/nonexistent", 0x1000).empty());
    CHECK(function_in_file("/proc/self/cmdline", 0x1000).empty());
    CHECK(function_in_file("/dev/null", 0).empty());
    CHECK(function_in_file("/proc/self/exe", ~std::uint64_t{0}).empty());
}
