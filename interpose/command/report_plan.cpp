#include "interpose/command/report_plan.h"

#include <algorithm>

#include "planner/bound/bound.h"
#include "planner/machine/checker.h"
#include "planner/machine/simulator.h"
#include "planner/planner.h"
#include "recorder/iteration_report.h"
#include "recorder/names.h"
#include "recorder/report_stalls.h"

namespace swapadvisor::command {
namespace {

using planner::Action;
using planner::ActionKind;
using planner::Graph;
using planner::Plan;
using planner::SimResult;

std::string name_of(const Graph& graph, planner::TensorId t) {
    const std::string& name = graph.tensors[t].name;
    return name.empty() ? "tensor" + std::to_string(t) : name;
}

void fill_ops(ReportModel& m, const Plan& plan, const Graph& graph, const SimResult& sim) {
    for (std::size_t p = 0; p < plan.schedule.size(); ++p) {
        const planner::Op& op = graph.ops[plan.schedule[p]];
        ReportModel::OpRow row;
        row.op = static_cast<std::int64_t>(p);
        row.name = short_function_name(op.name);
        row.stream = op.stream;
        row.start_ns = sim.op_start[p];
        row.duration_ns = op.duration_ns;
        row.stall_ns = sim.op_stall[p];
        std::vector<planner::TensorId> touched = op.reads;
        touched.insert(touched.end(), op.writes.begin(), op.writes.end());
        std::sort(touched.begin(), touched.end());
        touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
        for (const planner::TensorId t : touched) row.touched_bytes += graph.tensors[t].bytes;
        m.ops.push_back(std::move(row));
    }
}

void fill_buffers(ReportModel& m, const Plan& plan, const Graph& graph) {
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
        ReportModel::BufferRow row;
        row.tensor = static_cast<std::int64_t>(t);
        row.name = name_of(graph, static_cast<planner::TensorId>(t));
        row.site = graph.tensors[t].site;
        row.bytes = graph.tensors[t].bytes;
        row.persistent = graph.tensors[t].persistent;
        row.born_ns = -1;
        m.buffers.push_back(std::move(row));
    }
    for (std::size_t p = 0; p < plan.schedule.size(); ++p) {
        const planner::Op& op = graph.ops[plan.schedule[p]];
        for (const auto* list : {&op.reads, &op.writes})
            for (const planner::TensorId t : *list) {
                ReportModel::BufferRow& row = m.buffers[t];
                if (row.born_ns < 0) row.born_ns = m.ops[p].start_ns;
                const auto now = static_cast<std::int64_t>(p);
                if (row.uses.empty() || row.uses.back() != now) row.uses.push_back(now);
                row.dead_ns = m.ops[p].start_ns + m.ops[p].duration_ns;
            }
    }
    const std::int64_t end = m.ops.empty() ? 0 : m.ops.back().start_ns + m.ops.back().duration_ns;
    for (ReportModel::BufferRow& row : m.buffers) {
        row.born_ns = row.persistent ? 0 : std::max<std::int64_t>(row.born_ns, 0);
        if (row.persistent) row.dead_ns = end;
    }
}

// Resident bytes change by so much before the op at each position.
struct Changes {
    std::vector<std::int64_t> live, resident;
    explicit Changes(std::size_t n) : live(n + 1), resident(n + 1) {}
};

void fill_swaps(ReportModel& m, const Plan& plan, const Graph& graph, const SimResult& sim,
                Changes& changes) {
    const auto n = static_cast<std::int32_t>(plan.schedule.size());
    std::size_t ins = 0, outs = 0;
    for (const Action& action : plan.actions) {
        const std::int64_t bytes = graph.tensors[action.tensor].bytes;
        const bool in = action.kind == ActionKind::in;
        const bool copies_out = action.kind == ActionKind::save || action.kind == ActionKind::out;
        if (action.kind == ActionKind::alloc || in)
            changes.resident[std::clamp(in ? action.after + 1 : action.before, 0, n)] += bytes;
        if (action.kind == ActionKind::free || action.kind == ActionKind::out ||
            action.kind == ActionKind::drop)
            changes.resident[std::clamp(action.after + 1, 0, n)] -= bytes;
        if (!in && !copies_out) continue;
        ReportModel::SwapRow row;
        row.tensor = action.tensor;
        row.name = name_of(graph, action.tensor);
        row.kind = in ? "in" : action.kind == ActionKind::out ? "out" : "save";
        row.bytes = bytes;
        if (action.after >= 0) row.after_op = action.after;
        if (in) {
            row.before_op = action.before;
            row.start_ns = sim.in_start[ins];
            row.end_ns = sim.in_end[ins++];
            if (action.before < n) m.ops[action.before].in_bytes += bytes;
            m.in_bytes_per_iteration += bytes;
        } else {
            row.start_ns = sim.out_start[outs];
            row.end_ns = sim.out_end[outs++];
            if (action.after >= 0) m.ops[action.after].out_bytes += bytes;
            m.out_bytes_per_iteration += bytes;
        }
        // Transfers may run on across the boundary: shown where they are in this iteration, never before it.
        row.start_ns = std::max<std::int64_t>(row.start_ns, 0);
        row.end_ns = std::max(row.end_ns, row.start_ns);
        m.swaps.push_back(std::move(row));
    }
}

void fill_timeline(ReportModel& m, const Plan& plan, const Graph& graph, Changes& changes) {
    std::vector<std::int64_t> first(graph.tensors.size(), -1), last(graph.tensors.size(), -1);
    for (std::size_t p = 0; p < plan.schedule.size(); ++p) {
        const planner::Op& op = graph.ops[plan.schedule[p]];
        for (const auto* list : {&op.reads, &op.writes})
            for (const planner::TensorId t : *list) {
                if (first[t] < 0) first[t] = static_cast<std::int64_t>(p);
                last[t] = static_cast<std::int64_t>(p);
            }
    }
    std::vector<bool> in_arena(graph.tensors.size());
    for (const planner::TensorId t : plan.arena) in_arena[t] = true;
    std::int64_t live = 0, resident = plan.arena_bytes;
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
        const std::int64_t bytes = graph.tensors[t].bytes;
        if (graph.tensors[t].persistent) {
            live += bytes;
        } else if (first[t] >= 0) {
            changes.live[first[t]] += bytes;
            changes.live[last[t] + 1] -= bytes;
        }
    }
    for (const auto& initial : plan.initial) resident += graph.tensors[initial.tensor].bytes;
    std::int64_t at = 0;
    for (std::size_t p = 0; p < plan.schedule.size(); ++p) {
        live += changes.live[p];
        resident += changes.resident[p];
        const std::int64_t away = std::max<std::int64_t>(0, live - resident);
        m.timeline.push_back({m.ops[p].start_ns, live, resident, away, away});
        if (m.peak_bytes == kUnknown || live > m.peak_bytes) {
            m.peak_bytes = live;
            at = static_cast<std::int64_t>(p);
        }
        m.peak_resident_bytes = std::max(m.peak_resident_bytes, resident);
    }
    if (m.timeline.empty()) return;
    m.timeline.push_back(m.timeline.back());
    m.timeline.back().ns = m.ops.back().start_ns + m.ops.back().duration_ns;
    m.peak_op = at;
    m.peak_op_name = m.ops[at].name;
    for (std::size_t t = 0; t < graph.tensors.size(); ++t)
        if (graph.tensors[t].persistent || (first[t] >= 0 && first[t] <= at && last[t] >= at))
            m.peak.push_back({graph.tensors[t].site, 1, graph.tensors[t].bytes, graph.tensors[t].persistent});
    merge_and_sort(m.peak);
}

}  // namespace

