// `swapadvisor import GRAPH`: a graph as a trace.
#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/options.h"
#include "recorder/graph_import.h"

namespace swapadvisor::command {

int cmd_import(int argc, char** argv) {
    Options app("swapadvisor import",
                "Writes a graph (JSON) as a trace, so that it can be reported and compared.",
                "GRAPH -o TRACE", "  swapadvisor import graph.json -o graph.trace");
    std::string path, output;
    int iterations = 3;
    app.add_option("graph", path, "graph (JSON)")->required()->type_name("GRAPH");
    app.add_option("-o,--output", output, "trace file to write")->required()->type_name("TRACE");
    app.add_option("--iterations", iterations, "iterations to write")->check(CLI::Range(2, 1000));
    return app.run(argc, argv, [&] {
        import_graph(read_file(path), output, iterations);
        return 0;
    });
}

}  // namespace swapadvisor::command
