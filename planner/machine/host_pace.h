// When the host has issued an op: ops wait for it where a graph says how (`issue_ns`, `host_waits`).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/model/graph.h"

namespace swapadvisor::planner {

/// Follows the host through iterations of one order of the ops. Without a host wait in the graph the host is always
/// ahead. Waits part the order: no op moves across one, so that they are at the same positions in every order.
class HostPace {
  public:
    HostPace() = default;
    HostPace(const Graph& graph, std::span<const OpId> order) {
        for (const Op& op : graph.ops) active_ |= op.host_waits;
        if (!active_) return;
        for (std::size_t p = 0; p < order.size(); ++p)
            steps_.push_back(
                {graph.ops[static_cast<std::size_t>(order[p])].issue_ns, graph.ops[p].host_waits});
    }
    /// The op at `position` is next, and all before it are done now.
    void reach(std::size_t position, std::int64_t now) {
        if (!active_ || position >= steps_.size()) return;
        if (steps_[position].waits) base_ = now;
        ready_ = base_ + steps_[position].issue_ns;
    }
    std::int64_t ready() const { return ready_; }  ///< when the op reached last has been issued
    /// Since the last wait ended; equal at two ends of iterations: the host repeats itself.
    std::int64_t since_wait(std::int64_t now) const { return active_ ? now - base_ : 0; }

  private:
    struct Step {
        std::int64_t issue_ns;
        bool waits;
    };
    std::vector<Step> steps_;
    bool active_ = false;
    std::int64_t base_ = 0, ready_ = 0;
};

}  // namespace swapadvisor::planner
