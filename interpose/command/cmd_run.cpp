// `run`: a program within a memory limit, recorded, planned and replayed in one go.
#include "interpose/command/commands.h"
#include "interpose/command/launch.h"

namespace swapadvisor::command {

int cmd_run(int argc, char** argv) {
    Launch launch("swapadvisor run",
                  "Runs a program within a memory limit: records its first iterations while swapping on "
                  "demand, plans in\n"
                  "the background, and follows the plan from then on. Results are the same to the last bit.",
                  "",
                  "  swapadvisor run -- python train.py\n"
                  "  swapadvisor run --memory 16GiB -o report.txt -- ./train --epochs 3\n"
                  "  swapadvisor run -q --memory 50% --planner fast -- python -m mypackage.train\n"
                  "  LD_PRELOAD=.../libswapadvisor.so SWAPADVISOR_MEMORY=16GiB ./train    by hand: "
                  "swapadvisor doctor has "
                  "the path");
    launch.add_setting(
        "-o,--output", "SWAPADVISOR_REPORT", "FILE",
        "write the report here at the end, and as JSON beside it (FILE.json); without it nothing is "
        "written");
    launch.add_setting("--trace", "SWAPADVISOR_TRACE", "FILE",
                       "write a trace here, too: the report of a program that is killed is whole then");
    if (const int status = launch.parse_launch(argc, argv); status >= 0) return status;
    return launch.start();
}

}  // namespace swapadvisor::command
