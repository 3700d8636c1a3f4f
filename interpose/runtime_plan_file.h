// Plans as text: from the planner library, and from files that `swapadvisor plan` wrote for a trace of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/model/plan.h"
#include "recorder/iteration.h"

namespace swapadvisor {

/// `ids`: tensor of the text -> tensor of the result. Throws std::exception on anything malformed.
planner::Plan parse_runtime_plan(const std::string& text, const std::vector<std::int32_t>& ids);

struct FilePlan {
    planner::Plan plan;       ///< in the iteration's own tensors and positions
    bool other_loop = false;  ///< no plan: this is a lesser loop of the program, such as an evaluation
};

/// The plan of a file for this iteration of the running program. Operations are compared by name, geometry and
/// sizes of their large buffers; the iteration may begin at another of them, and number its tensors otherwise.
/// Throws std::exception with one line: what differs.
FilePlan load_plan(const std::string& path, const Iteration& iteration,
                   const std::function<std::string(std::uint64_t function)>& function_name);

/// Device memory that a plan file asks for; 0, with a line said, if it is no plan.
std::uint64_t plan_file_memory(const std::string& path, std::uint64_t page_bytes);

}  // namespace swapadvisor
