// The kernel of replayer/address_search.h as a driver compiles and runs it.
#include <set>

#include "driver_test.h"
#include "replayer/address_search.h"

using namespace driver_test;
using swapadvisor::AddressSearch;
using swapadvisor::DriverApi;

namespace {

constexpr std::uint64_t kGranule = 2 << 20, kLow = 0x7f1000000000, kHigh = kLow + 1000 * kGranule;

DriverApi driver() {
    DriverApi api;
    api.cuModuleLoadData_ = cuModuleLoadData;
    api.cuModuleGetFunction_ = cuModuleGetFunction;
    api.cuLaunchKernel_ = cuLaunchKernel;
    api.cuMemHostAlloc_ = cuMemHostAlloc;
    api.cuMemFreeHost_ = cuMemFreeHost;
    return api;
}

using Granules = std::set<std::uint64_t>;

/// The numbers of the granules that are found in `words`, which lie `shift` bytes behind a multiple of 16.
Granules found_in(AddressSearch& search, const std::vector<std::uint32_t>& words, unsigned shift) {
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, words.size() * 4 + shift));  // not a byte more may be read
    OK(cuMemsetD8(memory, 0, words.size() * 4 + shift));
    OK(cuMemcpyHtoD(memory + shift, words.data(), words.size() * 4));
    search.start(kLow, kHigh, kGranule);
    search.add(memory + shift, words.size() * 4);
    OK(search.issue(nullptr));
    OK(cuCtxSynchronize());
    Granules found;
    search.for_each_found([&](std::uint64_t from, std::uint64_t to) {
        THAT(to - from == kGranule && (from - kLow) % kGranule == 0);
        found.insert((from - kLow) / kGranule);
    });
    OK(cuMemFree(memory));
    return found;
}

void put(std::vector<std::uint32_t>& words, std::size_t at, std::uint64_t word) {
    words[at] = static_cast<std::uint32_t>(word);
    words[at + 1] = static_cast<std::uint32_t>(word >> 32);
}

}  // namespace

TEST_CASE("our addresses are found at every multiple of four bytes, and nothing else is") {
    RUN_IN_CHILD("", [] {
        CUdevice device = 0;
        CUcontext context = nullptr;
        OK(cuInit(0));
        OK(cuDeviceGet(&device, 0));
        OK(cuCtxCreate(&context, nullptr, 0, device));
        const DriverApi api = driver();
        const auto search = AddressSearch::open(api);
        THAT(search != nullptr);
        const std::vector<std::uint32_t> nothing(30001, 0x7f0f7f0f);
        for (const std::size_t size : {2u, 3u, 4u, 5u, 9u, 30000u, 30001u})
            for (unsigned shift = 0; shift < 16; shift += 4)
                for (const std::size_t at :
                     {std::size_t{0}, size / 2, size - 2, std::size_t{4095}}) {  // and between two blocks
                    if (at + 2 > size) continue;
                    std::vector<std::uint32_t> words(nothing.begin(),
                                                     nothing.begin() + static_cast<std::ptrdiff_t>(size));
                    put(words, at, kLow + 37 * kGranule + 12345);
                    THAT((found_in(*search, words, shift) == Granules{37}));
                }
        std::vector<std::uint32_t> words = nothing;
        put(words, 0, kLow - 1);
        put(words, 100, kHigh);
        put(words, 200, (kLow << 32) | (kLow >> 32));
        THAT(found_in(*search, words, 0).empty());
        put(words, 300, kLow);
        put(words, 401, kHigh - 1);
        for (std::size_t i = 0; i < 900; ++i) put(words, 1001 + 3 * i, kLow + i * kGranule);
        const Granules found = found_in(*search, words, 4);
        THAT(found.size() == 901 && *found.begin() == 0 && *found.rbegin() == 999);
    });
}
