// Names that the program gives to its own phases: NVTX ranges (version 3), received as an injection. NVTX in
// the program loads what NVTX_INJECTION64_PATH names and calls InitializeInjectionNvtx2 there. Pushes and
// pops cost a table look-up; a program that uses no NVTX pays nothing.
#pragma once

#include <cstdint>
#include <string>

namespace swapadvisor {

/// The innermost ranges open on this thread as one number; 0: none. Equal paths of names, equal numbers.
std::uint64_t current_range();

/// "outer/inner". "" for 0 or unknown. Thread-safe.
std::string describe_range(std::uint64_t range);

/// What a push and a pop of the program do. Also for tests.
int push_range(const char* name);
int pop_range();

}  // namespace swapadvisor

/// The entry point that NVTX looks up; exported by the preload object. Returns 1: initialised.
extern "C" int InitializeInjectionNvtx2(const void* (*get_export_table)(std::uint32_t table));
