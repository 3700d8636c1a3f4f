#include "replayer/plan_switch.h"

#include <algorithm>
#include <unordered_map>

namespace swapadvisor {
namespace {
constexpr std::uint64_t kLasting = 2;  // iterations after which an installation was worth it
constexpr std::size_t kMostSeen = 1 << 16;
constexpr int kProof = 2;  // iterations after which a plan is believed to name every use
}  // namespace

PlanSwitch::PlanSwitch(Residency& residency) : residency_(residency), prefetcher_(residency) {
    residency_.on_leave = [this](const char* reason, bool no_room) { left(reason, no_room); };
    residency_.next_use = [this](const Buffer& buffer) { return matcher_ ? matcher_->next_use(buffer) : 0; };
}

PlanSwitch::Known* PlanSwitch::find(std::uint64_t signature) {
    for (auto& known : known_)
        if (known->script->iteration().signature == signature) return known.get();
    return nullptr;
}

std::shared_ptr<const IterationScript> PlanSwitch::script(std::uint64_t signature) {
    const Known* known = find(signature);
    return known != nullptr ? known->script : nullptr;
}

bool PlanSwitch::knows(std::uint64_t signature) const {
    return const_cast<PlanSwitch*>(this)->find(signature) != nullptr;
}

void PlanSwitch::know(std::shared_ptr<const IterationScript> script) {
    Known* known = find(script->iteration().signature);
    if (known == nullptr) {
        known_.push_back(std::make_unique<Known>());
        known_.back()->script = std::move(script);
        if (!follower_) lose();
    } else if (!known->best) {
        known->script = std::move(script);
        if (current_ == known && !matcher_->adopt(known->script)) lose();
        known->believed = true;
    }
}

void PlanSwitch::offer(std::shared_ptr<const PlanScript> plan, int gain_percent) {
    Known* known = find(plan->iteration()->iteration().signature);
    if (known == nullptr || known->script != plan->iteration()) return;
    if (known->best &&
        plan->plan().predicted_ns * 100 >= known->best->plan().predicted_ns * (100 - gain_percent))
        return;
    known->best = std::move(plan);
    known->unproved = kProof;
    known->refusals = 0;
    ++known->version;
}

// --- where the program is
// -------------------------------------------------------------------------------------------

std::int32_t PlanSwitch::expect(std::uint64_t bytes) {
    return pending_tensor_ =
               matcher_ && bytes >= residency_.options().arena_below ? matcher_->expect(bytes) : -1;
}

void PlanSwitch::allocated(Buffer& buffer) {
    const std::int32_t tensor = pending_tensor_;
    pending_tensor_ = -1;
    if (tensor < 0 || !matcher_ || buffer.small) return;
    if (residency_.pool() == nullptr || residency_.pool()->buffer(tensor) == &buffer)
        matcher_->bind(tensor, buffer);
}

void PlanSwitch::sync(std::uint64_t key, std::uint64_t seq, const std::vector<BufferUse>& uses) {
    ++unsynced_ops_;
    Known* best = nullptr;
    for (auto& known : known_) {
        const IterationScript& script = *known->script;
        if (script.key(0) != key) continue;
        // Where the first op's like occurs in the middle too, the recorder's count tells which is the first.
        const auto ops = static_cast<std::uint64_t>(script.ops());
        if (script.like_first() > 1 && unsynced_ops_ < ops && (seq - script.iteration().first_seq) % ops != 0)
            continue;
        if (best == nullptr || known->failed < best->failed) best = known.get();
    }
    if (best == nullptr) return;
    current_ = best;
    matcher_ = std::make_unique<IterationMatcher>(best->script);
    std::unordered_map<BufferId, Buffer*> live;
    residency_.for_each_large([&](Buffer& buffer) { live[buffer.id] = &buffer; });
    const auto& tensors = best->script->iteration().tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        // As they were when last in step, or else as recorded.
        const BufferId id = !best->ids.empty() ? best->ids[t]
                            : tensors[t].persistent && best->script->takes_part(static_cast<std::int32_t>(t))
                                ? tensors[t].buffer
                                : kNoBuffer;
        const auto found = id != kNoBuffer ? live.find(id) : live.end();
        if (found != live.end() && found->second->tensor < 0 &&
            found->second->bytes == static_cast<std::uint64_t>(tensors[t].bytes))
            matcher_->bind(static_cast<std::int32_t>(t), *found->second);
    }
    position_ = matcher_->observe(key, uses);
    streak_ = position_ == 0 ? 1 : 0;
    if (position_ == 0) {  // figures per iteration leave out what came before it
        bytes_in_ = residency_.counts().bytes_in;
        bytes_out_ = residency_.counts().bytes_out;
    }
    if (position_ < 0) lose();
}

