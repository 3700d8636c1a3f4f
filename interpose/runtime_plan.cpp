#include "interpose/runtime_plan.h"

#include <algorithm>

#include "interpose/config.h"
#include "interpose/log.h"
#include "interpose/runtime_planner.h"
#include "interpose/runtime_state.h"
#include "recorder/signature.h"

namespace swapadvisor {
namespace {

constexpr std::uint64_t kNever = ~0ull;
constexpr int kInstallTries = 3;

/// The recorder's match key of an op; its touches are `uses`, in the same order.
std::uint64_t key_of(const OpView& view, const std::vector<BufferUse>& uses) {
    std::size_t next = 0;
    return match_key(view, [&](BufferId) {
        const Buffer& b = *uses[next++].buffer;
        return BufferShape{static_cast<std::int64_t>(b.bytes), b.small};
    });
}

}  // namespace

PlanDirector::PlanDirector(RuntimeState& state, ManagedContext& managed)
    : state_(state), managed_(managed), residency_(*managed.residency), timer_(state.api) {
    residency_.on_leave = [this](const char* reason) { left(reason); };
    residency_.next_use = [this](const Buffer& buffer) { return next_use(buffer); };
}

PlanDirector::~PlanDirector() { stop(); }

void PlanDirector::stop() {
    {
        std::lock_guard lock(mutex_);
        stopping_.store(true);
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

// --- where the program is -------------------------------------------------------------------------------------------

std::int32_t PlanDirector::expect(std::size_t bytes) {
    pending_tensor_ = matcher_ && bytes >= residency_.options().arena_below ? matcher_->expect(bytes) : -1;
    return pending_tensor_;
}

void PlanDirector::allocated(Buffer& buffer) {
    const std::int32_t tensor = pending_tensor_;
    pending_tensor_ = -1;
    if (tensor < 0 || !matcher_ || buffer.small) return;
    if (residency_.pool() == nullptr || residency_.pool()->buffer(tensor) == &buffer) matcher_->bind(tensor, buffer);
}

void PlanDirector::released(Buffer& buffer) {
    if (matcher_) matcher_->released(buffer);
}

std::uint64_t PlanDirector::next_use(const Buffer& buffer) const {
    if (!matcher_) return 0;
    if (buffer.tensor < 0) return kNever;
    const IterationScript& script = matcher_->script();
    const auto& users = script.users(buffer.tensor);
    const auto next = std::lower_bound(users.begin(), users.end(), matcher_->position());
    const auto here = static_cast<std::uint64_t>(matcher_->position());
    if (next != users.end()) return static_cast<std::uint64_t>(*next) - here;
    if (users.empty() || !script.iteration().tensors[static_cast<std::size_t>(buffer.tensor)].persistent) return kNever - 1;
    return static_cast<std::uint64_t>(script.ops()) - here + static_cast<std::uint64_t>(users.front());
}

void PlanDirector::sync(std::uint64_t key, const std::vector<BufferUse>& uses) {
    ++unsynced_ops_;
    Known* best = nullptr;
    for (auto& known : known_) {
        const IterationScript& script = *known->script;
        if (script.key(0) != key) continue;
        // Where the first op's like occurs in the middle too, the recorder's count tells which is the first.
        if (script.like_first() > 1 && unsynced_ops_ < static_cast<std::uint64_t>(script.ops()) &&
            (next_seq_ - script.iteration().first_seq) % static_cast<std::uint64_t>(script.ops()) != 0)
            continue;
        if (best == nullptr || known->failures < best->failures) best = known.get();
    }
    if (best == nullptr) return;
    current_ = best;
    matcher_ = std::make_unique<IterationMatcher>(best->script);
    position_ = matcher_->observe(key, uses);
    if (position_ < 0) lose("");
}

void PlanDirector::lose(const char*) {
    if (current_ != nullptr) current_->failures = ++turn_;
    if (matcher_) matcher_->forget();
    matcher_.reset();
    current_ = nullptr;
    position_ = -1;
    unsynced_ops_ = 0;
}

void PlanDirector::before_op(const OpView& view, const std::vector<BufferUse>& uses) {
    position_ = -1;
    const std::uint64_t key = key_of(view, uses);
    if (matcher_) {
        position_ = matcher_->observe(key, uses);
        if (position_ < 0) {
            const auto ops = static_cast<std::uint32_t>(matcher_->script().ops());
            if (matcher_->foreign() + matcher_->skipped() / 4 > (follower_ ? 16 + ops / 16 : 8 + ops / 50)) {
                if (follower_) residency_.leave_plan("the program left the planned iteration");
                else lose("");
            }
        }
    }
    if (!matcher_) sync(key, uses);
}

void PlanDirector::after_op(Mark mark) {
    const std::uint64_t seq = next_seq_++;
    if (timer_.enabled() && seq % 16 == 0) timer_.poll(*managed_.recorder);
    if (managed_.recorder->version() != seen_version_ || seq >= plan_at_seq_) look_at_recorder();
    if (position_ < 0) return;
    if (follower_) follower_->after_op(position_, mark);
    if (matcher_ && position_ == matcher_->script().ops() - 1) {
        boundary_stream_ = state_.timeline->stream(mark.queue);
        boundary();
    }
}

void PlanDirector::boundary() {
    const ResidencyCounts& moved = residency_.counts();
    ++counts_.iterations;
    counts_.ops_per_iteration = static_cast<std::uint64_t>(matcher_->script().ops());
    if (follower_) {
        ++counts_.planned_iterations;
        reached_boundary_ = true;
        counts_.mapping_calls_steady = residency_.memory().mapping_calls() - mapping_before_;
        counts_.late = follower_->late;
        counts_.left_out = follower_->left_out;
    }
    counts_.in_bytes = moved.bytes_in - bytes_in_before_;
    counts_.out_bytes = moved.bytes_out - bytes_out_before_;
    time_boundary();
    const auto ops = static_cast<std::uint32_t>(matcher_->script().ops());
    const bool clean = matcher_->foreign() <= 8 + ops / 50 && matcher_->skipped() == 0 &&
                       matcher_->unexpected_births() == 0 && matcher_->complete();
    matcher_->restart();
    if (any_ready_.load(std::memory_order_relaxed)) collect_ready();
    if (clean && current_->best && !current_->hopeless && !state_.timeline->capturing() &&
        (!follower_ || current_->best_version > installed_version_))
        install(*current_);
    bytes_in_before_ = moved.bytes_in;
    bytes_out_before_ = moved.bytes_out;
    mapping_before_ = residency_.memory().mapping_calls();
}

// Device time from boundary to boundary, from one event each.
void PlanDirector::time_boundary() {
    while (boundary_events_.size() >= 2 && state_.api.cuEventQuery_(boundary_events_[1].first) == CUDA_SUCCESS) {
        float milliseconds = 0;
        const bool alike = boundary_events_[0].second == boundary_events_[1].second;
        if (alike && boundary_events_[1].second == (follower_ != nullptr) &&
            state_.api.cuEventElapsedTime_(&milliseconds, boundary_events_[0].first, boundary_events_[1].first) == CUDA_SUCCESS)
            counts_.measured_ns = static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6 + 0.5);
        state_.api.cuEventDestroy_(boundary_events_.front().first);
        boundary_events_.pop_front();
    }
    if (boundary_events_.size() >= 64) return;
    CUevent event = nullptr;
    if (state_.api.cuEventCreate_(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return;
    if (state_.api.cuEventRecord_(event, boundary_stream_) != CUDA_SUCCESS) {
        state_.api.cuEventDestroy_(event);
        return;
    }
    boundary_events_.emplace_back(event, follower_ != nullptr);
}

// --- plans ----------------------------------------------------------------------------------------------------------

void PlanDirector::look_at_recorder() {
    const std::uint64_t version = managed_.recorder->version();
    if (version != seen_version_) {
        seen_version_ = version;
        auto steady = managed_.recorder->steady();
        if (!steady || steady->ops.empty()) return;
        for (auto& known : known_)
            if (known->signature == steady->signature) return;
        auto known = std::make_unique<Known>();
        known->number = known_.size();
        known->signature = steady->signature;
        known->script = std::make_shared<IterationScript>(steady);
        // One more iteration, so that its timings have come in.
        plan_at_seq_ = next_seq_ + steady->ops.size();
        if (!follower_) timer_.set_enabled(true);
        if (logging(LogTopic::plan)) say("iteration of %zu ops found, signature %016llx", steady->ops.size(), static_cast<unsigned long long>(steady->signature));
        known_.push_back(std::move(known));
        counts_.signature = steady->signature;
        if (!follower_ && matcher_) lose("");
        return;
    }
    plan_at_seq_ = kNever;
    if (known_.empty()) return;
    request(known_.size() - 1);
}

void PlanDirector::request(std::size_t number) {
    Known& known = *known_[number];
    const std::int64_t limit = static_cast<std::int64_t>(residency_.memory_limit_bytes() - residency_.arena().held_bytes() -
                                                         residency_.escaped_pages() * residency_.options().page_bytes);
    if (known.script->iteration().peak_live_bytes <= limit && !residency_.over_limit()) {
        timer_.set_enabled(false);
        return;
    }
    if (known.requested || !config().plan_in_background) return;
    known.requested = true;
    timer_.poll(*managed_.recorder);
    managed_.recorder->flush();
    Job job;
    job.known = number;
    job.iteration = managed_.recorder->steady_with_durations();
    if (!job.iteration || job.iteration->signature != known.signature) job.iteration = managed_.recorder->steady();
    if (!job.iteration || job.iteration->signature != known.signature) {
        known.requested = false;
        return;
    }
    // The steady object may be newer than the script: ids follow the same rule, but the script must be the planned one.
    known.script = std::make_shared<IterationScript>(job.iteration);
    if (current_ == &known) lose("");
    job.limit_bytes = limit;
    if (!measure_device(residency_, managed_.model)) say("the copy rates of the device could not be measured: planning with guesses");
    managed_.recorder->set_device(managed_.model, static_cast<std::int64_t>(residency_.memory_limit_bytes()));
    job.model = managed_.model;
    {
        std::lock_guard lock(mutex_);
        if (stopping_) return;
        jobs_.push_back(std::move(job));
        if (!thread_.joinable())
            start_quiet_thread(thread_, [](void* self) { static_cast<PlanDirector*>(self)->work(); }, this);
    }
    wake_.notify_one();
}

void PlanDirector::collect_ready() {
    std::lock_guard lock(mutex_);
    for (Ready& ready : ready_) {
        Known& known = *known_[ready.known];
        if (ready.script && ready.script->iteration() == known.script) {
            const bool better = !known.best || ready.script->plan().predicted_ns * 100 < known.best->plan().predicted_ns * 97;
            if (better) {
                known.best = std::move(ready.script);
                ++known.best_version;
            }
        }
        if (ready.infinite_ns >= 0) counts_.infinite_ns = ready.infinite_ns;
    }
    ready_.clear();
    any_ready_.store(false, std::memory_order_relaxed);
}

void PlanDirector::install(Known& known) {
    switching_ = true;
    CUresult result = residency_.leave_plan("a better plan");
    switching_ = false;
    follower_.reset();
    std::string error = "leaving the former plan failed";
    if (result == CUDA_SUCCESS) {
        matcher_->name_buffers();
        auto follower = std::make_unique<PlanFollower>(residency_, known.best);
        result = follower->install(*matcher_, error);
        if (result == CUDA_SUCCESS) follower_ = std::move(follower);
    }
    if (!follower_) {
        matcher_->name_buffers();
        ++counts_.refused_plans;
        known.hopeless = counts_.refused_plans >= kInstallTries;
        counts_.reason = "a plan could not be installed: " + error;
        state_.count(counts_.reason);
        if (logging(LogTopic::plan)) say("%s", counts_.reason.c_str());
        return;
    }
    ++counts_.installs;
    installed_version_ = known.best_version;
    counts_.predicted_ns = known.best->plan().predicted_ns;
    counts_.signature = known.signature;
    reached_boundary_ = false;
    timer_.set_enabled(false);
    if (logging(LogTopic::plan))
        say("plan installed: %zu atoms, predicted %lld ns per iteration", residency_.pool()->atoms(), static_cast<long long>(counts_.predicted_ns));
}

// Called by the residency when it has left the pool.
void PlanDirector::left(const char* reason) {
    if (switching_) return;
    ++counts_.divergences;
    state_.count(reason);
    counts_.reason = reason;
    if (logging(LogTopic::plan)) say("on demand again: %s", reason);
    follower_.reset();
    if (current_ != nullptr && !reached_boundary_ && ++current_->short_lives >= kInstallTries) current_->hopeless = true;
    lose("");
    timer_.set_enabled(true);
}

// --- the background thread ------------------------------------------------------------------------------------------

void PlanDirector::work() {
    for (;;) {
        Job job;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return stopping_.load() || !jobs_.empty(); });
            if (stopping_) return;
            job = std::move(jobs_.front());
            jobs_.erase(jobs_.begin());
        }
        run_job(job);
    }
}

void PlanDirector::run_job(const Job& job) {
    std::shared_ptr<const IterationScript> script;
    {
        std::lock_guard lock(state_.mutex);
        script = known_[job.known]->script;
    }
    PlanRequest request;
    request.iteration = job.iteration;
    request.limit_bytes = job.limit_bytes;
    request.chunk_bytes = static_cast<std::int64_t>(residency_.options().page_bytes);
    request.model = job.model;
    request.function_name = [this](std::uint64_t function) { return managed_.recorder->function_name(function); };
    request.cancel = &stopping_;
    auto offer = [&](const planner::Plan& plan) {
        std::string error;
        Ready ready;
        ready.known = job.known;
        ready.script = PlanScript::create(script, plan, error);
        ready.infinite_ns = request.infinite_ns;
        if (!ready.script && first_time(reinterpret_cast<std::uintptr_t>(this))) say("a plan was refused: %s", error.c_str());
        std::lock_guard lock(mutex_);
        ready_.push_back(std::move(ready));
        any_ready_.store(true, std::memory_order_relaxed);
    };
    run_planner(request, offer);
}

}  // namespace swapadvisor
