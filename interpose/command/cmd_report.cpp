// `swapadvisor report FILE`: what happened to memory, from a trace, a plan or a report written at exit.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/options.h"
#include "interpose/command/report_input.h"
#include "recorder/report_html.h"
#include "recorder/report_memory_viz.h"
#include "recorder/report_perfetto.h"

namespace swapadvisor::command {

int cmd_report(int argc, char** argv) {
    Options app(
        "swapadvisor report",
        "Shows what happened to memory: peak, time, swaps, stalls. Text unless another form is asked for.",
        "FILE",
        "  swapadvisor report run.trace\n"
        "  swapadvisor report run.trace --html -o report.html\n"
        "  swapadvisor report run.trace --memory-viz -o snapshot.pickle\n"
        "  swapadvisor report run.plan --graph run.trace --perfetto -o plan.perfetto.json");
    std::string path, graph, output = "-";
    bool json = false, html = false, perfetto = false, memory_viz = false;
    app.add_option("file", path, "trace, plan, or report (JSON)")->required()->type_name("FILE");
    app.add_option("--graph", graph, "graph or trace that a plan was made for")->type_name("FILE");
    app.add_option("-o,--output", output, "file to write (default: standard output)")->type_name("FILE");
    auto* forms = app.add_option_group("form");
    forms->add_flag("--json", json, "every figure, units in the names");
    forms->add_flag("--html", html, "one page with charts that needs nothing else");
    forms->add_flag("--perfetto", perfetto, "for ui.perfetto.dev");
    forms->add_flag("--memory-viz", memory_viz, "a snapshot for pytorch.org/memory_viz");
    forms->require_option(0, 1);
    return app.run(argc, argv, [&] {
        const ReportModel model = load_report(path, graph);
        write_file(output, json         ? report_json(model)
                           : html       ? report_html(model)
                           : perfetto   ? report_perfetto(model)
                           : memory_viz ? report_memory_viz(model)
                                        : report_text(model));
        return 0;
    });
}

}  // namespace swapadvisor::command
