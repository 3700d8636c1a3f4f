// Follows an installed plan: after the op at a position has been issued, issues the copies that the plan
// lists for it, in the plan's order on each queue. The plan is advice: what it names and is not as it expects
// is left out, and what an op needs and is not there is brought by the residency (PlannedPool::claim).
//
// Positions are op indices of the iteration: plans that reorder ops are refused for now. The seam for a
// launch window (holding launches back and issuing them in planned order) is between
// IterationMatcher::observe and after_op: only the position passed to after_op counts here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/model/plan.h"
#include "replayer/iteration_matcher.h"
#include "replayer/planned_pool.h"
#include "replayer/residency.h"

namespace swapadvisor {

/// A plan prepared for following; tensor ids are those of the iteration. Immutable.
class PlanScript {
  public:
    /// Null, with one line in `error`, for a plan that does not fit the iteration or cannot be followed (a
    /// tensor in two places, ops reordered, out of range).
    static std::shared_ptr<const PlanScript> create(std::shared_ptr<const IterationScript> iteration,
                                                    const planner::Plan& plan, std::string& error);
    const planner::Plan& plan() const { return plan_; }
    const std::shared_ptr<const IterationScript>& iteration() const { return iteration_; }
    /// Device memory that the pool takes: the chunks that some placement names.
    std::uint64_t pool_bytes() const { return pool_bytes_; }
    /// What has to be copied out because the program still holds it when its place is wanted; the plan's
    /// prediction does not know of it.
    std::uint64_t late_bytes() const { return late_bytes_; }

  private:
    friend class PlanFollower;
    struct Step {
        planner::ActionKind kind;
        std::int32_t tensor, after, before;
    };
    std::shared_ptr<const IterationScript> iteration_;
    planner::Plan plan_;
    std::vector<planner::Placement> places_;        ///< by tensor
    std::vector<bool> copies_;                      ///< by tensor: some action moves it
    std::vector<bool> watched_;                     ///< by tensor: dropped, if it is as clean as believed
    std::vector<Step> outs_, ins_;                  ///< per queue, in listed order
    std::vector<std::vector<std::int32_t>> drops_;  ///< by position
    std::vector<bool> marked_;                      ///< positions that an action waits for
    std::uint64_t pool_bytes_ = 0, late_bytes_ = 0;
};

class PlanFollower {
  public:
    PlanFollower(Residency& residency, std::shared_ptr<const PlanScript> script)
        : residency_(residency),
          script_(std::move(script)),
          marks_(static_cast<std::size_t>(script_->iteration()->ops())) {}

    /// Builds the pool and starts to bring what the plan has resident after the op at `position` (-1: at an
    /// iteration boundary). What is resident already stays where it is until its memory is claimed. On
    /// failure the residency is on demand as before.
    CUresult install(const IterationMatcher& matcher, std::int32_t position, bool strict, std::string& error);
    /// The op at `position` was issued. Skipped positions are made up for.
    void after_op(std::int32_t position, Mark mark);
    /// The program freed something: arrivals that were waiting for its place may start.
    void released();
    const PlanScript& script() const { return *script_; }

    std::uint64_t late = 0;      ///< actions that could not be issued in time
    std::uint64_t left_out = 0;  ///< actions that made no sense when their turn came

  private:
    void issue(std::int32_t position);
    void moved(CUresult result);
    void bring_residents(std::int32_t position);
    bool issue_in(const PlanScript::Step& step, std::int32_t position);
    void wrap();
    Mark mark_of(std::int32_t after) const;

    Residency& residency_;
    std::shared_ptr<const PlanScript> script_;
    std::vector<Mark> marks_;  ///< by position: the newest instance
    Mark last_of_previous_;
    std::int32_t position_ = -1;  ///< the last position issued
    bool said_ = false;           ///< that a copy out failed
    std::size_t next_out_ = 0, next_in_ = 0;
};

}  // namespace swapadvisor
