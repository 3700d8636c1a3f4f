// What was seen of contents makes a kernel's argument a read in the export, and only then.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "recorder/export.h"
#include "recorder/recorder.h"
#include "tests/unit/recorder/recorder_sink.h"

using namespace swapadvisor;
using namespace swapadvisor::test;

namespace {

/// A loop of two kernels: 1 makes a newborn of a weight, 2 changes another weight by it. Of kernel 1 in
/// iterations 3 and 4, and from `changes_from` on, is told what it leaves unchanged: everything, or nothing.
nlohmann::json exported(int looks, int changed_at = -1) {
    const TemporaryFile file(".trace");
    {
        Recorder recorder({.trace_path = file.path(), .synchronous = true});
        for (BufferId weight : {1, 2}) recorder.allocate(weight, 4 << 20, false, 0, nullptr);
        BufferId newborn = 2;
        for (int i = 0; i < 20; ++i) {
            recorder.allocate(++newborn, 2 << 20, false, 0, nullptr);
            OpView op;
            op.function = 1;
            const Touch made[] = {{1, Access::read_write}, {newborn, Access::read_write}};
            op.touches = made;
            op.touch_count = 2;
            const std::uint64_t seq = recorder.op(op);
            if (i >= 3 && i < 3 + looks)
                for (std::uint32_t touch : {0u, 1u}) recorder.content(seq, touch, i == changed_at);
            recorder.content(seq, 17, false);  // there is no such touch
            op.function = 2;
            const Touch changed[] = {{2, Access::read_write}, {newborn, Access::read_write}};
            op.touches = changed;
            recorder.op(op);
            recorder.release(newborn);
        }
        recorder.content(1 << 30, 0, false);  // nor such an op
    }
    const auto graph = nlohmann::json::parse(trace_to_graph_json(file.path()));
    REQUIRE(graph["ops"].size() == 2);
    return graph["ops"];
}

}  // namespace

TEST_CASE("an argument that was seen unchanged twice, and never changed, is read") {
    const auto ops = exported(2);
    CHECK(ops[0]["reads"].size() == 1);
    CHECK(ops[0]["writes"].size() == 1);
    CHECK(ops[0]["reads"][0] != ops[0]["writes"][0]);  // a newborn's first use writes, whatever it looks like
    CHECK(ops[1]["writes"].size() == 2);               // nothing is known of it
    CHECK(exported(9)[0]["writes"].size() == 1);
}

TEST_CASE("once is not enough, and one change outweighs all the rest") {
    CHECK(exported(0)[0]["writes"].size() == 2);
    CHECK(exported(1)[0]["writes"].size() == 2);
    for (int at = 3; at < 9; ++at) CHECK(exported(6, at)[0]["writes"].size() == 2);
}
