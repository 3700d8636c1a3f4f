// Whole files in and out. Throw std::runtime_error with one line that names the file and the reason.
#pragma once

#include <string>

namespace swapadvisor::command {

std::string read_file(const std::string& path);  ///< "-": standard input

/// The file appears complete or not at all: written beside its place and renamed. "-": standard output.
void write_file(const std::string& path, const std::string& content);

}  // namespace swapadvisor::command
