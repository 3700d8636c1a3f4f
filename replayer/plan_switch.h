// Decides, for one residency, between on demand and plans: keeps track of where the program is in the
// iterations that are known, installs the plan of an iteration once one whole instance of it has been
// matched, follows it, and leaves it when the program does. Makes no plans itself and knows no threads: the
// owner's lock guards it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "recorder/flat_map.h"
#include "replayer/iteration_matcher.h"
#include "replayer/plan_follower.h"
#include "replayer/prefetcher.h"
#include "replayer/residency.h"

namespace swapadvisor {

struct SwitchCounts {
    std::uint64_t iterations = 0, planned_iterations = 0, installs = 0, divergences = 0, refused_plans = 0;
    std::uint64_t in_bytes = 0, out_bytes = 0;  ///< of the newest whole iteration
    std::uint64_t ops_per_iteration = 0;
    std::uint64_t late = 0, left_out = 0;  ///< of the plan that is followed
    std::uint64_t mapping_calls = 0;       ///< in the newest planned iteration
    bool last_planned = false;             ///< the newest whole iteration followed a plan
    std::uint64_t unplanned_ops = 0;       ///< since then, without a plan
    std::int64_t predicted_ns = -1;
    std::uint64_t signature = 0;
    std::string reason;  ///< why the last plan was left or refused
};

class PlanSwitch {
  public:
    explicit PlanSwitch(Residency& residency);

    // --- what is known
    // ----------------------------------------------------------------------------------------------
    /// An iteration the program runs; the newest object for its signature replaces older ones.
    void know(std::shared_ptr<const IterationScript> script);
    bool knows(std::uint64_t signature) const;
    std::shared_ptr<const IterationScript> script(std::uint64_t signature);  ///< null if unknown
    /// A plan for a known iteration; taken at the next boundary if it is better than what there is by
    /// `gain_percent`.
    void offer(std::shared_ptr<const PlanScript> plan, int gain_percent = 3);

    // --- what the program does
    // --------------------------------------------------------------------------------------
    std::int32_t expect(std::uint64_t bytes);  ///< before an allocation: its tensor, or -1
    void allocated(Buffer& buffer);
    void releasing(Buffer& buffer) {  ///< before Residency::release
        if (matcher_) matcher_->released(buffer);
    }
    void released() {  ///< after it
        if (follower_) follower_->released();
    }
    /// A kernel that names nothing of ours, and may use it all the same.
    void before_unnamed(std::uint64_t key);
    /// Before Residency::begin. `key`: the recorder's match key; `seq`: the op's number. `code`: it may use what it does
    /// not name, as kernels do and copies do not.
    void before_op(std::uint64_t key, std::uint64_t seq, const std::vector<BufferUse>& uses,
                   bool code = true);
    /// Then, too: marks the uses that the plan takes for reading, where that is checked before it counts.
    void believe(std::vector<BufferUse>& uses) const;
    /// After the op was issued. True if it ended an iteration.
    bool after_op(Mark mark);

    bool planned() const { return follower_ != nullptr; }
    const SwitchCounts& counts() const { return counts_; }
    const PlanScript* plan() const { return follower_ ? &follower_->script() : nullptr; }
    bool in_step() const { return matcher_ != nullptr; }
    /// A plan is followed and all its mappings are made: from here on an iteration takes what the plan says.
    bool settled() const { return follower_ && (strict_for_good || residency_.pool()->settled()); }
    std::function<void(bool planned, const std::string& line)> on_change;  ///< installed or left
    std::function<bool()> may_install;                                     ///< null: always
    /// A plan does not fit any more (small or unmovable memory grew) and has been forgotten: the owner may
    /// make another, for less room.
    std::function<void(std::uint64_t signature)> on_no_room;
    bool strict_for_good = false;  ///< PlannedPool::strict() always, not for a plan's first iterations alone
    bool back_off =
        true;  ///< after installations that did not last, wait for twice as many clean iterations each time

  private:
    struct Known {
        std::shared_ptr<const IterationScript> script;
        std::shared_ptr<const PlanScript> best;
        std::uint64_t version = 0;  ///< of `best`
        int unproved = 0;           ///< iterations that `best` is still to be followed in strictly
        std::uint64_t failed = 0;   ///< when matching it last failed: look-alikes take turns
        int short_lives = 0;        ///< installations that did not last, in a row
        int clean = 0;              ///< whole instances matched since
        int refusals = 0;
        bool believed = true;       ///< it is what the program does: worth fetching ahead by
        std::vector<BufferId> ids;  ///< buffers of persistent tensors when last in step; 0: unknown
    };
    Known* find(std::uint64_t signature);
    void sync(std::uint64_t key, std::uint64_t seq, const std::vector<BufferUse>& uses);
    void note_seen(std::uint64_t key);
    /// Leaves the plan for an op that never ran while what is absent was out of reach. True: it has.
    bool unseen_uses(std::uint64_t key);
    FlatMap<bool> seen_;  ///< ops that did, by match key
    void lose();
    void boundary();
    void install(Known& known, std::int32_t position);
    bool may_install_early() const;
    void left(const char* reason, bool no_room);
    void no_room(Known& known);

    Residency& residency_;
    std::vector<std::unique_ptr<Known>> known_;
    Known* current_ = nullptr;
    std::unique_ptr<IterationMatcher> matcher_;  ///< null: not in step with anything
    std::unique_ptr<PlanFollower> follower_;
    Prefetcher prefetcher_;
    std::uint64_t installed_version_ = 0;
    std::int32_t position_ = -1;  ///< of the op in progress
    std::int32_t pending_tensor_ = -1;
    std::uint64_t turn_ = 0, unsynced_ops_ = 0;
    std::int32_t streak_ = 0;  ///< ops matched in a row since the start of an iteration
    std::uint64_t bytes_in_ = 0, bytes_out_ = 0, mapping_ = 0;  ///< at the last boundary
    bool switching_ = false;
    std::uint64_t lasted_ = 0;  ///< iterations that the installed plan was followed
    SwitchCounts counts_;
};

}  // namespace swapadvisor
