// Files that several processes of one run would write under the same name.
#pragma once

#include <string>

namespace swapadvisor {

/// `wanted`, or `wanted`.PID if another process of the run has it: it is writing there now, or did since `run_start_ns`
/// (nanoseconds of the real-time clock). The first to ask keeps the name until it ends.
std::string own_output_path(const std::string& wanted, long long run_start_ns);

}  // namespace swapadvisor
