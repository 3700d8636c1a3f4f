// `run`: a program within a memory limit, recorded, planned and replayed in one go.
#include <CLI/CLI.hpp>

#include "interpose/command/commands.h"
#include "interpose/command/launch.h"

namespace swapadvisor::command {

int cmd_run(int argc, char** argv) {
    CLI::App app(
        "Runs a program within a memory limit: records its first iterations while swapping on demand, plans "
        "in\n"
        "the background, and follows the plan from then on. Results are the same to the last bit.");
    Launch launch(app);
    app.add_option(
        "-o,--output", launch.setting("--output", "SWAPADVISOR_REPORT"),
        "write the report here at the end, and as JSON beside it (FILE.json); without it nothing is written");
    app.add_option("--trace", launch.setting("--trace", "SWAPADVISOR_TRACE"), "write a trace here, too");
    app.footer(
        "examples:\n  swapadvisor run -- python train.py\n"
        "  swapadvisor run --memory 16GiB -o report.txt -- ./train --epochs 3\n"
        "  swapadvisor run -q --memory 50% --planner fast -- python -m mypackage.train\n"
        "By hand: LD_PRELOAD=libswapadvisor.so SWAPADVISOR_MEMORY=16GiB ./train");
    if (const int status = launch.parse(argc, argv); status >= 0) return status;
    return launch.start();
}

}  // namespace swapadvisor::command
