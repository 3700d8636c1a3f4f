// `swapadvisor diff A B`: what changed between two runs.
#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/options.h"
#include "interpose/command/report_input.h"
#include "recorder/report_diff.h"

namespace swapadvisor::command {

int cmd_diff(int argc, char** argv) {
    Options app("swapadvisor diff", "Compares two runs: traces, plans or reports.", "A B",
                "  swapadvisor diff before.trace after.trace\n"
                "  swapadvisor diff main.txt.json branch.txt.json --json");
    std::string before, after, graph;
    bool json = false;
    app.add_option("before", before, "trace, plan, or report (JSON)")->required()->type_name("A");
    app.add_option("after", after, "the one to compare with it")->required()->type_name("B");
    app.add_option("--graph", graph, "graph or trace that the plans were made for")->type_name("FILE");
    app.add_flag("--json", json, "as JSON");
    return app.run(argc, argv, [&] {
        const ReportModel a = load_report(before, graph), b = load_report(after, graph);
        write_file("-", json ? report_diff_json(a, b) : report_diff_text(a, b));
        return 0;
    });
}

}  // namespace swapadvisor::command
