// NVTX ranges, pushed by a program that is built with NVIDIA's own header.
#include "recorder/nvtx.h"

#include <nvtx3/nvToolsExt.h>

#include <catch2/catch.hpp>
#include <thread>

#include "recorder/recorder.h"
#include "recorder/trace_analysis.h"
#include "tests/unit/recorder/recorder_sink.h"

using namespace swapadvisor;
using namespace swapadvisor::test;

namespace {

// The header's hook for injections that are linked in, instead of a library named in the environment.
const bool kLinkedIn = (InitializeInjectionNvtx2_fnptr = reinterpret_cast<NvtxInitializeInjectionNvtxFunc_t>(
                            reinterpret_cast<void*>(&InitializeInjectionNvtx2)),
                        true);

}  // namespace

TEST_CASE("ranges nest, each thread has its own, and equal paths have equal numbers") {
    REQUIRE(kLinkedIn);
    CHECK(current_range() == 0);
    nvtxRangePushA("step");
    const std::uint64_t step = current_range();
    CHECK(describe_range(step) == "step");
    nvtxRangePushW(L"vorw\u00e4rts");
    CHECK(describe_range(current_range()) == "step/vorw\xC3\xA4rts");
    const std::uint64_t inner = current_range();
    std::thread([] {
        CHECK(current_range() == 0);
        nvtxRangePushA("step");
        CHECK(describe_range(current_range()) == "step");
        nvtxRangePop();
    }).join();
    CHECK(nvtxRangePop() == 1);
    CHECK(current_range() == step);
    nvtxRangePushW(L"vorw\u00e4rts");
    CHECK(current_range() == inner);
    nvtxRangePop();
    CHECK(nvtxRangePop() == 0);
    CHECK(current_range() == 0);
    CHECK(nvtxRangePop() < 0);
    CHECK(describe_range(1 << 30).empty());
}

TEST_CASE("domains and registered strings") {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
    const nvtxStringHandle_t name = nvtxDomainRegisterStringA(domain, "layer");
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = name;
    nvtxDomainRangePushEx(domain, &event);
    CHECK(describe_range(current_range()) == "layer");
    nvtxDomainRangePop(domain);
    CHECK(current_range() == 0);
}

TEST_CASE("deeper than anyone nests") {
    for (int i = 0; i < 200; ++i) nvtxRangePushA("deep");
    CHECK(current_range() != 0);
    for (int i = 0; i < 200; ++i) nvtxRangePop();
    CHECK(current_range() == 0);
}

TEST_CASE("ranges name ops and buffers in traces, graphs and reports") {
    const TemporaryFile file(".trace");
    {
        Recorder recorder({.trace_path = file.path(), .synchronous = true});
        recorder.name_function(5, "relu");
        recorder.allocate(1, 4 << 20, false, 0, nullptr);
        BufferId next = 1;
        for (int i = 0; i < 20; ++i) {
            nvtxRangePushA("forward");
            recorder.allocate(++next, 2 << 20, false, 0, nullptr);
            const Touch touches[] = {{1, Access::read}, {next, Access::write}};
            OpView op;
            op.function = 5;
            op.touches = touches;
            op.touch_count = 2;
            recorder.op(op);
            nvtxRangePop();
            op.function = 6;
            recorder.op(op);
            recorder.release(next);
        }
    }
    const TraceAnalysis trace = analyse_trace(file.path());
    REQUIRE(trace.model.ops.size() == 2);
    CHECK(trace.model.ops[0].name == "forward: relu");
    CHECK(trace.model.ops[1].name == "kernel");
    REQUIRE(trace.model.buffers.size() == 2);
    CHECK(trace.model.buffers[0].name == "forward tensor0");
    CHECK(trace_to_graph_json(file.path()).find("\"range\":\"forward\"") != std::string::npos);
}
