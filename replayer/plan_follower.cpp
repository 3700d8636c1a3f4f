#include "replayer/plan_follower.h"

#include <algorithm>
#include <unordered_map>

#include "replayer/content_check.h"

namespace swapadvisor {

using planner::ActionKind;

namespace {

/// When each chunk is taken by whom, to find out for how long a place stays unused after a free.
class Claims {
  public:
    Claims(const planner::Plan& plan, std::int32_t ops)
        : plan_(plan), ops_(ops), by_chunk_(static_cast<std::size_t>(std::max(plan.chunks, 0))) {
        for (const planner::InitialTensor& initial : plan.initial) add(initial.tensor, initial.at, ops);
        for (const planner::Action& action : plan.actions)
            if (action.kind == ActionKind::alloc || action.kind == ActionKind::in) {
                add(action.tensor, action.at, action.before);
                if (action.kind == ActionKind::alloc) place_[action.tensor] = &action.at;
            }
    }
    /// The first position after `after` at which another tensor must have a chunk of the newborn `tensor`.
    std::int32_t next(planner::TensorId tensor, std::int32_t after) const {
        const auto place = place_.find(tensor);
        std::int32_t first = 2 * ops_;
        if (place == place_.end()) return first;
        for (const planner::ChunkRange& range : *place->second)
            for (std::int32_t c = std::max(range.first, 0); c < range.first + range.count && c < plan_.chunks;
                 ++c)
                for (const auto& [other, before] : by_chunk_[static_cast<std::size_t>(c)])
                    if (other != tensor) first = std::min(first, before > after ? before : before + ops_);
        return first;
    }

