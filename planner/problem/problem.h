// What the planner works on: graph, machine and limit with sizes in chunks, and an order of the ops as seen
// by the tensors. Immutable once built; share across threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/machine/simulator.h"
#include "planner/model/dependencies.h"
#include "planner/model/graph.h"
#include "planner/model/plan_error.h"
#include "planner/problem/options.h"

namespace swapadvisor::planner {

struct Problem {
    Problem(const Graph& graph, const PlanOptions& options);

    struct Use {
        TensorId tensor;
        bool write;
    };

    const Graph& graph;
    Dependencies dependencies;
    LinkRates rates;
    std::int64_t limit_bytes = 0;
    std::int64_t chunk_bytes = 1;
    std::int32_t chunks = 0;
    std::int64_t arena_bytes = 0;
    std::vector<TensorId> arena;
    std::vector<std::int32_t> size;           ///< chunks of each tensor; 0: in the arena, empty or never used
    std::vector<std::int64_t> in_ns, out_ns;  ///< one transfer, alone, latency included
    std::vector<std::uint8_t>
        written;  ///< by tensor: some op writes it, or it is born here: evicting it copies it out
    std::int64_t compute_ns = 0;

    /// The pool tensors that `op` touches, each once.
    std::span<const Use> uses(OpId op) const {
        return {uses_.data() + uses_at_[op], uses_.data() + uses_at_[op + 1]};
    }
    std::size_t use_count() const { return uses_.size(); }
    /// Uses of one tensor keep their numbers whatever the order of ops: numbers of tensor t are
    /// [first_use(t), first_use(t + 1)), by position in the order at hand.
    std::uint32_t first_use(TensorId t) const { return first_use_[t]; }

  private:
    void choose_pool(const PlanOptions& options);
    void check_times(const std::vector<std::uint32_t>& uses) const;
    void check_working_sets() const;
    std::int64_t lack_bytes_ = 0;  // by so much the limit is too small for some op's working set
    std::vector<Use> uses_;
    std::vector<std::uint32_t> uses_at_, first_use_;
};

/// The limit is too small; with `needed_bytes` it is not (unless that limit has other chunks).
struct LimitError : PlanError {
    LimitError(std::string text, std::int64_t needed) : PlanError(std::move(text)), needed_bytes(needed) {}
    std::int64_t needed_bytes;
};

}  // namespace swapadvisor::planner
