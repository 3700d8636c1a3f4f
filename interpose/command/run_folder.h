// Where the processes of one launched program leave their pages (interpose/run_page.h), and what becomes of
// them once it is over: reports of those that could not write their own, and a line that says what there is.
#pragma once

#include <string>
#include <vector>

#include "interpose/command/supervise.h"

namespace swapadvisor::command {

class RunFolder {
  public:
    /// Makes the folder, under TMPDIR, and names it in SWAPADVISOR_RUN. Where it cannot be made the processes
    /// write and say what they have by themselves.
    RunFolder();
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;

    /// `asked`: outputs were asked for, so that it is worth a line if there is nothing to write. Removes the
    /// folder.
    void conclude(const ProgramEnd& end, bool asked, bool quiet);
    /// Nothing was started.
    void remove() const;

  private:
    std::string path_;  ///< empty: none
};

/// The files that the program's processes will write, opened for writing once before anything is started.
class OutputFiles {
  public:
    /// Empty: not wanted; "-" and names that hold %p or %r, or are those of folders, need no more than a
    /// folder that can be written to. Returns why one cannot be written, in one line; empty: all can.
    std::string open(const std::string& report, const std::string& trace);
    /// Removes what open() has made and nobody has written to.
    void remove_unused() const;

  private:
    std::string open_one(const std::string& path);
    std::vector<std::string> made_;
};

}  // namespace swapadvisor::command