std::int64_t lower_bound_ns(const Graph& graph, std::int64_t limit_bytes) {
    if (limit_bytes <= 0) return kUnknown;
    try {
        return planner::bound(graph, planner::quick_bound(graph, limit_bytes)).best_ns();
    } catch (const std::exception&) {
        return kUnknown;  // a limit that nothing can run in: the report says what was seen all the same
    }
}

ReportModel report_of_plan(const Plan& plan) {
    ReportModel m;
    m.source = "plan";
    m.program = plan.graph;
    m.limit_bytes = plan.limit_bytes;
    m.predicted_ns = plan.predicted_ns;
    m.ops_per_iteration = static_cast<std::int64_t>(plan.schedule.size());
    m.notes.push_back(
        "The plan alone says no more: give its graph with --graph to see ops, buffers and swaps.");
    return m;
}

ReportModel report_of_plan(const Plan& plan, const Graph& graph) {
    const planner::CheckResult check = planner::check_plan(graph, plan);
    if (!check.valid())
        throw planner::PlanError("the plan does not fit the graph: " + check.violations.front());
    const SimResult sim = planner::simulate(graph, plan, true);
    if (!sim.ok) throw planner::PlanError("the plan does not run: " + sim.error);
    ReportModel m = report_of_plan(plan);
    m.notes.clear();
    m.device.memory_bytes = graph.device.memory_bytes;
    m.device.h2d_bytes_per_s = graph.device.h2d_bytes_per_s;
    m.device.d2h_bytes_per_s = graph.device.d2h_bytes_per_s;
    m.device.duplex_bytes_per_s = graph.device.duplex_bytes_per_s;
    m.device.transfer_latency_ns = graph.device.transfer_latency_ns;
    m.infinite_ns_per_iteration = sim.compute_ns;
    m.predicted_ns = sim.period_ns;
    m.stall_ns_per_iteration = sim.period_ns - sim.compute_ns;
    m.remaps = sim.remaps;
    m.in_bytes_per_iteration = m.out_bytes_per_iteration = 0;
    if (plan.predicted_ns != sim.period_ns)
        m.notes.push_back("The plan's own prediction is " + std::to_string(plan.predicted_ns) +
                          " ns; the simulator's is shown.");
    Changes changes(plan.schedule.size());
    fill_ops(m, plan, graph, sim);
    fill_buffers(m, plan, graph);
    fill_swaps(m, plan, graph, sim, changes);
    fill_timeline(m, plan, graph, changes);
    m.lower_bound_ns = lower_bound_ns(graph, plan.limit_bytes);
    explain_stalls(m);
    return m;
}

}  // namespace swapadvisor::command
