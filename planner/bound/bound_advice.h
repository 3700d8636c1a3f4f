// What the optimum of the timed programme evicts: a good start for a search of plans, whose times come
// close to that bound. Deterministic, unless cut short.
#pragma once

#include <optional>

#include "planner/bound/bound_model.h"
#include "planner/model/graph.h"

namespace swapadvisor::planner {

/// A gap of an order of the ops: from the use of `tensor` by op `from` to its next use.
struct GapAdvice {
    TensorId tensor = 0;
    OpId from = 0;
    double left = 0;               ///< share that the optimum leaves: 0 keep, 1 evict
    bool back_before_end = false;  ///< over the boundary: mostly copied in before the iteration ends
};

/// Advice in two stages: rough for a tenth of the price, then fine, from the prices of the first. One thread at a
/// time; a copy goes on by itself.
class BoundAdvice {
  public:
    /// For the ops in this order. `bytes` by tensor replaces the graph's sizes (rounded up to chunks; 0: takes no
    /// room).
    BoundAdvice(const Graph& graph, const std::vector<OpId>& order, const std::vector<std::int64_t>& bytes);
    /// Gaps left by the optimum of the next stage within `room_bytes`, the others unnamed; nothing after the last
    /// stage. At most about `seconds` of this thread; the same for the same input where these suffice, else what
    /// the programme had by then. Nothing for graphs of more than 4,000 ops.
    std::vector<GapAdvice> next(std::int64_t room_bytes, double seconds);
    /// What no plan in this order can beat within the room of the last stage; 0 before the first.
    std::int64_t bound_ns() const { return bound_ns_; }

  private:
    Graph sized_;
    std::vector<OpId> order_;
    std::int64_t bound_ns_ = 0;
    std::optional<bounds::Model> before_;
    bounds::Prices prices_{0};
};

}  // namespace swapadvisor::planner
