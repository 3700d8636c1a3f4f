// The live recorder: its thread, its ring, what it delivers.
#include "recorder/recorder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "recorder/export.h"
#include "tests/unit/recorder/recorder_sink.h"
#include "tests/unit/recorder/simulated_program.h"

using namespace swapadvisor;
using namespace swapadvisor::test;

TEST_CASE("the recorder's thread finds the iteration; a ring far smaller than the program loses nothing") {
    Recorder recorder({.ring_bytes = 4096});
    RecorderSink sink{recorder};
    SimulatedProgram<RecorderSink> program(sink);
    const auto net = program.make_network(24, 4 << 20, true, false);
    const std::uint64_t start = program.ops();
    for (int i = 0; i < 50; ++i) program.step(net, 8);
    recorder.flush();
    CHECK(recorder.version() == 1);
    REQUIRE(recorder.steady() != nullptr);
    CHECK(recorder.steady()->ops.size() == (program.ops() - start) / 50);
    CHECK(recorder.instances() == 50);
    recorder.close();
    recorder.mark();  // ignored
}

TEST_CASE("op sequence numbers count from zero, and durations find their ops") {
    Recorder recorder({.synchronous = true});
    RecorderSink sink{recorder};
    SimulatedProgram<RecorderSink> program(sink);
    const auto net = program.make_network(24, 4 << 20, true, false);
    const std::uint64_t before = program.ops();
    CHECK(recorder.op({}) == before);
    for (int i = 0; i < 3; ++i) program.step(net, 8);
    for (std::uint64_t s = before + 1; s < before + 1 + 3 * 74; ++s) recorder.op_duration(s, 5000);
    const auto timed = recorder.steady_with_durations();
    for (const OpRecord& op : timed->ops) CHECK(op.duration_ns == 5000);
}

TEST_CASE("a forked child can drop the recorder and exit") {
    Recorder recorder({});
    recorder.mark();
    const pid_t child = fork();
    if (child == 0) {
        recorder.abandon_after_fork();
        recorder.mark();
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
}

TEST_CASE("the default trace name carries process and rank") {
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("SLURM_PROCID");
    unsetenv("RANK");
    CHECK(default_trace_path("/x") == "/x/swapadvisor-" + std::string(program_invocation_short_name) + "-" +
                                          std::to_string(getpid()) + ".trace");
    setenv("SLURM_PROCID", "3", 1);
    CHECK(process_rank() == 3);
    setenv("RANK", "1", 1);
    CHECK(default_trace_path("") == "./swapadvisor-" + std::string(program_invocation_short_name) + "-" +
                                        std::to_string(getpid()) + "-rank1.trace");
    unsetenv("RANK");
    unsetenv("SLURM_PROCID");
}

TEST_CASE("the graph of an iteration") {
    Recorder recorder({.synchronous = true});
    RecorderSink sink{recorder};
    SimulatedProgram<RecorderSink> program(sink);
    recorder.name_function(kForward, "_Z7forwardPfS_i");
    const auto net = program.make_network(24, 4 << 20, true, false);
    for (int i = 0; i < 2; ++i) program.step(net, 8);
    const auto iteration = recorder.steady();
    REQUIRE(iteration != nullptr);
    GraphNames names;
    names.graph = "simulated \"net\"";
    names.function_name = [&](std::uint64_t f) { return recorder.function_name(f); };
    const auto graph =
        nlohmann::json::parse(graph_json(*iteration, {"dev", 1 << 30, 10, 10, 15, 1000}, names));
    CHECK(graph["format"] == "swapadvisor-graph");
    CHECK(graph["name"] == "simulated \"net\"");
    REQUIRE(graph["ops"].size() == 74);
    CHECK(graph["ops"][0]["name"] == "memcpy_h2d");
    CHECK(graph["ops"][1]["name"] == "forward(float*, float*, int)");
    // forward: reads input and weight, writes them too for all we know, and its newborn output only written.
    CHECK(graph["ops"][1]["reads"].size() == 2);
    CHECK(graph["ops"][1]["writes"].size() == 3);
    std::int64_t persistent = 0;
    for (const auto& t : graph["tensors"]) persistent += t["persistent"].get<bool>();
    CHECK(persistent == 48);
}

TEST_CASE("the trace's name: directories, placeholders, and a file that another process writes") {
    const std::string pid = std::to_string(getpid());
    CHECK(expand_trace_path("/x/%p-%r%.trace") == "/x/" + pid + "-0%.trace");
    CHECK(expand_trace_path("/tmp") == default_trace_path("/tmp"));
    const TemporaryFile file(".trace");
    Recorder first({.trace_path = file.path(), .synchronous = true});
    Recorder second({.trace_path = file.path(), .synchronous = true});
    CHECK(first.trace_path() == file.path());
    CHECK(second.trace_path() == file.path().substr(0, file.path().size() - 6) + "-" + pid + ".trace");
    ::unlink(second.trace_path().c_str());
    first.close();
    Recorder third({.trace_path = file.path(), .synchronous = true});
    CHECK(third.trace_path() == file.path());
}
