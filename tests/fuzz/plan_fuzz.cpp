// libFuzzer target: graph and plan JSON through reader, writer, checker, bound and planners. The first byte chooses.
// Inputs must be refused with one line or survive a round trip, and plans hold; nothing may crash, hang or overflow.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "planner/bound/bound.h"
#include "planner/machine/checker.h"
#include "planner/planner.h"

using namespace swapadvisor::planner;

namespace {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
}

// A graph to try plans on.
const Graph& base_graph() {
    static const Graph graph = parse_graph(
        R"({"format":"swapadvisor-graph","version":1,"name":"g","source":"","device":{"memory_bytes":1000,"h2d_bytes_per_s":1000000000,
"d2h_bytes_per_s":1000000000,"duplex_bytes_per_s":1500000000,"transfer_latency_ns":3},"tensors":[{"id":0,"bytes":100,"persistent":true},
{"id":1,"bytes":70,"persistent":false},{"id":2,"bytes":30,"persistent":true}],"ops":[{"id":0,"name":"a","duration_ns":50,"reads":[0],"writes":[1]},
{"id":1,"name":"b","duration_ns":60,"reads":[1],"writes":[2]},{"id":2,"name":"c","duration_ns":9,"reads":[0,2],"writes":[0]}]})");
    return graph;
}

// What the planners make of a graph: nothing, with one line, or a valid plan.
void plan_it(const Graph& graph, bool whole) {
    PlanOptions options;
    options.planner = whole ? "ga" : "fast";
    options.limit_bytes = graph.device.memory_bytes;
    options.generations = 2;
    options.threads = 1;
    try {
        const Plan plan = make_plan(graph, options);
        const CheckResult result = check_plan(graph, plan);
        require(result.violations.empty(), "a plan of ours is valid");
        require(result.period_ns == plan.predicted_ns, "the prediction is the checker's");
    } catch (const PlanError& error) {
        require(std::strchr(error.what(), '\n') == nullptr, "one line per error");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    try {
        if (data[0] % 2 == 0) {
            const Graph graph = parse_graph(text);
            const std::string out = to_json(graph);
            require(to_json(parse_graph(out)) == out, "graph round trip");
            if (graph.ops.size() <= 50) {
                BoundOptions options;
                options.limit_bytes = graph.device.memory_bytes;
                options.seconds = 0.05;
                require(bound(graph, options).best_ns() >= 0, "bound");
                plan_it(graph, graph.ops.size() <= 8 && data[0] % 8 == 2);
            }
        } else {
            const Plan plan = parse_plan(text);
            const std::string out = to_json(plan);
            require(to_json(parse_plan(out)) == out, "plan round trip");
            const CheckResult result = check_plan(base_graph(), plan);
            for (const std::string& line : result.violations)
                require(line.find('\n') == std::string::npos, "one line");
        }
    } catch (const PlanError& error) {
        require(std::strchr(error.what(), '\n') == nullptr, "one line per error");
    }
    return 0;
}
