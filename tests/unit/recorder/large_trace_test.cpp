// Traces of long runs. The test proper is short; "recorder_tests [.large]" writes ten million events (into
// the file that LARGE_TRACE names, if it does) and prints what that and the reports cost, as CPU time of this
// process.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "recorder/report_html.h"
#include "recorder/trace_analysis.h"
#include "tests/unit/recorder/recorder_sink.h"
#include "tests/unit/recorder/simulated_program.h"

using namespace swapadvisor;
using namespace swapadvisor::test;

namespace {

double cpu_seconds(int who) {
    rusage usage{};
    getrusage(who, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

constexpr int kLayers = 300;
constexpr std::uint64_t kOpsPerStep = 1 + kLayers + 1 + 2 * kLayers;

struct Costs {
    double caller = 0, all = 0;  // seconds
    std::uint64_t events = 0;
};

Costs write_trace(const std::string& path, std::uint64_t events_wanted) {
    Costs costs;
    const double caller = cpu_seconds(RUSAGE_THREAD), all = cpu_seconds(RUSAGE_SELF);
    Recorder recorder({.trace_path = path,
                       .program = "a run of ten million events",
                       .device = {"test device", std::int64_t{8} << 30, 12'000'000'000, 12'000'000'000,
                                  20'000'000'000, 10'000},
                       .limit_bytes = std::int64_t{5} << 30});
    RecorderSink sink{recorder};
    SimulatedProgram<RecorderSink> program(sink);
    recorder.name_function(kForward, "_Z7forwardPfS_i");
    recorder.name_function(kBackward, "_Z8backwardPfS_S_S_");
    recorder.name_function(kUpdate, "_Z6updatePfPKfS_");
    const auto net = program.make_network(kLayers, 4 << 20, true, false);
    for (int step = 0; costs.events < events_wanted; ++step) {
        // Every tenth layer's optimiser state leaves after the update and comes back for the next one.
        const std::uint64_t first = program.ops();
        for (std::size_t l = 0; l < kLayers; l += 10) {
            const std::uint64_t update = first + kOpsPerStep - kLayers + l;
            recorder.swap(net.momentum[l], SwapKind::out, 4 << 20, first + 1 + l, true);
            recorder.swap(net.momentum[l], SwapKind::in, 4 << 20, update - 20, true);
            if (l % 20 == 0) recorder.stall(update, static_cast<std::int64_t>(1000 * l));
        }
        program.step(net, 8);
        // What the runtime would measure in the warm-up.
        for (std::uint64_t s = first; step < 20 && s < program.ops(); ++s)
            recorder.op_duration(s, static_cast<std::int64_t>(20'000 + 100 * ((s - first) % 90)));
        costs.events +=
            kOpsPerStep + 2 * (1 + kLayers + 1 + kLayers + kLayers) + 2 * kLayers / 10 + kLayers / 20;
        if (step % 50 == 49) program.evaluate(net, 16, 2);
    }
    costs.caller = cpu_seconds(RUSAGE_THREAD) - caller;
    recorder.close();
    costs.all = cpu_seconds(RUSAGE_SELF) - all;
    return costs;
}

void check_trace(std::uint64_t events, bool print) {
    const TemporaryFile file(".trace");
    const char* kept = print ? std::getenv("LARGE_TRACE") : nullptr;
    const std::string path = kept ? kept : file.path();
    const Costs costs = write_trace(path, events);
    const double before = cpu_seconds(RUSAGE_SELF);
    const TraceAnalysis trace = analyse_trace(path);
    const double analysed = cpu_seconds(RUSAGE_SELF);
    const std::string html = report_html(trace.model), text = report_text(trace.model);
    const double rendered = cpu_seconds(RUSAGE_SELF);
    CHECK(trace.damage.empty());
    REQUIRE(trace.iteration != nullptr);
    CHECK(trace.iteration->ops.size() == kOpsPerStep);
    CHECK(html.size() < kMaxHtmlBytes);
    CHECK(trace.model.peak_bytes > 0);
    CHECK(trace.model.in_bytes_per_iteration == std::int64_t{kLayers / 10 * 4} << 20);
    CHECK(trace.model.stall_ns_per_iteration == 1000 * 20 * (15 * 14 / 2));
    if (!print) return;
    std::printf(
        "%llu events: %.1f ns each in the caller, %.1f ns each in all; analysed in %.2f s, HTML (%zu bytes) "
        "in %.2f s\n",
        static_cast<unsigned long long>(costs.events), costs.caller * 1e9 / static_cast<double>(costs.events),
        costs.all * 1e9 / static_cast<double>(costs.events), analysed - before, html.size(),
        rendered - analysed);
}

}  // namespace

TEST_CASE("a long run with evaluation: the iteration and a page of bounded size") {
    check_trace(200'000, false);
}

TEST_CASE("ten million events", "[.large]") {
    check_trace(10'000'000, true);
}
