// What recording costs: a call site met again, a launch handed to the recorder, a trace of ten million events
// written and reported on. CPU time of this process, the best of a few tries: other programs may use the
// machine.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "recorder/callsite.h"
#include "recorder/report_html.h"
#include "recorder/trace_analysis.h"
#include "tests/unit/recorder/large_trace.h"

using namespace swapadvisor;
using namespace swapadvisor::test;

namespace {

void print(const char* name, double value, const char* unit, const char* aim) {
    std::printf("{\"name\": \"%s\", \"value\": %.2f, \"unit\": \"%s\", \"against\": %s}\n", name, value, unit,
                aim);
    std::fflush(stdout);
}

// A dozen frames deep, as an allocation in a framework is.
__attribute__((noinline)) std::uint64_t site_at_depth(int depth) {
    const std::uint64_t site = depth > 0 ? site_at_depth(depth - 1) : capture_site();
    asm volatile("");
    return site;
}

double repeated_site_ns() {
    constexpr int kCalls = 200'000;
    double best = 1e9;
    site_at_depth(12);
    for (int round = 0; round < 5; ++round) {
        const double begin = cpu_seconds(RUSAGE_THREAD);
        for (int i = 0; i < kCalls; ++i) site_at_depth(12);
        best = std::min(best, (cpu_seconds(RUSAGE_THREAD) - begin) * 1e9 / kCalls);
    }
    return best;
}

}  // namespace

int main() {
    print("recorder: a call site met again, 12 frames deep", repeated_site_ns(), "ns", "1000");
    constexpr std::uint64_t kEvents = 10'000'000;
    const std::string path = "/tmp/swapadvisor-bench-" + std::to_string(getpid()) + ".trace";
    const RecordingCosts with = write_trace(path, kEvents), without = write_trace("", kEvents);
    const auto each = [&](double seconds) { return seconds * 1e9 / static_cast<double>(with.events); };
    print("recorder: an event, to the caller", each(with.caller), "ns", "null");
    print("recorder: an event, all threads, without a trace", each(without.all), "ns", "null");
    print("recorder: an event, all threads, with a trace", each(with.all), "ns", "null");
    const double begin = cpu_seconds(RUSAGE_SELF);
    const TraceAnalysis trace = analyse_trace(path);
    const std::string page = report_html(trace.model);
    print("report: a trace of ten million events, opened", cpu_seconds(RUSAGE_SELF) - begin, "s", "2");
    print("report: its page", static_cast<double>(page.size()) / 1e6, "MB", "5");
    unlink(path.c_str());
    return trace.iteration && trace.damage.empty() ? 0 : 1;
}
