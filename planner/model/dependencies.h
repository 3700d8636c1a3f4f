// The order that the data demand: read after write, write after read, write after write in program order,
// plus `after`, plus what a launch window allows: groups that keep their order, and no op across a host wait.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/model/graph.h"

namespace swapadvisor::planner {

class Dependencies {
  public:
    explicit Dependencies(const Graph& graph);
    std::size_t size() const { return before_at_.size() - 1; }
    /// Ops that must precede / follow `op` (direct dependencies, without duplicates, ascending).
    std::span<const OpId> before(OpId op) const {
        return {before_.data() + before_at_[op], before_.data() + before_at_[op + 1]};
    }
    std::span<const OpId> after(OpId op) const {
        return {after_.data() + after_at_[op], after_.data() + after_at_[op + 1]};
    }
    bool allows(std::span<const OpId> schedule) const;  ///< a topological order of all ops?

  private:
    std::vector<std::uint32_t> before_at_, after_at_;
    std::vector<OpId> before_, after_;
};

}  // namespace swapadvisor::planner
