#include "replayer/address_space.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

using namespace swapadvisor;

namespace {

constexpr std::uint64_t kPage = 2 << 20;

/// Reservations that nothing stands behind, one after the other.
struct Reservations {
    static inline CUdeviceptr next;
    static inline int open;
    DriverApi api;
    Reservations() {
        next = 0x7f0000000000;
        open = 0;
        api.cuMemAddressReserve_ = [](CUdeviceptr* at, std::size_t bytes, std::size_t, CUdeviceptr,
                                      unsigned long long) {
            *at = next;
            next += bytes + kPage;
            ++open;
            return CUDA_SUCCESS;
        };
        api.cuMemAddressFree_ = [](CUdeviceptr, std::size_t) {
            --open;
            return CUDA_SUCCESS;
        };
    }
};

std::uint64_t reach(std::uint64_t pages) {
    return std::max(pages, AddressSpace::kNeighbourPages) * kPage;
}

}  // namespace

TEST_CASE("a base that was shifted by 64 MiB or by its buffer's size leads to its own buffer alone") {
    const Reservations driver;
    std::mt19937_64 random(1);
    {
        AddressSpace space(driver.api, kPage, 1ull << 40);
        CHECK(space.low() >= space.high());
        std::map<OwnerId, AddressRange> live;
        std::vector<AddressRange> gone;
        for (OwnerId id = 1; id < 900; ++id) {
            if (random() % 3 == 0 && !live.empty()) {
                auto it = std::next(live.begin(), static_cast<long>(random() % live.size()));
                space.give(it->second);
                gone.push_back(it->second);
                live.erase(it);
            }
            AddressRange range;
            REQUIRE(space.take(1 + random() % (random() % 8 == 0 ? 700 : 6), range) == CUDA_SUCCESS);
            space.set_owner(range, id);
            live[id] = range;
            std::erase_if(gone, [&](const AddressRange& old) { return old.address == range.address; });
        }
        for (const auto& [id, range] : live) {
            const std::uint64_t bytes = range.pages * kPage, shift = reach(range.pages);
            for (const CUdeviceptr near :
                 {range.address - shift, range.address - 16, range.address, range.address + bytes - 1,
                  range.address + bytes, range.address + bytes + shift - 1, range.address - shift / 2 - 4,
                  range.address + bytes + shift / 3})
                CHECK(space.find_near(near) == id);
            for (const CUdeviceptr own : {range.address - 16, range.address, range.address + bytes - 1,
                                          range.address + bytes, range.address + bytes / 2})
                CHECK(space.find(own) == id);
            for (const CUdeviceptr far : {range.address - kPage, range.address + bytes + kPage / 2})
                CHECK(space.find(far) == 0);
            CHECK_FALSE(space.never_taken(range.address - shift));
            CHECK((range.address - shift >= space.low() && range.address + bytes + shift <= space.high()));
        }
        for (const AddressRange& range : gone) {
            CHECK(space.find(range.address) == 0);
            CHECK_FALSE(space.never_taken(range.address));  // a use after the end is nobody's
        }
        CHECK(space.never_taken(space.high() - 1));
        CHECK_FALSE(space.never_taken(1234));
    }
    CHECK(Reservations::open == 0);
}

TEST_CASE("free neighbours are joined before a new region is reserved") {
    const Reservations driver;
    AddressSpace space(driver.api, kPage, 2000 * kPage);
    std::vector<AddressRange> small(30);
    for (AddressRange& range : small) REQUIRE(space.take(1, range) == CUDA_SUCCESS);
    REQUIRE(Reservations::open == 1);
    for (const AddressRange& range : small) space.give(range);
    AddressRange large;
    REQUIRE(space.take(600, large) == CUDA_SUCCESS);
    CHECK(Reservations::open == 1);
    space.set_owner(large, 7);
    CHECK(space.find_near(large.address - 600 * kPage) == 7);
    AddressRange next;
    REQUIRE(space.take(20, next) == CUDA_SUCCESS);
    CHECK(Reservations::open == 1);
    space.set_owner(next, 8);
    CHECK(space.find_near(next.address - reach(20)) == 8);
    CHECK(space.find_near(large.address + (2 * 600 - 1) * kPage) == 7);
    // Too large for what is left: another region, and the first is not lost.
    AddressRange larger;
    REQUIRE(space.take(700, larger) == CUDA_SUCCESS);
    CHECK(Reservations::open == 2);
    CHECK(space.find(large.address) == 7);
}

TEST_CASE("no range starts at a multiple of 4 GiB, where half of its address would be 0") {
    Reservations reservations;
    for (CUdeviceptr shift = 0; shift < 70; ++shift) {
        Reservations::next = 0x7f0100000000 - (40 + shift) * kPage;
        AddressSpace space(reservations.api, kPage, 1ull << 40);
        std::vector<AddressRange> all(120);
        for (std::size_t i = 0; i < all.size(); ++i) {
            REQUIRE(space.take(1 + i % 3, all[i]) == CUDA_SUCCESS);
            REQUIRE(static_cast<std::uint32_t>(all[i].address) != 0);
            space.set_owner(all[i], 1);
        }
    }
}
