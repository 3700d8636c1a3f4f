// The live recorder: its thread, its ring, what it delivers.
#include "recorder/output_path.h"
#include "recorder/recorder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "recorder/export.h"
#include "recorder/names.h"
#include "recorder/report_model.h"
#include "recorder/trace_analysis.h"
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
    const std::string program = "/tmp/swapadvisor-" + std::string(program_invocation_short_name) + "-" +
                                std::to_string(getpid());
    CHECK(expand_output_path("/tmp", ".trace") == program + ".trace");
    setenv("SLURM_PROCID", "3", 1);
    CHECK(process_rank() == 3);
    setenv("RANK", "1", 1);
    CHECK(expand_output_path("/tmp", ".txt") == program + "-rank1.txt");
    setenv("WORLD_SIZE", "4", 1);
    CHECK(process_ranks() == 4);
    unsetenv("WORLD_SIZE");
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
    CHECK(expand_output_path("/x/%p-%r%.trace", ".trace") == "/x/" + pid + "-0%.trace");
    CHECK(tagged_path("/x.y/run.trace", "rank1") == "/x.y/run.rank1.trace");
    CHECK(tagged_path("/x.y/run", "7") == "/x.y/run.7");
    CHECK(tagged_path("/x/.hidden", "7") == "/x/.hidden.7");
    CHECK(tagged_path("run.trace", "") == "run.trace");
    const TemporaryFile file(".trace");
    Recorder first({.trace_path = file.path(), .synchronous = true});
    Recorder second({.trace_path = file.path(), .synchronous = true});
    CHECK(first.trace_path() == file.path());
    CHECK(second.trace_path() == file.path().substr(0, file.path().size() - 6) + "." + pid + ".trace");
    ::unlink(second.trace_path().c_str());
    first.close();
    Recorder third({.trace_path = file.path(), .synchronous = true});
    CHECK(third.trace_path() == file.path());
}

TEST_CASE("the report at exit says what the report of the trace says") {
    const TemporaryFile file(".trace");
    ReportModel at_exit;
    at_exit.device = {"test device",  std::int64_t{8} << 30, 12'000'000'000,
                      12'000'000'000, 20'000'000'000,        10'000};
    const DeviceModel device = at_exit.device;
    {
        Recorder recorder(
            {.trace_path = file.path(), .program = "train", .device = device, .limit_bytes = 100 << 20});
        RecorderSink sink{recorder};
        SimulatedProgram<RecorderSink> program(sink);
        recorder.name_function(kForward, "_Z7forwardPfS_i");
        recorder.name_function(kUpdate, "f");
        const auto net = program.make_network(24, 4 << 20, true, false);
        recorder.name_buffer(net.weight[0], "first weight");
        recorder.escaped(net.momentum[0], "its address was seen in device memory");
        for (int i = 0; i < 30; ++i) {
            const std::uint64_t first = program.ops();
            recorder.swap(net.weight[3], SwapKind::out, 4 << 20, first + 10, true);
            recorder.swap(net.weight[5], SwapKind::drop, 0, first + 10, true);
            recorder.swap(net.weight[3], SwapKind::in, 4 << 20, first + 50, true);
            program.step(net, 8);
            for (std::uint64_t s = first; s < program.ops(); ++s) recorder.op_duration(s, 1000);
            recorder.stall(first + 50, 700);
            recorder.figure(FigureKind::measured_ns, 90'000 + i);
            if (i == 3) recorder.figure(FigureKind::lower_bound_ns, 70'000);
            if (i == 4) recorder.figure(FigureKind::predicted_ns, 80'000);
            if (i % 10 == 9) program.evaluate(net, 16, 3);
        }
        recorder.fill_report(at_exit);
    }
    AnalysisOptions options;
    options.resolve_site = without_folders;
    const TraceAnalysis trace = analyse_trace(file.path(), options);
    CHECK(at_exit.measured_ns_per_iteration == 90'029);
    CHECK(at_exit.predicted_ns == 80'000);
    CHECK(at_exit.lower_bound_ns == 70'000);
    CHECK(at_exit.stall_ns_per_iteration == 700);
    CHECK(at_exit.in_bytes_per_iteration == 4 << 20);
    CHECK(at_exit.buffers.size() > 48);
    CHECK(at_exit.unmovable.size() == 1);
    // What is known besides the records is the runtime's to say.
    at_exit.source = trace.model.source;
    at_exit.program = trace.model.program;
    at_exit.pid = trace.model.pid;
    at_exit.limit_bytes = trace.model.limit_bytes;
    CHECK(report_json(at_exit) == report_json(trace.model));
}

TEST_CASE("names of C functions stay, mangled ones become readable") {
    for (const char* name : {"f", "i", "main", "", "_", "matmul_kernel_0d1d", "_Zfoo"})
        CHECK(demangled(name) == name);
    CHECK(demangled("_Z7forwardPfS_i") == "forward(float*, float*, int)");
    CHECK(demangled("_ZN2ns1kILi4EEEvPf") == "void ns::k<4>(float*)");
    CHECK(without_arguments("_ZN2ns1kILi4EEEvPf") == "void ns::k<4>");
    CHECK(without_arguments("main") == "main");
    CHECK(demangled("_Z" + std::string(100000, '1')).size() == 100002);
}

TEST_CASE("buffers that nobody announced count as nothing, one that is announced twice counts once") {
    Recorder recorder({.synchronous = true});
    Touch touches[] = {{77, Access::read_write}, {78, Access::read_write}};
    OpView view;
    view.touches = touches;
    view.touch_count = 2;
    recorder.allocate(5, 5 << 20, false, 0, nullptr);
    recorder.op(view);
    recorder.release(77);
    recorder.release(99);
    recorder.allocate(5, 3 << 20, false, 0, nullptr);  // its release was lost
    recorder.allocate(6, 4 << 20, false, 0, nullptr);
    recorder.swap(6, SwapKind::out, 4 << 20, 1, false);
    recorder.release(6);
    recorder.release(6);
    recorder.op(view);
    ReportModel model;
    recorder.fill_report(model);
    CHECK(model.peak_bytes == 7 << 20);
    REQUIRE(model.peak.size() == 1);
    CHECK(model.peak[0].buffers == 2);
    CHECK(model.peak[0].bytes == 7 << 20);
    CHECK(model.ops.empty());
}
