// Names of functions as people write them.
#pragma once

#include <string>
#include <string_view>

namespace swapadvisor {

/// The C++ name behind a mangled one; anything else as it is. (The demangler alone would call a C function
/// "f" a "float", and is no place for names of any length that a file claims.)
std::string demangled(std::string_view name);

/// demangled(), without the list of arguments.
std::string without_arguments(std::string_view name);

/// "void ns::kernel<4, float>(float*, int)" -> "ns::kernel<4, float>"
std::string short_function_name(const std::string& name);

/// Of the text of a call site: "f (/usr/lib/libx.so+0x12) < ..." becomes "f (libx.so+0x12) < ...".
std::string without_folders(std::string site);

}  // namespace swapadvisor
