// The one exception of this library.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace swapadvisor::planner {

/// Thrown for input that cannot be planned (limit too small, ...); what() is one line that says what to do next.
struct PlanError : std::exception {
    explicit PlanError(std::string text) : text_(std::move(text)) {}
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    std::string text_;
};

}  // namespace swapadvisor::planner