void PlanSwitch::lose() {
    if (current_ != nullptr) {
        current_->failed = ++turn_;
        current_->believed = false;
    }
    if (matcher_ && matcher_->complete()) {
        const auto& tensors = matcher_->script().iteration().tensors;
        current_->ids.assign(tensors.size(), kNoBuffer);
        for (std::size_t t = 0; t < tensors.size(); ++t)
            if (const Buffer* b = matcher_->buffer(static_cast<std::int32_t>(t));
                b != nullptr && tensors[t].persistent)
                current_->ids[t] = b->id;
    }
    if (matcher_) matcher_->forget();
    matcher_.reset();
    current_ = nullptr;
    position_ = -1;
    unsynced_ops_ = 0;
}

void PlanSwitch::before_op(std::uint64_t key, std::uint64_t seq, const std::vector<BufferUse>& uses,
                           bool code) {
    position_ = -1;
    if (!follower_) ++counts_.unplanned_ops;
    if (matcher_) {
        const std::int32_t expected = matcher_->position();
        position_ = matcher_->observe(key, uses);
        streak_ = position_ == expected && streak_ == expected ? expected + 1 : 0;
        if (position_ < 0 && code && unseen_uses(key)) {
            // It has left the plan.
        } else if (position_ < 0) {
            const auto ops = static_cast<std::uint32_t>(matcher_->script().ops());
            const std::uint32_t patience = follower_ ? 16 + ops / 16 : 8 + ops / 50;
            if (matcher_->foreign() + matcher_->skipped() / 4 > patience) {
                if (follower_)
                    residency_.leave_plan("the program left the planned iteration");
                else
                    lose();
            }
        }
    }
    if (code) note_seen(key);
    if (!matcher_ && !known_.empty()) sync(key, seq, uses);
}

// While nothing absent is mapped an op may use what it does not name: that is found, or faults. Whoever went
// through that once need not again.
void PlanSwitch::note_seen(std::uint64_t key) {
    const PlannedPool* const pool = residency_.pool();
    if ((pool == nullptr || pool->strict()) && seen_.size() < kMostSeen) seen_[key] = true;
}

bool PlanSwitch::unseen_uses(std::uint64_t key) {
    const PlannedPool* const pool = residency_.pool();
    if (pool == nullptr || pool->strict() || seen_.find(key) != nullptr) return false;
    return residency_.leave_plan("an op that the plan has not seen may use what it does not name") ==
           CUDA_SUCCESS;
}

void PlanSwitch::before_unnamed(std::uint64_t key) {
    unseen_uses(key);
    note_seen(key);
}

void PlanSwitch::believe(std::vector<BufferUse>& uses) const {
    if (position_ >= 0 && matcher_ && follower_ && residency_.content() != nullptr)
        matcher_->believe(position_, uses);
}

bool PlanSwitch::after_op(Mark mark) {
    if (position_ < 0 || !matcher_) return false;
    if (follower_) {
        follower_->after_op(position_, mark);
        if (PlannedPool* pool = residency_.pool();
            pool != nullptr && !pool->settled() && (!may_install || may_install())) {
            pool->hide_finished();
            // In steps, within an iteration.
            pool->map_some(1 + 2 * matcher_->script().iteration().tensors.size() /
                                   static_cast<std::size_t>(matcher_->script().ops()));
        }
    }
    if (!follower_ && may_install_early()) install(*current_, position_);
    if (!follower_ && current_->believed) prefetcher_.advance(*matcher_);
    if (position_ != matcher_->script().ops() - 1) return false;
    boundary();
    return true;
}

