// What `run`, `record` and `replay` share: their options, and starting a program under the preload object.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace swapadvisor::command {

class Launch {
  public:
    /// `positionals`: what stands before the program in the usage line, with a space behind it.
    Launch(CLI::App& app, const std::string& positionals = "");

    /// An option that becomes a variable of the shim's. The value stays where it is.
    std::string& setting(const char* option, const char* variable);

    /// Parses up to "--"; what follows it, or the first word that is no option, is the program. Checks all
    /// settings as the shim will read them. Returns -1 to go on, else the exit status.
    int parse(int argc, char** argv);
    /// Runs the program to its end. Returns the exit status.
    int start();

    std::string value_of(const char* variable) const;  ///< of an option; empty: not given

  private:
    struct Setting {
        std::string option, variable, value;
    };
    void add_options();
    int apply_settings();

    CLI::App& app_;
    std::string positionals_;
    std::vector<Setting> settings_;
    std::vector<std::string> program_;
    bool quiet_ = false, strict_ = false, no_settings_ = false, enabled_ = true;
    std::string report_, trace_;  ///< as the shim will see them
};

}  // namespace swapadvisor::command
