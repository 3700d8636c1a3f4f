#include "interpose/command/planner_input.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "interpose/command/files.h"
#include "interpose/command/sizes.h"
#include "planner/planner.h"
#include "recorder/export.h"

namespace swapadvisor::command {

void GraphInput::add_to(CLI::App& app, bool with_memory) {
    app.add_option("graph", path, "graph (JSON) or trace file; - is standard input")
        ->required()
        ->type_name("GRAPH");
    app.add_flag(
        "--ideal", ideal,
        "of a trace: what a framework could do with it, reordering operations and moving tensors between "
        "places; no plan for `swapadvisor replay`");
    if (with_memory)
        add_memory(app, "--memory", memory,
                   "device memory to stay within: 16GiB, 512MiB, 50% (default: the device's)");
    add_rate(app, "--h2d", h2d, "host to device, alone (default: the graph's)");
    add_rate(app, "--d2h", d2h, "device to host, alone");
    add_rate(app, "--duplex", duplex, "both directions together");
    app.add_option("--latency", latency, "fixed cost of one transfer")
        ->type_name("NS")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--op-speedup", op_speedup, "divide the durations of all ops by this")
        ->type_name("K")
        ->check(CLI::PositiveNumber);
}

planner::Graph GraphInput::load() {
    if (!memory.given()) return load_for(planned_bytes);
    // A share is of what the graph says the device has.
    limit_ = memory.fraction > 0 ? memory.of(load_for(0).device.memory_bytes) : memory.bytes;
    return load_for(limit_);
}

planner::Graph GraphInput::load_for(std::int64_t plan_bytes) {
    std::string text = read_file(path);
    const auto first = text.find_first_not_of(" \t\r\n");
    is_trace = first == std::string::npos || text[first] != '{';
    if (is_trace) {
        if (first == std::string::npos) throw std::runtime_error(path + ": the file is empty");
        if (path == "-") throw std::runtime_error("standard input: not a graph (a trace must be a file)");
        text = trace_to_graph_json(path, plan_bytes, ideal);
    }
    planner::Graph graph;
    try {
        graph = planner::parse_graph(text);
    } catch (const planner::PlanError& error) {
        throw std::runtime_error(path + ": " + error.what());
    }
    read_program(graph);
    may_reorder = graph.may_reorder.value_or(false);
    planner::Device& device = graph.device;
    device.memory_bytes = std::max(device.memory_bytes, limit_);  // what if there were more?
    // A duplex rate equal to the sum means that the directions do not disturb each other; that stays so.
    const bool independent = device.duplex_bytes_per_s >= device.h2d_bytes_per_s + device.d2h_bytes_per_s;
    if (h2d > 0) device.h2d_bytes_per_s = h2d;
    if (d2h > 0) device.d2h_bytes_per_s = d2h;
    const std::int64_t sum = device.h2d_bytes_per_s + device.d2h_bytes_per_s;
    if (duplex > 0)
        device.duplex_bytes_per_s = std::min(duplex, sum);
    else if (independent || device.duplex_bytes_per_s > sum)
        device.duplex_bytes_per_s = sum;
    if (latency >= 0) device.transfer_latency_ns = latency;
    if (op_speedup != 1)
        for (planner::Op& op : graph.ops)
            op.duration_ns = std::llround(static_cast<long double>(op.duration_ns) / op_speedup);
    return graph;
}

void GraphInput::read_program(const planner::Graph& graph) {
    if (ideal || graph.extra.empty()) return;
    const auto extra = nlohmann::json::parse(graph.extra, nullptr, false);
    if (!extra.is_object() || !extra.contains("program")) return;
    runnable = true;
    program = extra.at("program").dump();
    if (const auto resident = extra.find("resident_bytes");
        resident != extra.end() && resident->is_number_integer())
        resident_bytes = std::max<std::int64_t>(resident->get<std::int64_t>(), 0);
}

std::int64_t GraphInput::room(std::int64_t limit) const {
    if (limit > resident_bytes) return limit - resident_bytes;
    throw std::runtime_error("--memory " + format_bytes(limit) +
                             " is too small: small and unmovable allocations " + "alone take " +
                             format_bytes(resident_bytes));
}

std::int64_t GraphInput::limit(const planner::Graph& graph) const {
    return memory.given() ? limit_ : graph.device.memory_bytes;
}

}  // namespace swapadvisor::command