// In the middle of an iteration whose plan has proved itself: the program came back to it from something
// else.
bool PlanSwitch::may_install_early() const {
    const IterationScript& script = matcher_->script();
    return current_->best && !current_->ids.empty() && current_->short_lives == 0 &&
           current_->refusals == 0 && streak_ == std::min(16, script.ops() / 4) && !script.wraps() &&
           matcher_->unexpected_births() == 0 && matcher_->complete() && (!may_install || may_install());
}

void PlanSwitch::boundary() {
    const ResidencyCounts& moved = residency_.counts();
    ++counts_.iterations;
    const auto ops = static_cast<std::uint32_t>(matcher_->script().ops());
    counts_.ops_per_iteration = ops;
    counts_.in_bytes = moved.bytes_in - bytes_in_;
    counts_.out_bytes = moved.bytes_out - bytes_out_;
    if (follower_) {
        ++counts_.planned_iterations;
        if (++lasted_ >= kLasting) current_->short_lives = 0;
        counts_.mapping_calls = residency_.memory().mapping_calls() - mapping_;
        counts_.late = follower_->late;
        counts_.left_out = follower_->left_out;
        if (current_->version == installed_version_ && current_->unproved > 0 && --current_->unproved == 0 &&
            !strict_for_good)
            residency_.pool()->end_strictness();
    }
    counts_.last_planned = follower_ != nullptr;
    counts_.unplanned_ops = 0;
    const bool clean = matcher_->foreign() <= 8 + ops / 50 && matcher_->skipped() == 0 &&
                       matcher_->unexpected_births() == 0 && matcher_->complete();
    matcher_->restart();
    streak_ = 0;
    current_->clean = clean ? current_->clean + 1 : 0;
    current_->believed = current_->believed || clean;
    const int needed = back_off ? 1 << std::min(current_->short_lives, 6) : 1;
    if (current_->clean >= needed && current_->best && current_->refusals < 3 &&
        (!follower_ || current_->version != installed_version_) && (!may_install || may_install()))
        install(*current_, -1);
    bytes_in_ = moved.bytes_in;
    bytes_out_ = moved.bytes_out;
    mapping_ = residency_.memory().mapping_calls();
}

void PlanSwitch::install(Known& known, std::int32_t position) {
    const std::uint64_t taken =
        residency_.arena().held_bytes() + residency_.escaped_pages() * residency_.options().page_bytes;
    if (known.best->pool_bytes() + taken > residency_.memory_limit_bytes()) return no_room(known);
    switching_ = true;
    CUresult result = residency_.leave_plan("a better plan");
    switching_ = false;
    std::string error = "leaving the former plan failed";
    if (result == CUDA_SUCCESS) {
        follower_.reset();
        matcher_->name_buffers();
        auto follower = std::make_unique<PlanFollower>(residency_, known.best);
        result = follower->install(*matcher_, position, strict_for_good || known.unproved > 0, error);
        if (result == CUDA_SUCCESS) follower_ = std::move(follower);
        matcher_->name_buffers();
    }
    if (result != CUDA_SUCCESS) {
        ++counts_.refused_plans;
        ++known.refusals;
        counts_.reason = "a plan could not be installed: " + error;
        if (on_change) on_change(planned(), counts_.reason);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) no_room(known);
        return;
    }
    ++counts_.installs;
    installed_version_ = known.version;
    counts_.predicted_ns = known.best->plan().predicted_ns;
    counts_.signature = known.script->iteration().signature;
    lasted_ = 0;
    if (on_change)
        on_change(true, "plan installed: " + std::to_string(residency_.pool()->atoms()) +
                            " atoms, predicted " + std::to_string(counts_.predicted_ns) +
                            " ns per iteration");
}

// The plan asks for more memory than there is by now.
void PlanSwitch::no_room(Known& known) {
    known.best.reset();
    known.refusals = 0;
    if (on_no_room) on_no_room(known.script->iteration().signature);
}

// Called by the residency when it has left the pool.
void PlanSwitch::left(const char* reason, bool no_room_left) {
    if (switching_) return;
    ++counts_.divergences;
    counts_.reason = reason;
    follower_.reset();
    if (current_ != nullptr) {
        current_->clean = 0;
        if (no_room_left)
            no_room(*current_);
        else if (lasted_ < kLasting)
            ++current_->short_lives;
    }
    lose();
    if (on_change) on_change(false, reason);
}

}  // namespace swapadvisor
