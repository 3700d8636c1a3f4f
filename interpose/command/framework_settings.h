// Settings by which a framework gives each tensor its own driver allocation, so that tensors can be moved one
// by one.
#pragma once

#include <string>
#include <vector>

namespace swapadvisor::command {

struct FrameworkSetting {
    std::string framework;
    std::string name;
    std::string value;
};

struct FrameworkAdvice {
    std::vector<FrameworkSetting> set;       ///< variables to set: all unset so far
    std::vector<FrameworkSetting> contrary;  ///< as `set`, but the user has set them to what does not serve
    std::string wanted;  ///< all that the frameworks found here need, set or not: "DEV=CUDA LRU=0 (tinygrad)"
    std::string refusal;  ///< not empty: a setting of the user's that hides every tensor
};

/// What `program` (argv, resolved by PATH) needs. Empty unless it is a Python program.
FrameworkAdvice framework_advice(const std::vector<std::string>& program);

/// First file that `name` stands for, as execvp finds it; empty if there is none.
std::string find_program(const std::string& name);

}  // namespace swapadvisor::command
