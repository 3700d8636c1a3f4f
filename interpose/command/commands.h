// The commands of `swapadvisor`. Each gets its own arguments (argv[0] is its name) and returns the
// exit status: 0 done, 1 bad input or it could not be done (one line on standard error), 2 wrong usage. Weak:
// a command that a build leaves out is null.
#pragma once

namespace swapadvisor::command {

int cmd_run(int argc, char** argv);
int cmd_record(int argc, char** argv);
int cmd_replay(int argc, char** argv);
int cmd_doctor(int argc, char** argv);
int cmd_plan(int argc, char** argv);
int cmd_sweep(int argc, char** argv);
int cmd_simulate(int argc, char** argv);
int cmd_bound(int argc, char** argv);
int cmd_report(int argc, char** argv);
int cmd_export(int argc, char** argv);
int cmd_import(int argc, char** argv);
int cmd_diff(int argc, char** argv);

}  // namespace swapadvisor::command
