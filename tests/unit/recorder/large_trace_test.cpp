// Traces of long runs. The test proper is short; "recorder_tests [.large]" writes ten million events (into
// the file that LARGE_TRACE names, if it does) and prints what that and the reports cost, as CPU time of this
// process.
#include "tests/unit/recorder/large_trace.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "recorder/report_html.h"
#include "recorder/trace_analysis.h"

using namespace swapadvisor;
using namespace swapadvisor::test;

namespace {

void check_trace(std::uint64_t events, bool print) {
    const TemporaryFile file(".trace");
    const char* kept = print ? std::getenv("LARGE_TRACE") : nullptr;
    const std::string path = kept ? kept : file.path();
    const RecordingCosts costs = write_trace(path, events);
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
