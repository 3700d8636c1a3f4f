// What the shim says to the user: whole lines on standard error, never on the program's standard output.
#pragma once

#include <cstdint>

namespace swapadvisor {

enum class LogTopic : std::uint32_t {
    routes = 1,  ///< who asked for which entry point, and what was answered
    memory = 2,  ///< allocations, evictions, mappings
    ops = 4,     ///< every op
    plan = 8,    ///< planning and switching
};

/// True if SWAPADVISOR_LOG names the topic.
bool logging(LogTopic topic);

/// One line "swapadvisor: ..." in a single write. printf-style.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// Like say, but only the first time for this `key` (a pointer or any number) in the process.
bool first_time(std::uint64_t key);

}  // namespace swapadvisor
