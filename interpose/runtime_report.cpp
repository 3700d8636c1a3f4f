#include "interpose/runtime_report.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>

#include "interpose/config.h"
#include "interpose/log.h"
#include "interpose/runtime_plan.h"
#include "recorder/callsite.h"

namespace swapadvisor {
namespace {
std::vector<ReportModel>& kept() {
    static auto* models = new std::vector<ReportModel>;
    return *models;
}
/// A program whose memory always fitted gets a report only if asked for one.
bool is_wanted(bool swapped) {
    return swapped || !config().report_path.empty();
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
    if (m.recorder && is_wanted(swapped)) m.recorder->fill_report(model);
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
        model.mode_reason = p.iterations == 0 ? "no iteration found" : "no plan was ready";
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
        // A program whose memory always fitted gets a report only if asked for one.
        if (config().report_path.empty() && model.mode == "all resident") continue;
        std::string path = config().report_path;
        if (path.empty()) path = config().quiet ? "" : "swapadvisor." + std::to_string(getpid()) + ".txt";
        if (path.empty()) continue;
        if (written > 0 && path != "-") path += "." + std::to_string(written);
        ++written;
        if (!write_exit_report(model, path))
            say("the report could not be written to %s", path.c_str());
        else if (path != "-" && !config().quiet)
            say("report: %s", path.c_str());
    }
}

}  // namespace swapadvisor
