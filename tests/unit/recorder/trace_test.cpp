// Trace files: what goes in comes out; what is cut, flipped or hostile is met with one clear line.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "recorder/export.h"
#include "recorder/graph_import.h"
#include "recorder/trace_analysis.h"
#include "recorder/trace_reader.h"
#include "recorder/trace_writer.h"
#include "tests/unit/recorder/recorder_sink.h"
#include "tests/unit/recorder/simulated_program.h"

using namespace swapadvisor;
using namespace swapadvisor::test;

namespace {

std::string read_all(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
void write_all(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

const DeviceModel kDevice{"test device",  std::int64_t{8} << 30, 12'000'000'000,
                          13'000'000'000, 20'000'000'000,        10'000};

void record_training(const std::string& path, int steps, bool eval = true) {
    Recorder recorder({.trace_path = path,
                       .program = "train --now",
                       .device = kDevice,
                       .limit_bytes = 200 << 20,
                       .synchronous = true});
    RecorderSink sink{recorder};
    SimulatedProgram<RecorderSink> program(sink);
    recorder.name_function(kForward, "_Z7forwardPfS_i");
    recorder.name_function(kUpdate, "update");
    const auto net = program.make_network(24, 4 << 20, true, false);
    recorder.escaped(net.momentum[0], "its address was seen in device memory");
    for (int i = 0; i < steps; ++i) {
        const std::uint64_t first = program.ops();
        recorder.swap(net.weight[3], SwapKind::out, 4 << 20, first + 10, true);
        recorder.swap(net.weight[3], SwapKind::in, 4 << 20, first + 50, true);
        recorder.stall(first + 50, 700);
        program.step(net, 8);
        for (std::uint64_t s = first; s < program.ops(); ++s)
            recorder.op_duration(s, static_cast<std::int64_t>(1000 + s - first));
        if (eval && i % 10 == 9) program.evaluate(net, 16, 3);
    }
}

}  // namespace

TEST_CASE("a trace says what was recorded") {
    const TemporaryFile file(".trace");
    record_training(file.path(), 30);
    CHECK(looks_like_trace(file.path()));
    const TraceAnalysis trace = analyse_trace(file.path());
    CHECK(trace.damage.empty());
    CHECK(trace.program == "train --now");
    CHECK(trace.pid == getpid());
    CHECK(trace.device.name == "test device");
    CHECK(trace.device.d2h_bytes_per_s == 13'000'000'000);
    CHECK(trace.limit_bytes == 200 << 20);
    REQUIRE(trace.iteration != nullptr);
    CHECK(trace.iteration->ops.size() == 74);
    CHECK(trace.instances == 30);

    const ReportModel& m = trace.model;
    CHECK(m.ops_per_iteration == 74);
    CHECK(m.infinite_ns_per_iteration == 74 * 1000 + 74 * 73 / 2);
    CHECK(m.stall_ns_per_iteration == 700);
    CHECK(m.measured_ns_per_iteration == m.infinite_ns_per_iteration + 700);
    CHECK(m.in_bytes_per_iteration == 4 << 20);
    CHECK(m.out_bytes_per_iteration == 4 << 20);
    CHECK(m.in_bytes_total == std::int64_t{30 * 4} << 20);
    // Weights and momentum, the input, 24 activations, and one gradient of an activation or two.
    CHECK(m.peak_bytes ==
          (std::int64_t{48 * 4} << 20) + (std::int64_t{8 * (1 + 24 + 2)} << 20) + (std::int64_t{4} << 20));
    REQUIRE(m.unmovable.size() == 1);
    CHECK(m.unmovable[0].bytes == 4 << 20);
    // Issued before op 50, needed by the update of that weight.
    CHECK(m.ops[50 + 3].in_bytes == 4 << 20);
    CHECK(m.ops[50].in_bytes == 0);
    CHECK(m.ops[50].stall_ns == 700);
    CHECK(m.ops[1].name == "forward");
    CHECK(m.swaps.size() == 2);
    std::int64_t most = 0;
    for (const auto& sample : m.timeline) most = std::max(most, sample.live_bytes);
    CHECK(most == m.peak_bytes);
}

TEST_CASE("a trace of its own iteration: export, import, export") {
    const TemporaryFile file(".trace"), again(".trace");
    record_training(file.path(), 12);
    const auto graph = nlohmann::json::parse(trace_to_graph_json(file.path()));
    import_graph(graph.dump(), again.path());
    const auto back = nlohmann::json::parse(trace_to_graph_json(again.path()));
    REQUIRE(back["ops"].size() == graph["ops"].size());
    REQUIRE(back["tensors"].size() == graph["tensors"].size());
    // Tensors may be numbered anew: compare through their names, which the trace keeps.
    const auto named = [](const nlohmann::json& g, const nlohmann::json& ids) {
        std::vector<std::string> names;
        for (const auto& id : ids) names.push_back(g["tensors"][id.get<std::size_t>()]["name"]);
        std::sort(names.begin(), names.end());
        return names;
    };
    for (std::size_t o = 0; o < graph["ops"].size(); ++o) {
        const auto &a = graph["ops"][o], &b = back["ops"][o];
        CHECK(a["name"] == b["name"]);
        CHECK(a["duration_ns"] == b["duration_ns"]);
        CHECK(named(graph, a["reads"]) == named(back, b["reads"]));
        CHECK(named(graph, a["writes"]) == named(back, b["writes"]));
    }
    CHECK(graph["device"] == back["device"]);
    CHECK_THROWS_WITH(import_graph("{}", again.path()), Catch::Contains("format"));
    CHECK_THROWS_WITH(import_graph("[", again.path()), Catch::Contains("no JSON"));
}

TEST_CASE("nothing that repeats: one clear line") {
    const TemporaryFile file(".trace");
    record_training(file.path(), 1);
    CHECK(analyse_trace(file.path()).model.notes.size() == 1);
    CHECK_THROWS_WITH(trace_to_graph_json(file.path()), Catch::Contains("no repeating iteration"));
}

TEST_CASE("killed with SIGKILL, a trace is good up to the last whole block") {
    const TemporaryFile file(".trace");
    const pid_t child = fork();
    if (child == 0) {
        Recorder recorder({.trace_path = file.path(), .program = "killed"});
        RecorderSink sink{recorder};
        SimulatedProgram<RecorderSink> program(sink);
        const auto net = program.make_network(24, 4 << 20, true, false);
        for (int i = 0; i < 2000; ++i) program.step(net, 8);
        recorder.flush();
        kill(getpid(), SIGKILL);
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    const TraceAnalysis trace = analyse_trace(file.path());
    CHECK(trace.damage.empty());  // blocks are written whole; what was not yet in one is missing
    REQUIRE(trace.iteration != nullptr);
    CHECK(trace.iteration->ops.size() == 74);
    CHECK(trace.ops > 100'000);
}

TEST_CASE("what is appended shows up while the program still runs") {
    const TemporaryFile file(".trace");
    Recorder recorder({.trace_path = file.path()});
    RecorderSink sink{recorder};
    SimulatedProgram<RecorderSink> program(sink);
    const auto net = program.make_network(24, 4 << 20, true, false);
    for (int i = 0; i < 5; ++i) program.step(net, 8);
    std::uint64_t seen = 0;
    for (int wait = 0; wait < 300 && seen == 0; ++wait) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        seen = analyse_trace(file.path()).ops;
    }
    CHECK(seen == program.ops());
}

TEST_CASE("a trace cut at any byte is read up to there") {
    const TemporaryFile file(".trace"), cut(".trace");
    record_training(file.path(), 2000, false);
    const std::string bytes = read_all(file.path());
    REQUIRE(bytes.size() > 3 * kTraceBlockHeaderBytes);
    const std::uint64_t all = analyse_trace(file.path()).ops;
    std::mt19937 random(5);
    for (int round = 0; round < 30; ++round) {
        const std::size_t size = random() % bytes.size();
        write_all(cut.path(), bytes.substr(0, size));
        if (size < kTraceHeaderBytes) {
            CHECK_THROWS_AS(analyse_trace(cut.path()), TraceError);
            continue;
        }
        const TraceAnalysis trace = analyse_trace(cut.path());
        CHECK(trace.ops < all);
        if (size > kTraceHeaderBytes) CHECK(trace.damage.find("cut short") != std::string::npos);
    }
}

TEST_CASE("a thousand random mutations: no crash, one line") {
    const TemporaryFile file(".trace"), mutant(".trace");
    record_training(file.path(), 40);
    const std::string good = read_all(file.path());
    std::mt19937 random(11);
    int damaged = 0;
    for (int round = 0; round < 1000; ++round) {
        std::string bytes = good;
        for (unsigned n = 1 + random() % 4; n > 0; --n) {
            const std::size_t at = random() % bytes.size();
            switch (random() % 4) {
                case 0:
                    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
                    break;
                case 1:
                    bytes[at] = static_cast<char>(random());
                    break;
                case 2:
                    bytes.erase(at, 1 + random() % 40);
                    break;
                default:
                    bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 64));
                    break;
            }
            if (bytes.size() < 2) bytes = good;
        }
        write_all(mutant.path(), bytes);
        try {
            const TraceAnalysis trace = analyse_trace(mutant.path());
            damaged += !trace.damage.empty();
            CHECK(trace.damage.find('\n') == std::string::npos);
        } catch (const TraceError& error) {
            ++damaged;
            CHECK(std::string(error.what()).find('\n') == std::string::npos);
        }
    }
    CHECK(damaged > 950);
}

TEST_CASE("blocks with a right sum and wrong contents: decoding stays inside") {
    std::mt19937 random(13);
    std::vector<std::uint64_t> words;
    for (int round = 0; round < 20000; ++round) {
        std::vector<std::uint8_t> raw(random() % 200);
        for (auto& byte : raw) byte = static_cast<std::uint8_t>(random() % 4 ? random() % 12 : random());
        std::size_t records = 0;
        decode_block(raw.data(), raw.size(), words, [&](const std::uint64_t* w, std::size_t count) {
            ++records;
            REQUIRE(record_words(w[0]) == count);
        });
        CHECK(records <= raw.size());
    }
}

TEST_CASE("files that are no traces") {
    const TemporaryFile file(".trace");
    CHECK_THROWS_WITH(TraceReader("/proc/nonexistent/x"), Catch::Contains("cannot read /proc/nonexistent/x"));
    CHECK_THROWS_WITH(TraceReader("/tmp"), Catch::Contains("not a regular file"));
    write_all(file.path(), "hello, this is text");
    CHECK_THROWS_WITH(TraceReader(file.path()), Catch::Contains("is not a trace"));
    write_all(file.path(), std::string("SWAPTRC\n\7\0\0\0\0\0\0\0", 16));
    CHECK_THROWS_WITH(TraceReader(file.path()), Catch::Contains("version 7"));
    Recorder recorder({.trace_path = "/proc/nonexistent/x", .synchronous = true});
    CHECK_THAT(recorder.trace_error(), Catch::Contains("cannot write the trace /proc/nonexistent/x"));
    recorder.mark();  // goes on without a file
}

TEST_CASE("all records come back word for word") {
    const TemporaryFile file(".trace");
    std::mt19937_64 random(17);
    std::vector<std::vector<std::uint64_t>> written, got;
    const auto small = [&] { return random() >> (16 + random() % 48); };
    {
        TraceWriter writer;
        REQUIRE(writer.open(file.path()));
        for (int i = 0; i < 50000; ++i) {
            std::vector<std::uint64_t> w(1);
            std::uint8_t flag = 0;
            const auto type = static_cast<RecordType>(1 + random() % kLastRecordType);
            switch (type) {
                case RecordType::allocate:
                    flag = random() % 4;
                    w.insert(w.end(), {small() >> 3, small(), random(), random()});
                    break;
                case RecordType::release:
                    w.push_back(small());
                    break;
                case RecordType::op:
                    flag = random() % 6;
                    w.insert(w.end(), {random(), random(), random(), random(), random(), random()});
                    for (unsigned n = random() % 9; n > 0; --n)
                        w.push_back(small() >> 3 << 2 | (1 + random() % 3));
                    break;
                case RecordType::duration:
                case RecordType::stall:
                    w.insert(w.end(), {random(), small()});
                    break;
                case RecordType::content:
                    flag = random() % 2;
                    w.insert(w.end(), {random(), random()});
                    break;
                case RecordType::range:
                    w.push_back(random());
                    break;
                case RecordType::figure:
                    flag = random() % (kLastFigureKind + 1);
                    w.push_back(small());
                    break;
                case RecordType::mark:
                    break;
                case RecordType::swap:
                    flag = random() % 6;
                    w.insert(w.end(), {small(), small(), random()});
                    break;
                case RecordType::text: {
                    flag = random() % (kLastTextKind + 1);
                    const std::string text(random() % 50, 'x');
                    w.insert(w.end(), {random(), text.size()});
                    w.resize(3 + (text.size() + 7) / 8);
                    std::memcpy(w.data() + 3, text.data(), text.size());
                    break;
                }
                case RecordType::device:
                    for (int f = 0; f < 6; ++f) w.push_back(small());
                    break;
            }
            w[0] = record_header(type, flag, w.size());
            writer.append(w.data(), w.size());
            written.push_back(std::move(w));
        }
    }
    TraceReader reader(file.path());
    while (reader.next_block([&](const std::uint64_t* w, std::size_t n) { got.emplace_back(w, w + n); })) {
    }
    CHECK(reader.damage().empty());
    CHECK(got == written);
}
