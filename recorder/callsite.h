// Where in the program a call came from. A site is a small number: equal stacks give equal numbers within a
// process.
#pragma once

#include <cstdint>
#include <string>

namespace swapadvisor {

/// The call site of the caller's caller, outside this library. 0 when stacks cannot be walked (no libunwind)
/// or sites are off. A repeated site costs well under a microsecond and allocates nothing. Thread-safe.
std::uint64_t capture_site();

/// One line for people: innermost frames of the program first, "function (object+offset) < function ...".
/// "" for 0 or unknown. Slow; thread-safe.
std::string describe_site(std::uint64_t site);

}  // namespace swapadvisor
