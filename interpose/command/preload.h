// The preload object, found and checked before anything is started under it.
#pragma once

#include <string>

namespace swapadvisor::command {

/// Path of a readable libswapadvisor.so beside the command (build tree), in ../lib/swapadvisor (installed),
/// or as SWAPADVISOR_LIBRARY says. Empty: `problem` says why in one line.
std::string find_preload_object(std::string& problem);

/// LD_PRELOAD with `object` in front of what is there already; unchanged if it is there.
std::string preload_list(const std::string& object, const char* existing);

/// Why the loader will not preload into `program` (static, other architecture, set-user-ID); empty: it will.
std::string preload_obstacle(const std::string& program);

/// True for a compiled program that names the CUDA driver or runtime: it is linked to one of them, or holds
/// the runtime, which opens the driver by name.
bool names_driver(const std::string& program);

}  // namespace swapadvisor::command
