#include "interpose/allocation_habits.h"

#include <catch2/catch.hpp>

using swapadvisor::AllocationHabits;

namespace {
constexpr std::uint64_t kMiB = 1 << 20;
}

TEST_CASE("allocation habits: one buffer for each tensor is fine") {
    AllocationHabits habits;
    for (std::uint64_t i = 1; i <= 50; ++i) {
        habits.allocated(i, 4 * kMiB, false);
        for (int op = 0; op < 12; ++op) habits.operation(habits.biggest() == i);
        habits.freed(i, false);
    }
    CHECK(habits.suspicion(12 * kMiB, 64 * kMiB).empty());
}

TEST_CASE("allocation habits: a pool that nearly every operation uses") {
    AllocationHabits habits;
    habits.allocated(1, 4 * kMiB, false);
    habits.allocated(2, 64 * kMiB, false);
    habits.freed(1, false);
    for (int op = 0; op < 200; ++op) habits.operation(op % 10 != 0);
    CHECK(habits.suspicion(70 * kMiB, 64 * kMiB) ==
          "one allocation of 64.0 MiB out of 70.0 MiB is used by 90 % of the operations");
    CHECK(habits.suspicion(200 * kMiB, 64 * kMiB).empty());  // not most of the memory
}

TEST_CASE("allocation habits: memory that is never given back") {
    AllocationHabits habits;
    for (std::uint64_t i = 1; i <= 10; ++i) habits.allocated(i, 4 * kMiB, false);
    for (int op = 0; op < 99; ++op) habits.operation(false);
    CHECK(habits.suspicion(40 * kMiB, 64 * kMiB).empty());  // too short to tell
    for (int op = 0; op < 101; ++op) habits.operation(false);
    CHECK(habits.suspicion(40 * kMiB, 64 * kMiB) ==
          "none of 10 large allocations was ever freed over 200 operations");
    habits.freed(3, false);
    CHECK(habits.suspicion(40 * kMiB, 64 * kMiB).empty());
}

TEST_CASE("allocation habits: one allocation larger than the limit, however short the program") {
    AllocationHabits habits;
    habits.allocated(1, 22 * kMiB, false);
    CHECK(habits.suspicion(22 * kMiB, 22 * kMiB).empty());
    CHECK(habits.suspicion(22 * kMiB, 10 * kMiB) ==
          "one allocation of 22.0 MiB is larger than the limit of 10.0 MiB");
}
