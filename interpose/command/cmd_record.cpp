// `record`: a program, and a trace of what it does to device memory.
#include <CLI/CLI.hpp>

#include "interpose/command/commands.h"
#include "interpose/command/launch.h"

namespace swapadvisor::command {

int cmd_record(int argc, char** argv) {
    CLI::App app("Runs a program and writes a trace of what it does to device memory.");
    Launch launch(app);
    std::string& trace = launch.setting("--output", "SWAPADVISOR_TRACE");
    trace = "swapadvisor.trace";
    app.add_option("-o,--output", trace, "the trace (swapadvisor.trace)");
    app.footer(
        "examples:\n  swapadvisor record -o run.trace -- ./train --epochs 1\n"
        "  swapadvisor plan run.trace -o run.plan --memory 16GiB\n  swapadvisor replay run.plan -- ./train");
    if (const int status = launch.parse(argc, argv); status >= 0) return status;
    return launch.start();
}

}  // namespace swapadvisor::command
