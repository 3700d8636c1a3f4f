#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "interpose/runtime_params.h"

using namespace swapadvisor;

namespace {

constexpr std::uint64_t kLow = 0x7f1000000000, kHigh = 0x7f2000000000, kAddress = 0x7f1234567890;

/// Arguments laid out in memory, passed in both forms.
struct Launch {
    FunctionInfo info;
    std::vector<char> packed;
    std::vector<void*> params;

    template <class T>
    void add(const T& value, std::size_t align = alignof(T)) {
        const std::size_t at = (packed.size() + align - 1) / align * align;
        packed.resize(at + sizeof value);
        std::memcpy(packed.data() + at, &value, sizeof value);
        info.params.push_back({static_cast<std::uint32_t>(at), sizeof value});
    }
    std::vector<std::uint64_t> found(bool as_packed, std::size_t cut = 0) {
        info.layout_known = true;
        info.sort_out();
        params.clear();
        for (const auto& param : info.params) params.push_back(packed.data() + param.offset);
        params.push_back(nullptr);
        std::size_t bytes = packed.size() - cut;
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                         CU_LAUNCH_PARAM_END};
        std::vector<std::uint64_t> all;
        REQUIRE(scan_arguments(info, as_packed ? nullptr : params.data(), as_packed ? extra : nullptr, kLow,
                               kHigh, [&](std::uint64_t word, WordForm) { all.push_back(word); }));
        return all;
    }
};

#pragma pack(push, 1)
struct AtFour {
    int count;
    std::uint64_t address;
};
struct AtOne {
    char flag;
    std::uint64_t address;
};
#pragma pack(pop)
struct Halves {
    std::uint32_t count, upper, lower;
};

}  // namespace

TEST_CASE("an address is found in every form of argument, by pointers and packed") {
    const auto lower = static_cast<std::uint32_t>(kAddress),
               upper = static_cast<std::uint32_t>(kAddress >> 32);
    std::vector<Launch> launches(9);
    launches[0].add(kAddress);
    launches[1].add(AtFour{7, kAddress});
    launches[2].add(AtOne{7, kAddress});
    launches[3].add(lower);
    launches[3].add(upper);
    launches[4].add(upper);
    launches[4].add(lower);
    launches[5].add(kAddress | 0xabull << 56);
    launches[6].add(Halves{3, upper, lower});
    launches[7].add(std::uint64_t{upper} | std::uint64_t{lower} << 32);
    launches[8].add(1.5f);
    launches[8].add(lower);
    launches[8].add(upper);
    launches[8].add(2.5);
    for (Launch& launch : launches)
        for (const bool packed : {false, true}) {
            INFO("launch " << &launch - launches.data() << (packed ? " packed" : ""));
            std::vector<std::uint64_t> found = launch.found(packed);
            // A neighbour of the upper half may look like a lower one.
            std::erase(found, std::uint64_t{upper} << 32 | 3);
            CHECK(found == std::vector{kAddress});
        }
}

TEST_CASE("what is no address is not taken for one, nor is anything read past the end") {
    Launch launch;
    launch.add(1.0f);
    launch.add(1u << 20);
    launch.add(3.14);
    launch.add(std::uint64_t{0x7f12});  // a size like the upper half of an address
    launch.add(short{0x7f12});
    CHECK(launch.found(false).empty());
    CHECK(launch.found(true).empty());
    Launch cut;
    cut.add(AtFour{7, kAddress});
    cut.add(kAddress);
    CHECK(cut.found(true, 8) == std::vector{kAddress});  // the last one is not there
    FunctionInfo unknown;
    void* none = nullptr;
    CHECK_FALSE(scan_arguments(unknown, &none, nullptr, kLow, kHigh, [](std::uint64_t, WordForm) {}));
}
