// What is freed a little after its last use is in use until then, in graphs that plans are made from.
#include "recorder/late_frees.h"

#include <catch2/catch.hpp>

using namespace swapadvisor;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// A buffer that op 0 makes and op 1 uses last, freed after op `freed_after` of 24; ops 1 to 23 work on
/// another of 4 MiB, and op 23 on a third beside it.
Iteration iteration(std::int32_t freed_after, std::int64_t bytes = 2 * kMiB) {
    Iteration it;
    it.tensors.resize(3);
    it.tensors[0].bytes = bytes;
    it.tensors[1].bytes = it.tensors[2].bytes = 4 * kMiB;
    it.tensors[1].persistent = it.tensors[2].persistent = true;
    it.events.push_back({EventKind::allocate, 0});
    it.tensors[0].birth_event = 0;
    for (std::int32_t op = 0; op < 24; ++op) {
        OpRecord record;
        if (op < 2) record.uses.push_back({0, Access::read_write});
        if (op > 0) record.uses.push_back({1, Access::read_write});
        if (op == 23) record.uses.push_back({2, Access::read_write});
        it.ops.push_back(record);
        it.events.push_back({EventKind::op, op});
        if (op != freed_after) continue;
        it.tensors[0].death_event = static_cast<std::int32_t>(it.events.size());
        it.events.push_back({EventKind::release, 0});
    }
    return it;
}

/// The ops that use tensor 0.
std::vector<std::int32_t> users(const Iteration& it) {
    std::vector<std::int32_t> found;
    for (std::size_t op = 0; op < it.ops.size(); ++op)
        for (const OpRecord::Use& use : it.ops[op].uses)
            if (use.tensor == 0) found.push_back(static_cast<std::int32_t>(op));
    return found;
}

}  // namespace

TEST_CASE("a buffer that is freed late is read by the op before its free") {
    const Iteration kept = kept_until_freed(iteration(9));
    CHECK(users(kept) == std::vector<std::int32_t>{0, 1, 9});
    CHECK(kept.ops[9].uses.back().access == Access::read);
}

TEST_CASE("freed at once, or only at the end of a long stretch, stays as it is") {
    CHECK(users(kept_until_freed(iteration(1))) == std::vector<std::int32_t>{0, 1});
    CHECK(users(kept_until_freed(iteration(17))) == std::vector<std::int32_t>{0, 1, 17});
    CHECK(users(kept_until_freed(iteration(18))) == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("no op comes to touch more than the largest did, so that what could be planned still can") {
    CHECK(users(kept_until_freed(iteration(9, 4 * kMiB))) == std::vector<std::int32_t>{0, 1, 9});
    // Op 1, which touches 8 MiB and one byte, is the largest itself.
    CHECK(users(kept_until_freed(iteration(9, 4 * kMiB + 1))) == std::vector<std::int32_t>{0, 1, 9});
    Iteration wide = iteration(9, 2 * kMiB);
    wide.ops[9].uses.push_back({2, Access::read});  // 8 MiB there, as in the largest
    CHECK(users(kept_until_freed(wide)) == std::vector<std::int32_t>{0, 1});
    CHECK(users(kept_until_freed(wide, 11 * kMiB)) == std::vector<std::int32_t>{0, 1});  // an eighth is spare
    CHECK(users(kept_until_freed(wide, 12 * kMiB)) == std::vector<std::int32_t>{0, 1, 9});
    wide.tensors.push_back({});
    wide.tensors.back().bytes = kMiB;
    wide.tensors.back().small = true;  // always there
    CHECK(users(kept_until_freed(wide, 12 * kMiB)) == std::vector<std::int32_t>{0, 1});
    keep_until_freed(wide, 10 * kMiB);
    CHECK(users(wide) == std::vector<std::int32_t>{0, 1, 9});
}
