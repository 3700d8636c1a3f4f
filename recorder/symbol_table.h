// Names of functions that an object does not export, from the symbol table in its file. dladdr() knows
// exported ones only, and most programs export nothing.
#pragma once

#include <cstdint>
#include <string>

namespace swapadvisor {

/// The (mangled) name of the function at `offset` from where the object is loaded; "" if the file does not
/// say. Reads the file each time.
std::string function_in_file(const std::string& path, std::uint64_t offset);

}  // namespace swapadvisor
