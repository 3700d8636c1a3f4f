// `swapadvisor export TRACE`: the steady-state iteration as a graph, or the whole of it for Perfetto.
// `swapadvisor import GRAPH`: a graph as a trace.
#include <CLI/CLI.hpp>
#include <stdexcept>

#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/planner_input.h"
#include "interpose/command/report_input.h"
#include "recorder/export.h"
#include "recorder/graph_import.h"
#include "recorder/planned_part.h"
#include "recorder/report_perfetto.h"

namespace swapadvisor::command {

int cmd_export(int argc, char** argv) {
    CLI::App app{"Writes the steady-state iteration of a trace as a graph (JSON), for any planner.",
                 "swapadvisor export"};
    std::string path, output = "-";
    bool perfetto = false;
    std::int64_t planned_bytes = 0;
    app.add_option("trace", path, "trace file")->required()->type_name("TRACE");
    app.add_option("-o,--output", output, "file to write (default: standard output)")->type_name("FILE");
    app.add_flag("--perfetto", perfetto, "a trace for ui.perfetto.dev instead of a graph");
    add_size(app, "--for-memory", planned_bytes,
             "for plans within this memory that are to run: only what can be moved, with what is freed a few "
             "operations after its last use in use until then, as `plan TRACE --memory` has it");
    return run_command(app, argc, argv, [&] {
        const TraceAnalysis trace = analyse_with_progress(path);
        if (!trace.iteration)
            throw std::runtime_error(path + " holds no repeating iteration (" + std::to_string(trace.ops) +
                                     " operations): record more of the program, or mark iterations");
        write_file(output, perfetto ? report_perfetto(trace.model)
                           : planned_bytes > 0
                               ? trace_graph_json(trace, planned_bytes, false)
                               : graph_json(without_pages(*trace.iteration), trace.device, trace.names()));
        return 0;
    });
}

int cmd_import(int argc, char** argv) {
    CLI::App app{"Writes a graph (JSON) as a trace, so that it can be reported and compared.",
                 "swapadvisor import"};
    std::string path, output;
    int iterations = 3;
    app.add_option("graph", path, "graph (JSON)")->required()->type_name("GRAPH");
    app.add_option("-o,--output", output, "trace file to write")->required()->type_name("TRACE");
    app.add_option("--iterations", iterations, "iterations to write")->check(CLI::Range(2, 1000));
    return run_command(app, argc, argv, [&] {
        import_graph(read_file(path), output, iterations);
        return 0;
    });
}

}  // namespace swapadvisor::command
