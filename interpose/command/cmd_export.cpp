// `swapadvisor export TRACE`: the steady-state iteration as a graph, or the whole of it for Perfetto.
#include <CLI/CLI.hpp>
#include <stdexcept>

#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/options.h"
#include "interpose/command/report_input.h"
#include "recorder/export.h"
#include "recorder/planned_part.h"
#include "recorder/report_perfetto.h"

namespace swapadvisor::command {

int cmd_export(int argc, char** argv) {
    Options app("swapadvisor export",
                "Writes the steady-state iteration of a trace as a graph (JSON), for any planner.", "TRACE",
                "  swapadvisor export run.trace -o graph.json\n"
                "  swapadvisor export run.trace --perfetto -o run.perfetto.json");
    std::string path, output = "-";
    bool perfetto = false;
    MemoryOption planned;
    app.add_option("trace", path, "trace file")->required()->type_name("TRACE");
    app.add_option("-o,--output", output, "file to write (default: standard output)")->type_name("FILE");
    app.add_flag("--perfetto", perfetto, "a trace for ui.perfetto.dev instead of a graph");
    add_memory(
        app, "--for-memory", planned,
        "for plans within this memory that are to run: only what can be moved, with what is freed a few "
        "operations after its last use in use until then, as `plan TRACE --memory` has it");
    return app.run(argc, argv, [&] {
        const TraceAnalysis trace = analyse_with_progress(path);
        if (!trace.iteration)
            throw std::runtime_error(path + " holds no repeating iteration (" + std::to_string(trace.ops) +
                                     " operations): record more of the program, or mark iterations");
        write_file(output, perfetto ? report_perfetto(trace.model)
                           : planned.given()
                               ? trace_graph_json(trace, planned.of(trace.device.memory_bytes), false)
                               : graph_json(without_pages(*trace.iteration), trace.device, trace.names()));
        return 0;
    });
}

}  // namespace swapadvisor::command
