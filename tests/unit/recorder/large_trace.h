// A long run, as the runtime would record it: 300 layers with swaps, stalls, timings and evaluations, and
// what recording it costs, as CPU time. For the test of large traces and for the benchmark.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>

#include "tests/unit/recorder/recorder_sink.h"
#include "tests/unit/recorder/simulated_program.h"

namespace swapadvisor::test {

/// `who`: RUSAGE_SELF or RUSAGE_THREAD.
inline double cpu_seconds(int who) {
    rusage usage{};
    getrusage(who, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

inline constexpr int kLayers = 300;
inline constexpr std::uint64_t kOpsPerStep = 1 + kLayers + 1 + 2 * kLayers;

struct RecordingCosts {
    double caller = 0, all = 0;  // seconds
    std::uint64_t events = 0;
};

/// At least `events_wanted` events. `path` "": recorded without a trace.
inline RecordingCosts write_trace(const std::string& path, std::uint64_t events_wanted) {
    RecordingCosts costs;
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

}  // namespace swapadvisor::test
