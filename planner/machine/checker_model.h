// What the checker's two halves share: the plan's actions sorted into residencies. Internal to the checker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/machine/checker.h"

namespace swapadvisor::planner::checker {

/// One stay of a tensor in the pool, as the plan lists it for one iteration.
struct Residency {
    enum class Origin { initial, alloc, in };
    TensorId tensor = 0;
    Origin origin = Origin::initial;
    int acquired_by = -1;  ///< action; -1 for `initial`
    int released_by = -1;  ///< action; -1: still there at the end of the iteration
    int begin =
        0;        ///< accessed from this position on (0 for `initial`, n for an `in` for the next iteration)
    int end = 0;  ///< accessed up to this position (n - 1 if not released)
    int previous = -1;  ///< the residency before it: of this iteration, or, for `initial` and for the first
                        ///< `in`, the last of the previous iteration
    bool previous_is_last_iteration = false;
    std::vector<int> saves;   ///< actions `save` in it
    std::vector<int> pieces;  ///< pieces of the pool that it holds
    Placement place;          ///< merged
};

struct Access {
    int position = 0;
    bool write = false;
};

struct Model {
    const Graph& graph;
    const Plan& plan;
    std::vector<int> position;                  ///< by op id
    std::vector<bool> in_arena;                 ///< by tensor
    std::vector<std::vector<Access>> accesses;  ///< by tensor, in schedule order
    std::vector<Residency> residencies;
    std::vector<std::vector<int>> of_tensor;  ///< residencies of a tensor, in plan order
    std::vector<int> of_action;               ///< residency that an action begins, touches or ends
    int pieces = 0;                           ///< runs of chunks that no placement splits

    int n() const { return static_cast<int>(plan.schedule.size()); }
};

/// Position `p` as text: "op 17 (position 4)".
std::string op_at(const Model& model, int p);
std::string action_name(const Model& model, int action);

/// Runs the machine; fills in the period, or adds a violation if it stops for good.
void run_machine(const Model& model, CheckResult& result);

}  // namespace swapadvisor::planner::checker
