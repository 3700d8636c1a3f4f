#include "interpose/command/report_input.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "interpose/command/files.h"
#include "interpose/command/planner_options.h"
#include "interpose/command/report_plan.h"
#include "interpose/command/what_if.h"
#include "planner/planner.h"
#include "recorder/planned_part.h"
#include "recorder/report_parse.h"
#include "recorder/site_lines.h"
#include "recorder/trace_reader.h"

namespace swapadvisor::command {
namespace {

constexpr std::size_t kFormatHead = 4096;

// Tells the format by its name near the start, before the whole of it is parsed.
bool names_format(const std::string& text, const char* format) {
    return text.substr(0, kFormatHead).find(format) != std::string::npos;
}

}  // namespace

TraceAnalysis analyse_with_progress(const std::string& path) {
    using Clock = std::chrono::steady_clock;
    const bool terminal = isatty(STDERR_FILENO) == 1;
    const auto interval = std::chrono::milliseconds(200);
    auto shown = Clock::now();
    bool drawn = false;
    SiteLines lines;
    AnalysisOptions options;
    options.resolve_site = [&](const std::string& site) { return lines.resolve(site); };
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
        const auto now = Clock::now();
        if (!terminal || now - shown < interval) return;
        shown = now;
        const int percent =
            total > 0 ? static_cast<int>(static_cast<double>(done) * 100 / static_cast<double>(total)) : 100;
        std::fprintf(stderr, "\rreading %s: %d %%", path.c_str(), percent);
        drawn = true;
    };
    TraceAnalysis trace = analyse_trace(path, options);
    if (drawn) std::fputs("\r\033[K", stderr);
    if (!trace.damage.empty()) std::fprintf(stderr, "swapadvisor: %s\n", trace.damage.c_str());
    return trace;
}

ReportModel load_report(const std::string& path, const std::string& graph_path) {
    if (looks_like_trace(path)) {
        TraceAnalysis trace = analyse_with_progress(path);
        const bool known = trace.model.lower_bound_ns != kUnknown;  // by the runtime, which knew its room
        if (!known && trace.iteration && trace.limit_bytes > 0 && trace.device.h2d_bytes_per_s > 0) {
            const planner::Graph graph = planner::parse_graph(
                graph_json(without_pages(*trace.iteration), trace.device, trace.names()));
            trace.model.lower_bound_ns = lower_bound_ns(graph, trace.limit_bytes);
        }
        if (trace.iteration) fill_what_if(trace.model, trace);
        return trace.model;
    }
    const std::string text = read_file(path);
    if (names_format(text, "swapadvisor-report")) {
        try {
            return parse_report_json(text);
        } catch (const std::runtime_error& error) {
            throw std::runtime_error(path + ": " + error.what());
        }
    }
    if (!names_format(text, "swapadvisor-plan"))
        throw std::runtime_error(path + " is neither a trace nor a plan nor a report (JSON)");
    try {
        const planner::Plan plan = planner::parse_plan(text);
        if (graph_path.empty()) return report_of_plan(plan);
        if (looks_like_trace(graph_path)) {
            const TraceAnalysis trace = analyse_with_progress(graph_path);
            if (!trace.iteration) throw std::runtime_error(graph_path + " holds no repeating iteration");
            return report_of_plan(
                plan, planner::parse_graph(trace_graph_json(trace, plan.limit_bytes, is_ideal(plan))));
        }
        return report_of_plan(plan, planner::parse_graph(read_file(graph_path)));
    } catch (const planner::PlanError& error) {
        throw std::runtime_error(path + ": " + error.what());
    }
}

}  // namespace swapadvisor::command