  private:
    void add(planner::TensorId tensor, const planner::Placement& at, std::int32_t before) {
        for (const planner::ChunkRange& range : at)
            for (std::int32_t c = std::max(range.first, 0); c < range.first + range.count && c < plan_.chunks;
                 ++c)
                by_chunk_[static_cast<std::size_t>(c)].emplace_back(tensor, before);
    }
    const planner::Plan& plan_;
    std::int32_t ops_;
    std::vector<std::vector<std::pair<planner::TensorId, std::int32_t>>> by_chunk_;
    std::unordered_map<planner::TensorId, const planner::Placement*> place_;
};

}  // namespace

std::shared_ptr<const PlanScript> PlanScript::create(std::shared_ptr<const IterationScript> iteration,
                                                     const planner::Plan& plan, std::string& error) {
    const std::int32_t n = iteration->ops();
    const auto tensors = static_cast<std::int32_t>(iteration->iteration().tensors.size());
    auto script = std::make_shared<PlanScript>();
    script->places_.resize(static_cast<std::size_t>(tensors));
    script->copies_.resize(static_cast<std::size_t>(tensors));
    script->watched_.resize(static_cast<std::size_t>(tensors));
    script->drops_.resize(static_cast<std::size_t>(n));
    script->marked_.resize(static_cast<std::size_t>(n));
    auto refuse = [&](const char* why) {
        error = why;
        return nullptr;
    };
    if (static_cast<std::int32_t>(plan.schedule.size()) != n)
        return refuse("the plan has another number of ops");
    for (std::int32_t p = 0; p < n; ++p)
        if (plan.schedule[static_cast<std::size_t>(p)] != p)
            return refuse("the plan reorders ops, which is not replayed yet");
    if (plan.chunks < 0 || plan.chunk_bytes <= 0) return refuse("the plan's pool is malformed");
    auto place = [&](planner::TensorId tensor, const planner::Placement& at) {
        auto& known = script->places_[static_cast<std::size_t>(tensor)];
        if (known.empty()) known = at;
        return known == at;
    };
    auto valid = [&](planner::TensorId tensor) {
        return tensor >= 0 && tensor < tensors && iteration->takes_part(tensor);
    };
    for (const planner::InitialTensor& initial : plan.initial)
        if (!valid(initial.tensor) || !place(initial.tensor, initial.at))
            return refuse("the plan moves a tensor between places");
    const Claims wanted(plan, n);
    for (const planner::Action& action : plan.actions) {
        if (!valid(action.tensor)) return refuse("the plan names a tensor that the iteration does not have");
        const bool places = action.kind == ActionKind::alloc || action.kind == ActionKind::in;
        if (places && !place(action.tensor, action.at))
            return refuse("the plan moves a tensor between places");
        if (action.kind == ActionKind::free && action.after >= 0 && action.after < n &&
            iteration->freed_before(action.tensor) > wanted.next(action.tensor, action.after)) {
            // The program still holds it when its place is wanted: what it holds has to be kept, so this is a
            // copy out.
            script->late_bytes_ += static_cast<std::uint64_t>(iteration->bytes(action.tensor));
            script->outs_.push_back({ActionKind::out, action.tensor, action.after, 0});
            script->copies_[static_cast<std::size_t>(action.tensor)] = true;
            script->marked_[static_cast<std::size_t>(action.after)] = true;
        }
        if (action.kind == ActionKind::alloc || action.kind == ActionKind::free) continue;
        if (action.after < -1 || action.after >= n || (action.after == -1 && action.kind != ActionKind::in))
            return refuse("the plan names a position out of range");
        const Step step{action.kind, action.tensor, action.after, action.before};
        script->copies_[static_cast<std::size_t>(action.tensor)] = true;
        if (action.kind == ActionKind::in) {
            if (action.before < 0 || action.before > n)
                return refuse("the plan names a position out of range");
            script->ins_.push_back(step);
        } else if (action.kind == ActionKind::drop) {
            script->drops_[static_cast<std::size_t>(action.after)].push_back(action.tensor);
            script->watched_[static_cast<std::size_t>(action.tensor)] =
                iteration->any_believed_read(action.tensor);
            continue;
        } else {
            script->outs_.push_back(step);
        }
        script->marked_[static_cast<std::size_t>(action.after < 0 ? n - 1 : action.after)] = true;
    }
    for (planner::TensorId tensor : plan.arena)
        if (tensor >= 0 && tensor < tensors && iteration->takes_part(tensor))
            return refuse("the plan keeps a large tensor in its arena");
    std::vector<bool> named(static_cast<std::size_t>(plan.chunks), false);
    for (const planner::Placement& at : script->places_)
        for (const planner::ChunkRange& range : at)
            for (std::int32_t c = std::max(range.first, 0); c < range.first + range.count && c < plan.chunks;
                 ++c)
                named[static_cast<std::size_t>(c)] = true;
    script->pool_bytes_ = static_cast<std::uint64_t>(std::count(named.begin(), named.end(), true)) *
                          static_cast<std::uint64_t>(plan.chunk_bytes);
    script->iteration_ = std::move(iteration);
    script->plan_ = plan;
    return script;
}

CUresult PlanFollower::install(const IterationMatcher& matcher, std::int32_t position, bool strict,
                               std::string& error) {
    const std::uint64_t page = residency_.addresses().page_bytes();
    const planner::Plan& plan = script_->plan_;
    if (static_cast<std::uint64_t>(plan.chunk_bytes) % page != 0) {
        error = "the plan's chunks are no multiple of the device's granularity";
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (residency_.content() != nullptr) residency_.content()->watch(script_->watched_);
    std::vector<PoolTensor> tensors(script_->places_.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        tensors[t].bytes =
            static_cast<std::uint64_t>(script_->iteration_->bytes(static_cast<std::int32_t>(t)));
        tensors[t].at = script_->places_[t];
        tensors[t].buffer = matcher.buffer(static_cast<std::int32_t>(t));
        tensors[t].copies = script_->copies_[t];
    }
    CUresult result = CUDA_SUCCESS;
    auto pool =
        PlannedPool::create(residency_, std::move(tensors), plan.chunks,
                            static_cast<std::uint64_t>(plan.chunk_bytes) / page, strict, result, error);
    if (!pool) return result;
    residency_.enter_plan(std::move(pool));
    position_ = position;
    next_out_ = next_in_ = 0;
    bring_residents(position);
    while (next_out_ < script_->outs_.size() && script_->outs_[next_out_].after <= position) ++next_out_;
    while (next_in_ < script_->ins_.size() && script_->ins_[next_in_].before <= position) ++next_in_;
    issue(position);
    late = left_out = 0;
    return CUDA_SUCCESS;
}

// What the plan has on the device once the op at `position` is done, next used first.
void PlanFollower::bring_residents(std::int32_t position) {
    const planner::Plan& plan = script_->plan_;
    std::vector<bool> resident(script_->places_.size(), false);
    auto is = [&](planner::TensorId tensor) -> std::vector<bool>::reference {
        return resident[static_cast<std::size_t>(tensor)];
    };
    for (const planner::InitialTensor& initial : plan.initial) is(initial.tensor) = true;
    for (const planner::Action& action : plan.actions) {
        if (action.kind == ActionKind::alloc || action.kind == ActionKind::in) {
            if (action.before <= position) is(action.tensor) = true;
        } else if (action.kind != ActionKind::save && action.after <= position) {
            is(action.tensor) = false;
        }
    }
    std::vector<std::pair<std::int32_t, std::int32_t>> order;  // next use, tensor
    for (std::size_t t = 0; t < resident.size(); ++t) {
        if (!resident[t]) continue;
        const auto& users = script_->iteration_->users(static_cast<std::int32_t>(t));
        const auto next = std::upper_bound(users.begin(), users.end(), position);
        if (users.empty()) continue;
        order.emplace_back(next != users.end() ? *next : script_->iteration_->ops() + users.front(),
                           static_cast<std::int32_t>(t));
    }
    std::sort(order.begin(), order.end());
    for (const auto& [use, tensor] : order) issue_in({ActionKind::in, tensor, -1, use}, position);
}

void PlanFollower::released() {
    if (next_in_ < script_->ins_.size() && script_->ins_[next_in_].after <= position_) issue(position_);
}

Mark PlanFollower::mark_of(std::int32_t after) const {
    return after < 0 ? last_of_previous_ : marks_[static_cast<std::size_t>(after)];
}

void PlanFollower::after_op(std::int32_t position, Mark mark) {
    // What was skipped, or the rest of an iteration that ended early, counts as done now.
    if (position <= position_) {
        while (++position_ < script_->iteration_->ops()) {
            marks_[static_cast<std::size_t>(position_)] = mark;
            issue(position_);
        }
        wrap();
    }
    if (script_->marked_[static_cast<std::size_t>(position)]) residency_.timeline().record(mark.queue);
    while (position_ < position) {
        ++position_;
        marks_[static_cast<std::size_t>(position_)] = mark;
        issue(position_);
    }
    if (position_ == script_->iteration_->ops() - 1) wrap();
}

void PlanFollower::wrap() {
    const std::int32_t n = script_->iteration_->ops();
    last_of_previous_ = marks_[static_cast<std::size_t>(n - 1)];
    left_out += (script_->outs_.size() - next_out_) + (script_->ins_.size() - next_in_);
    next_out_ = next_in_ = 0;
    position_ = -1;
    issue(-1);
}

void PlanFollower::issue(std::int32_t position) {
    PlannedPool* pool = residency_.pool();
    if (pool == nullptr) return;
    if (position >= 0)
        for (std::int32_t tensor : script_->drops_[static_cast<std::size_t>(position)]) {
            Buffer* b = pool->buffer(tensor);
            if (b != nullptr && b->backed && b->holds == 0 && b->place == Place::resident)
                moved(pool->evict(*b, mark_of(position)).code());
            else
                ++left_out;
        }
    for (; next_out_ < script_->outs_.size() && script_->outs_[next_out_].after <= position; ++next_out_) {
        const PlanScript::Step& step = script_->outs_[next_out_];
        Buffer* b = pool->buffer(step.tensor);
        if (b == nullptr || !b->backed || b->place != Place::resident || b->holds != 0 ||
            residency_.waits_for_program(*b) || residency_.timeline().gated(mark_of(step.after))) {
            ++left_out;
        } else if (step.kind == ActionKind::save) {
            if (b->dirty) moved(residency_.save(*b, mark_of(step.after)));
        } else {
            moved(pool->evict(*b, mark_of(step.after)).code());
        }
    }
    while (next_in_ < script_->ins_.size() && script_->ins_[next_in_].after <= position &&
           issue_in(script_->ins_[next_in_], position))
        ++next_in_;
}

// The program notices nothing of a copy out that failed: whoever needs the memory has it made then, or hears
// of it.
void PlanFollower::moved(CUresult result) {
    if (result == CUDA_SUCCESS) return;
    ++left_out;
    if (result != CUDA_ERROR_OUT_OF_MEMORY || residency_.why().empty() || said_) return;
    said_ = true;
    residency_.note("a copy to the host that the plan has was put off: " + residency_.why());
}

// False if it has to wait for chunks that are still held.
bool PlanFollower::issue_in(const PlanScript::Step& step, std::int32_t position) {
    // Its op had to bring it by itself: made up for now, it would only be in the way of the next.
    if (step.before <= position) {
        ++late;
        return true;
    }
    PlannedPool* pool = residency_.pool();
    Buffer* b = pool->buffer(step.tensor);
    if (b == nullptr || b->place != Place::absent || b->backed) {
        ++left_out;
        return true;
    }
    const Mark after = mark_of(step.after);
    const bool may = pool->vacant(step.tensor) && !residency_.timeline().gated(after);
    const Outcome result = may ? pool->claim(*b, false) : Outcome(Outcome::Kind::later);
    // The program may still free what is there, or an op may get it.
    if (result.is(Outcome::Kind::later) || result.is(Outcome::Kind::wait)) return false;
    if (result.ok()) residency_.copy_in(*b, after);
    return true;
}

}  // namespace swapadvisor
