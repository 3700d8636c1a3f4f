// `swapadvisor`: picks the command.
#include <fmt/core.h>

#include <cstdio>
#include <string>

#include "interpose/command/commands.h"

namespace {

using namespace swapadvisor::command;

struct Command {
    const char* name;
    int (*run)(int, char**);
    const char* summary;
};

const Command kCommands[] = {
    {"run", cmd_run, "run a program within a memory limit: record, plan, replay"},
    {"record", cmd_record, "run a program and write a trace of its memory use"},
    {"replay", cmd_replay, "run a program after a plan made earlier"},
    {"plan", cmd_plan, "search a plan for a graph or trace"},
    {"report", cmd_report, "what a trace or plan holds, as text, HTML, JSON or a timeline"},
    {"diff", cmd_diff, "compare two runs"},
    {"sweep", cmd_sweep, "iteration time against memory"},
    {"simulate", cmd_simulate, "check a plan and time it"},
    {"bound", cmd_bound, "lower bounds on the iteration time"},
    {"export", cmd_export, "graph of a trace"},
    {"import", cmd_import, "trace of a graph"},
    {"doctor", cmd_doctor, "what this machine offers, and what would not work"},
};

void print_usage(std::FILE* out) {
    fmt::print(
        out,
        "usage: swapadvisor COMMAND [options]\n\n"
        "Trains models that are larger than the GPU's memory, without changing the program.\n\ncommands:\n");
    for (const Command& command : kCommands) {
        fmt::print(out, "  {:<9} {}\n", command.name, command.summary);
    }
    fmt::print(out,
               "\n`swapadvisor COMMAND --help` tells more. Most often:\n"
               "  swapadvisor run -- python train.py\n"
               "  swapadvisor run --memory 16GiB -- ./train --epochs 3\n"
               "  swapadvisor report run.trace --html -o report.html\n");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    std::string name = argv[1];
    std::string help = "--help";
    if (name == "--help" || name == "-h" || (name == "help" && argc == 2)) {
        print_usage(stdout);
        return 0;
    }
    if (name == "help") {  // `swapadvisor help plan` as `swapadvisor plan --help`
        name = argv[2];
        argv[2] = help.data();
    }
    if (name == "--version" || name == "-V") {
        fmt::print("swapadvisor {}\n", SWAPADVISOR_VERSION);
        return 0;
    }
    for (const Command& command : kCommands) {
        if (name != command.name) continue;
        return command.run(argc - 1, argv + 1);
    }
    fmt::print(stderr, "error: swapadvisor has no command {} (`swapadvisor --help` lists them)\n", name);
    return 2;
}
