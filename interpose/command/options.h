// How every command reads its words: one form of usage line, help, examples and errors.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

namespace swapadvisor::command {

/// A command's options. Options may stand on either side of what has no name.
class Options : public CLI::App {
  public:
    /// `usage`: what stands behind the options in the usage line; `examples`: one a line.
    Options(const std::string& command, const std::string& description, const std::string& usage,
            const std::string& examples);

    /// Parses and runs `body`: 2 for wrong usage, 1 for an exception, each with one line on standard error.
    int run(int argc, char** argv, const std::function<int()>& body);
    /// Parses `words` (in order, without the command). -1: go on; else the exit status.
    int parse_words(std::vector<std::string> words);
    /// One line: what is wrong, and where help is. Returns 2.
    int refuse(const std::string& what) const;
    const std::string& usage() const { return usage_; }

  private:
    std::string usage_;
};

/// An option that takes a size ("40GiB") or a rate ("15.754GB/s").
CLI::Option* add_size(CLI::App& app, const std::string& name, std::int64_t& value, const std::string& help);
CLI::Option* add_rate(CLI::App& app, const std::string& name, std::int64_t& value, const std::string& help);

/// Device memory as the user gave it: bytes, or a share of a device that is known later.
struct MemoryOption {
    std::int64_t bytes = 0;  ///< 0: not given so
    double fraction = 0;     ///< 0: not given so

    bool given() const { return bytes > 0 || fraction > 0; }
    std::int64_t of(std::int64_t device_bytes) const;  ///< of a device with so much, in bytes
};
/// By the rules of SWAPADVISOR_MEMORY (interpose/config.h).
CLI::Option* add_memory(CLI::App& app, const std::string& name, MemoryOption& value, const std::string& help);

}  // namespace swapadvisor::command
