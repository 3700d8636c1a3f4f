// `record`: a program, and a trace of what it does to device memory.
#include <cstdlib>

#include "interpose/command/commands.h"
#include "interpose/command/launch.h"

namespace swapadvisor::command {

int cmd_record(int argc, char** argv) {
    Launch launch("swapadvisor record", "Runs a program and writes a trace of what it does to device memory.",
                  "",
                  "  swapadvisor record -o run.trace -- ./train --epochs 1\n"
                  "  swapadvisor plan run.trace -o run.plan --memory 16GiB\n"
                  "  swapadvisor replay run.plan -- ./train");
    launch.add_setting("-o,--output", "SWAPADVISOR_TRACE", "FILE",
                       "the trace (swapadvisor.trace in the current folder)");
    setenv("SWAPADVISOR_TRACE", "swapadvisor.trace", 0);
    if (const int status = launch.parse_launch(argc, argv); status >= 0) return status;
    return launch.start();
}

}  // namespace swapadvisor::command
