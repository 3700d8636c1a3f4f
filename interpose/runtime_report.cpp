#include "interpose/runtime_report.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string_view>

#include "interpose/config.h"
#include "interpose/log.h"
#include "interpose/runtime_outputs.h"
#include "interpose/runtime_plan.h"
#include "recorder/callsite.h"
#include "recorder/output_path.h"

namespace swapadvisor {
namespace {
std::vector<ReportModel>& kept() {
    static auto* models = new std::vector<ReportModel>;
    return *models;
}
/// The first thing that could not be written counts.
void note_problem(const std::string& line) {
    RunPage& page = run_page();
    if (page.problem[0] == 0) set_text(page.problem, sizeof page.problem, line);
}
std::int64_t number(std::uint64_t value) {
    return static_cast<std::int64_t>(value);
}

/// A sentence if the framework's settings, named by the launcher, seem to have had no effect in a run that
/// needed them.
std::string hidden_tensors(const ManagedContext& m) {
    const char* wanted = std::getenv("SWAPADVISOR_WANTED_SETTINGS");
    if (wanted == nullptr || *wanted == '\0') return "";
    const ResidencyCounts& c = m.residency->counts();
    const bool fitted = c.bytes_in + c.bytes_out + c.clean_drops + c.refused == 0;
    if (fitted && c.peak_live_bytes <= m.residency->memory_limit_bytes()) return "";
    const std::string why = m.habits.suspicion(c.peak_live_bytes, m.residency->memory_limit_bytes());
    if (why.empty()) return "";
    return std::string("the setting ") + wanted + " does not seem to have taken effect: " + why +
           ", so its tensors cannot be moved one by one";
}

std::string no_iteration(const ManagedContext& m) {
    const std::string why = m.recorder ? m.recorder->why_none() : "";
    return why.empty() ? "the loops that were found fit the limit, or did not last"
                       : "no iteration found: " + why;
}
}  // namespace

std::string program_name() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), {});
    while (!text.empty() && text.back() == '\0') text.pop_back();
    for (char& c : text)
        if (c == '\0') c = ' ';
    if (text.size() > 300) text = text.substr(0, 297) + "...";
    return text;
}

namespace {
void list_unmovable(const ManagedContext& m, ReportModel& model) {
    if (model.unmovable.empty() && m.residency) {
        std::map<std::string, LeftMemory> escaped;
        m.residency->for_each_large([&](Buffer& b) {
            if (b.escaped == nullptr) return;
            ++escaped[b.escaped].buffers;
            escaped[b.escaped].bytes += b.bytes;
        });
        for (const auto& [reason, sum] : escaped)
            model.unmovable.push_back({"", reason, number(sum.buffers), number(sum.bytes)});
    }
    for (const auto& [reason, sum] : m.left)
        model.unmovable.push_back({"", reason, number(sum.peak_buffers), number(sum.peak_bytes)});
}
}  // namespace

ReportModel report_model(RuntimeState& state, ManagedContext& m) {
    ReportModel model;
    model.source = "run";
    model.program = program_name();
    model.pid = getpid();
    model.rank = process_rank();
    model.device = m.model;
    if (m.unmanaged || !m.residency) {
        list_unmovable(m, model);
        model.mode = "unmanaged";
        model.mode_reason = m.reason;
        return model;
    }
    Residency& r = *m.residency;
    const ResidencyCounts& c = r.counts();
    const SwitchCounts& p = m.director->counts();
    const bool swapped = c.bytes_in + c.bytes_out + c.clean_drops != 0;
    // What the recorder saw, down to single ops; below, what the runtime itself knows better.
    if (m.recorder && !outputs().report.empty()) m.recorder->fill_report(model);
    model.limit_bytes = number(r.memory_limit_bytes());
    model.peak_bytes = number(c.peak_live_bytes);
    model.peak_resident_bytes = number(c.peak_resident_bytes);
    model.pinned_bytes = number(r.host().pinned());
    // What follows the last iteration (an evaluation, saving the weights) is not held against the plan.
    const bool ended_planned = p.last_planned && p.unplanned_ops <= p.ops_per_iteration;
    if (m.director->planned() || ended_planned)
        model.mode = "planned";
    else if (p.planned_iterations > 0)
        model.mode = "mixed";
    else
        model.mode = swapped ? "on demand" : "all resident";
    if (!m.director->planned() && !p.reason.empty())
        model.mode_reason = (ended_planned ? "left after the last iteration: " : "") + p.reason;
    if (model.mode == "on demand" && p.reason.empty())
        model.mode_reason = p.iterations == 0 ? no_iteration(m) : "no plan was ready";
    // The rows of single ops, if they are of the same loop, must add up to the figures shown with them.
    const bool same_loop =
        !model.ops.empty() && (p.ops_per_iteration == 0 || model.ops.size() == p.ops_per_iteration);
    if (p.iterations > 0) model.iterations = number(p.iterations);
    model.planned_iterations = number(p.planned_iterations);
    if (p.planned_iterations > 0)
        model.plan = m.director->plan_file().empty() ? "own search" : m.director->plan_file();
    if (p.predicted_ns > 0) model.predicted_ns = p.predicted_ns;
    if (m.director->measured_ns() > 0) model.measured_ns_per_iteration = m.director->measured_ns();
    if (m.director->lower_bound_ns() > 0) model.lower_bound_ns = m.director->lower_bound_ns();
    if (!same_loop) {
        model.ops.clear();
        model.buffers.clear();
        model.swaps.clear();
        model.timeline.clear();
        model.peak_op = kUnknown;
        model.peak_op_name.clear();
        model.stall_ns_per_iteration = kUnknown;
        model.ops_per_iteration = number(p.ops_per_iteration);
        model.infinite_ns_per_iteration = m.director->infinite_ns();
        if (p.iterations > 0) {
            model.in_bytes_per_iteration = number(p.in_bytes);
            model.out_bytes_per_iteration = number(p.out_bytes);
        }
    }
    model.in_bytes_total = number(c.bytes_in);
    model.out_bytes_total = number(c.bytes_out);
    model.divergences = number(p.divergences);
    model.remaps = number(p.mapping_calls);
    model.clean_drops = number(c.clean_drops);
    if (model.stall_ns_per_iteration == kUnknown && model.measured_ns_per_iteration > 0 &&
        model.infinite_ns_per_iteration > 0)
        model.stall_ns_per_iteration =
            std::max<std::int64_t>(0, model.measured_ns_per_iteration - model.infinite_ns_per_iteration);
    for (const auto& [what, count] : state.events) model.fallbacks.push_back({what, count});
    if (state.unrolled_graphs != 0)
        model.fallbacks.push_back({"graph launched node by node", number(state.unrolled_graphs)});
    list_unmovable(m, model);
    model.notes = state.notes;
    if (config().timing == TimingSource::cupti && std::string_view(m.director->timer().source()) == "events")
        model.notes.push_back(
            "SWAPADVISOR_TIMING=cupti: CUPTI could not be used, events timed the operations");
    if (const std::string hidden = hidden_tensors(m); !hidden.empty()) model.notes.push_back(hidden);
    return model;
}

