// What `run`, `record` and `replay` share: their options, and starting a program under the preload object.
#pragma once

#include <string>
#include <vector>

#include "interpose/command/options.h"

namespace swapadvisor::command {

class Launch : public Options {
  public:
    /// `positionals`: what stands before the program in the usage line, with a space behind it.
    Launch(const std::string& command, const std::string& description, const std::string& positionals,
           const std::string& examples);

    /// An option that becomes a variable of the shim's.
    CLI::Option* add_setting(const char* names, const char* variable, const char* kind, const char* text);
    void add_switch(const char* name, const char* variable, const char* text);

    /// Parses up to "--"; what follows it, or the first word that is no option, is the program. Checks all
    /// settings as the shim will read them. Returns -1 to go on, else the exit status.
    int parse_launch(int argc, char** argv);
    /// Runs the program to its end. Returns the exit status.
    int start();

    std::string value_of(const char* variable) const;  ///< of an option; empty: not given

  private:
    struct Setting {
        std::string option, variable, value;
        CLI::Option* given;
    };
    void add_options();
    int apply_settings();

    std::vector<Setting> settings_;  ///< never moved: the options point into it
    std::vector<std::string> program_;
    bool quiet_ = false, strict_ = false, no_settings_ = false, enabled_ = true;
    std::string report_, trace_;  ///< as the shim will see them
};

}  // namespace swapadvisor::command
