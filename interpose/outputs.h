// Files that several processes of one run would write under the same name.
#pragma once

#include <string>

namespace swapadvisor {

/// `wanted`, or `wanted`.PID if another process of the run has it: it is writing there now, or did since
/// `run_start_ns` (nanoseconds of the real-time clock). The first to ask keeps the name, by a lock on the
/// file, until it ends.
std::string own_output_path(const std::string& wanted, long long run_start_ns);

/// The same for a file whose writer takes the lock itself: only looks at what is there.
std::string unwritten_output_path(const std::string& wanted, long long run_start_ns);

}  // namespace swapadvisor