void keep_report(RuntimeState& state, ManagedContext& managed) {
    kept().push_back(report_model(state, managed));
}

void write_reports(RuntimeState& state) {
    std::vector<ReportModel> models = kept();
    for (auto& managed : state.contexts) models.push_back(report_model(state, *managed));
    for (auto& managed : state.contexts) {
        if (!managed->residency || config().quiet) continue;
        if (const std::string hidden = hidden_tensors(*managed); !hidden.empty()) say("%s", hidden.c_str());
    }
    int written = 0;
    for (const ReportModel& model : models) {
        std::string path = outputs().report;
        if (path.empty()) return;
        if (written > 0 && path != "-") path = tagged_path(path, std::to_string(written));
        ++written;
        if (!write_exit_report(model, path))
            note_problem("the report could not be written to " + path + ": " + std::strerror(errno));
    }
}

void RuntimeState::note_progress(const ManagedContext& m) const {
    if (m.number != 0) return;
    RunPage& page = run_page();
    if (!m.residency || !m.director) {
        std::memcpy(page.mode, "unmanaged", sizeof "unmanaged");
        return;
    }
    const ResidencyCounts& c = m.residency->counts();
    const SwitchCounts& p = m.director->counts();
    page.swapped = c.bytes_in + c.bytes_out + c.clean_drops != 0 ? 1 : 0;
    page.iterations = number(p.iterations);
    page.planned_iterations = number(p.planned_iterations);
    page.ops = number(m.director->next_seq());
    page.ops_per_iteration = number(p.ops_per_iteration);
    page.divergences = number(p.divergences);
    page.limit_bytes = number(m.residency->memory_limit_bytes());
    page.peak_bytes = number(c.peak_live_bytes);
    page.peak_resident_bytes = number(c.peak_resident_bytes);
    page.pinned_bytes = number(m.residency->host().pinned());
    page.in_bytes_total = number(c.bytes_in);
    page.out_bytes_total = number(c.bytes_out);
    page.predicted_ns = p.predicted_ns > 0 ? p.predicted_ns : kUnknown;
    page.measured_ns = m.director->measured_ns();
    page.infinite_ns = m.director->infinite_ns();
    page.lower_bound_ns = m.director->lower_bound_ns();
    page.device_bytes = m.model.memory_bytes;
    const char* mode = m.director->planned()      ? "planned"
                       : p.planned_iterations > 0 ? "mixed"
                       : page.swapped             ? "on demand"
                                                  : "all resident";
    std::memcpy(page.mode, mode, std::strlen(mode) + 1);
    if (page.device[0] == 0) {
        set_text(page.device, sizeof page.device, m.model.name);
        set_text(page.program, sizeof page.program, program_name());
    }
}

void tell_outputs(RuntimeState& state) {
    std::string trace = outputs().trace;
    for (auto& managed : state.contexts) {
        if (!managed->recorder) continue;
        if (managed->number == 0 && !trace.empty()) trace = managed->recorder->trace_path();
        if (const std::string error = managed->recorder->trace_error(); !error.empty()) note_problem(error);
    }
    RunPage& page = run_page();
    set_text(page.trace, sizeof page.trace, trace);
    if (!state.contexts.empty()) state.note_progress(*state.contexts.front());
    page.stage.store(RunStage::ended, std::memory_order_release);
    if (has_launcher()) return;
    if (page.problem[0] != 0) say("%s", page.problem);
    std::string written = outputs_text(outputs().report, trace);
    if (outputs().report.empty() && trace.empty() && page.swapped != 0)
        written = summary_text(page) + " (SWAPADVISOR_REPORT=FILE: a report)";
    if (!written.empty() && !config().quiet) say("%s", written.c_str());
}

}  // namespace swapadvisor
