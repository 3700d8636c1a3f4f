// A program as a child of the launcher that looks, to whoever started the launcher, like the program itself:
// signals reach it, it is stopped and continued as one with the launcher, and ends as it ends. A companion
// process outlives both and sees to what is left, whatever ends them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace swapadvisor::command {

struct ProgramEnd {
    pid_t pid = 0;        ///< of the program
    bool known = false;   ///< false: the launcher was killed, and the program with it
    int wait_status = 0;  ///< as waitpid() has it, if known
};

struct Supervision {
    std::vector<std::string> program;  ///< words; the first is looked up in PATH
    std::string path;                  ///< of its file, for what is said of it
    /// The program is to confirm that the shim is in it: SWAPADVISOR_CONFIRM_FD is set for it.
    bool confirm = false;
    bool may_be_silent = false;  ///< nothing can be loaded into it anyway: no complaint if it only ends
    /// In the companion, once the program is over.
    std::function<void(const ProgramEnd&)> afterwards;
    /// In the launcher, if the program could not be started.
    std::function<void()> not_started;
};

/// Runs the program to its end. Ends this process as the program ended: returns its exit status, or does not
/// return where a signal ended it. 126 or 127 with one line where it could not be started.
int supervise(const Supervision& supervision);

}  // namespace swapadvisor::command
