// Where in the program a call came from. A site is a small number: equal stacks give equal numbers within a
// process.
//
// Method. How far a frame reaches up the stack is a property of the return address into it (of the code
// there), so it is asked of the unwinder (libunwind, opened when first needed; else the compiler's own) once
// per return address and kept: a repeated stack is walked by one table look-up per frame. A frame whose size
// varies (alloca) makes its address unusable for that, and the unwinder is asked each time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace swapadvisor {

/// The call site of the caller; in a Python program the lines that led to it are part of it. 0 when the stack cannot be walked, or after 65,000 different sites. A
/// repeated site costs well under a microsecond, allocates nothing and takes no lock. Thread-safe.
std::uint64_t capture_site();

/// Its return addresses, innermost first; empty for 0 or unknown. Thread-safe.
std::vector<std::uintptr_t> site_addresses(std::uint64_t site);

/// One line: frames of the program, innermost first, "function (object+0xoffset) < function (object+0xoffset)
/// ...". This library's own frames and those of the CUDA libraries at the inner end are left out, and so are those of interpreters and of
/// frameworks' ways to their allocators. In a Python program its lines instead: describe_python_stack(). "" for 0 or unknown. Slow;
/// thread-safe.
std::string describe_site(std::uint64_t site);

/// How often the unwinder was asked: for tests and statistics.
std::uint64_t site_unwinds();

}  // namespace swapadvisor
