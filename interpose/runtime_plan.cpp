#include "interpose/runtime_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "interpose/config.h"
#include "interpose/log.h"
#include "interpose/runtime_outputs.h"
#include "interpose/runtime_planner.h"
#include "interpose/runtime_state.h"
#include "recorder/signature.h"

namespace swapadvisor {
namespace {

constexpr std::uint64_t kNever = ~0ull;
constexpr int kAwaitTimings = 3;  // half iterations more, for ops that no timing has come in of
// The search ends when it has not won a hundredth in half of the time that it has taken so far, and a second.
constexpr double kIdleShare = 0.5, kIdleSeconds = 1, kIdleGain = 0.99;

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
    : state_(state),
      managed_(managed),
      residency_(*managed.residency),
      switch_(residency_),
      timer_(state.api, config().timing),
      sampler_(residency_) {
    choose_timing();
    switch_.may_install = [this] { return !state_.timeline->capturing(); };
    // What small allocations may still grow by costs little where the limit is large.
    reserve_pages_ =
        std::min<std::uint64_t>(residency_.memory_limit_bytes() / residency_.options().page_bytes / 256, 8);
    switch_.strict_for_good = config().strict;
    switch_.on_no_room = [this](std::uint64_t signature) {
        reserve_pages_ += 2 + residency_.arena().held_bytes() / residency_.options().page_bytes / 4;
        outgrown_.push_back(signature);
        // Whatever is being searched for the former room is of no use.
        std::lock_guard lock(mutex_);
        if (running_ == signature) {
            discard_ = true;
            end_job_.store(true);
        }
        std::erase_if(ready_, [&](const Ready& ready) {
            return ready.plan->iteration()->iteration().signature == signature;
        });
    };
    switch_.on_change = [this](bool planned, const std::string& line) {
        choose_timing();
        if (!planned) state_.count(line);
        if (planned) {
            measured_ns_ = -1;
            managed_.recorder->figure(FigureKind::predicted_ns, counts().predicted_ns);
        }
        if (logging(LogTopic::plan)) say("%s%s", planned ? "" : "on demand: ", line.c_str());
    };
}

PlanDirector::~PlanDirector() {
    stop();
}

void PlanDirector::stop() {
    {
        std::lock_guard lock(mutex_);
        stopping_.store(true);
        discard_ = true;
        end_job_.store(true);
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void PlanDirector::poll_timings() {
    timer_.poll(*managed_.recorder);
    sampler_.poll(*managed_.recorder);
    read_boundaries();
}

void PlanDirector::before_op(const OpView& view, std::vector<BufferUse>& uses) {
    const std::uint64_t key = key_of(view, uses);
    switch_.before_op(key, next_seq_, uses, view.kind == OpKind::kernel || view.kind == OpKind::graph);
    if (!config().prove_reads) return;
    switch_.believe(uses);
    // All uses are of this context, so that their numbers are those of the op's touches.
    sampling_ = !planned() && view.kind == OpKind::kernel && view.touch_count == uses.size() &&
                !state_.timeline->capturing() && sampler_.choose(key, uses);
}

void PlanDirector::after_op(Mark mark) {
    const std::uint64_t seq = next_seq_++;
    sampling_ = false;
    if ((seq & 255) == 0) sampler_.poll(*managed_.recorder);
    timer_.after_op(*managed_.recorder);
    if (timing_need_.look(seq)) choose_timing();
    if (managed_.recorder->version() != seen_version_ || seq >= plan_at_seq_) look_at_recorder();
    if (!outgrown_.empty()) plan_again();
    if (any_ready_.load(std::memory_order_relaxed)) collect_ready();
    const bool boundary = switch_.after_op(mark);
    if (boundary || (seq & 63) == 0) state_.note_progress(managed_);
    if (!boundary) return;
    time_boundary(state_.timeline->stream(mark.queue));
    end_idle_search();
}

PlanDirector::Serving PlanDirector::serving() const {
    if (!switch_.planned()) return Serving::on_demand;
    return switch_.settled() ? Serving::planned : Serving::settling;
}

// Device time from boundary to boundary, of iterations with nothing else in between that were served in one
// way; those before the newest plan are of no interest any more.
void PlanDirector::read_boundaries() {
    const DriverApi& api = state_.api;
    while (boundaries_.size() >= 2 && api.cuEventQuery_(boundaries_[1].event) == CUDA_SUCCESS) {
        const Boundary &first = boundaries_[0], &second = boundaries_[1];
        float milliseconds = 0;
        if (second.seq - first.seq == counts().ops_per_iteration && first.serving == second.serving &&
            first.serving != Serving::settling && first.installs == second.installs &&
            second.installs == counts().installs &&
            api.cuEventElapsedTime_(&milliseconds, first.event, second.event) == CUDA_SUCCESS)
            note_measured(static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6 + 0.5));
        api.cuEventDestroy_(first.event);
        boundaries_.pop_front();
    }
}

void PlanDirector::time_boundary(CUstream stream) {
    const DriverApi& api = state_.api;
    read_boundaries();
    if (boundaries_.size() >= 64) return;
    CUevent event = nullptr;
    if (api.cuEventCreate_(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return;
    if (api.cuEventRecord_(event, stream) == CUDA_SUCCESS)
        boundaries_.push_back({event, next_seq_, counts().installs, serving()});
    else
        api.cuEventDestroy_(event);
}

void PlanDirector::note_measured(std::int64_t ns) {
    if (ns == measured_ns_) return;
    measured_ns_ = ns;
    managed_.recorder->figure(FigureKind::measured_ns, ns);
}

// --- plans
// ----------------------------------------------------------------------------------------------------------

std::int64_t PlanDirector::room() const {
    return static_cast<std::int64_t>(residency_.memory_limit_bytes()) -
           static_cast<std::int64_t>(residency_.arena().held_bytes()) -
           static_cast<std::int64_t>((residency_.escaped_pages() + reserve_pages_) *
                                     residency_.options().page_bytes);
}

bool PlanDirector::requested(std::uint64_t signature) const {
    return std::find(requested_.begin(), requested_.end(), signature) != requested_.end();
}

// A trace is there to be planned from: all of it is timed until a loop is found; so is a loop that a plan is
// to be made for.
void PlanDirector::choose_timing() {
    const bool all = (!config().trace_path.empty() && seen_version_ == 0) || plan_at_seq_ != kNever;
    const bool wanted = !planned() && timing_need_.wanted(next_seq_, residency_.near_limit(), all);
    if (wanted != timer_.enabled()) timer_.set_enabled(wanted);
}

void PlanDirector::look_at_recorder() {
    const std::uint64_t version = managed_.recorder->version();
    if (version == seen_version_) {
        plan_at_seq_ = kNever;
        request();
        return;
    }
    seen_version_ = version;
    const auto steady = managed_.recorder->steady();
    if (!steady || steady->ops.empty() || requested(steady->signature)) return;
    // A loop that fits the limit as a whole needs no plan, wherever the rest of the program's memory is.
    std::int64_t used_bytes = 0, used_pages = 0;
    const auto page = static_cast<std::int64_t>(residency_.options().page_bytes);
    for (const TensorRecord& tensor : steady->tensors)
        if (!tensor.small && !tensor.escaped) {
            used_bytes += tensor.bytes;
            used_pages += (tensor.bytes + page - 1) / page;
        }
    if (logging(LogTopic::plan))
        say("iteration of %zu ops found, %lld bytes of tensors, signature %016llx", steady->ops.size(),
            static_cast<long long>(used_bytes), static_cast<unsigned long long>(steady->signature));
    if (used_pages * page <= room()) {
        timing_need_.loop_found(next_seq_, steady->ops.size(), steady->signature);
        return;
    }
    // Until there is a plan, its order tells what is used next.
    if (!switch_.knows(steady->signature)) switch_.know(std::make_shared<IterationScript>(steady));
    timing_need_.loop_found(next_seq_, steady->ops.size(), steady->signature);
    // One more iteration, so that its timings have come in.
    plan_signature_ = steady->signature;
    plan_at_seq_ = next_seq_ + steady->ops.size();
    timings_awaited_ = 0;
}

void PlanDirector::request() {
    if (!config().plan_in_background || requested(plan_signature_)) return;
    timer_.poll(*managed_.recorder);
    sampler_.poll(*managed_.recorder);
    managed_.recorder->flush();
    auto iteration = managed_.recorder->steady_with_durations();
    if (!iteration || iteration->signature != plan_signature_) return;  // the program is elsewhere already
    // The device is behind the program, and one op's time may be a good part of the whole.
    const bool all_timed = std::all_of(iteration->ops.begin(), iteration->ops.end(),
                                       [](const OpRecord& op) { return op.duration_ns > 0; });
    if (!all_timed && !planned() && config().plan_path.empty() && timings_awaited_ < kAwaitTimings) {
        ++timings_awaited_;
        plan_at_seq_ = next_seq_ + iteration->ops.size() / 2 + 1;
        return;
    }
    // Ops are not timed while a plan is followed: what is known from before fills the gaps.
    if (const auto former = switch_.script(plan_signature_)) {
        auto timed = std::make_shared<Iteration>(*iteration);
        const auto& ops = former->iteration().ops;
        for (std::size_t i = 0; i < ops.size() && i < timed->ops.size(); ++i)
            if (timed->ops[i].duration_ns == 0) timed->ops[i].duration_ns = ops[i].duration_ns;
        iteration = timed;
    }
    if (!measure_device(residency_, managed_.model))
        say("the copy rates of the device could not be measured: planning with guesses");
    managed_.recorder->set_device(managed_.model, static_cast<std::int64_t>(residency_.memory_limit_bytes()));
    requested_.push_back(plan_signature_);
    auto script = std::make_shared<IterationScript>(std::move(iteration));
    if (config().prove_reads && !state_.timeline->capturing() && !residency_.check_contents())
        say("this device or driver cannot check contents: SWAPADVISOR_PROVE_READS is of no use");
    switch_.know(script);
    submit(std::move(script));
}

// For iterations whose plan left too little room to everything else.
void PlanDirector::plan_again() {
    if (!config().plan_path.empty() && !config().plan_or_search && counts().installs == 0 &&
        !outgrown_.empty()) {
        std::lock_guard lock(mutex_);
        misfit_ =
            "plan " + config().plan_path +
            " does not fit this program: with what else is on the device it takes more than the limit of " +
            std::to_string(residency_.memory_limit_bytes()) + " bytes";
        any_ready_.store(true, std::memory_order_relaxed);
        outgrown_.clear();
    }
    for (const std::uint64_t signature : outgrown_)
        if (auto script = switch_.script(signature)) submit(std::move(script), true);
    outgrown_.clear();
}

void PlanDirector::submit(std::shared_ptr<const IterationScript> script, bool again) {
    Job job;
    job.again = again;
    job.script = std::move(script);
    job.limit_bytes = room();
    job.reserve_bytes = static_cast<std::int64_t>(reserve_pages_ * residency_.options().page_bytes);
    job.model = managed_.model;
    {
        std::lock_guard lock(mutex_);
        if (stopping_) return;
        jobs_.push_back(std::move(job));
        if (!thread_.joinable())
            start_quiet_thread(
                thread_, [](void* self) { static_cast<PlanDirector*>(self)->work(); }, this);
    }
    wake_.notify_one();
}

// Nobody asked for a run without that plan.
void PlanDirector::end_if_misfit() {
    if (misfit_.empty()) return;
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s (--or-search: go on, and search one)\n", misfit_.c_str());
    run_page().stage.store(RunStage::refused);
    _exit(2);
}

void PlanDirector::collect_ready() {
    std::lock_guard lock(mutex_);
    end_if_misfit();
    for (Ready& ready : ready_) {
        switch_.offer(std::move(ready.plan), ready.gain_percent);
        plan_file_ = ready.from_file ? config().plan_path : "";
        infinite_ns_ = ready.infinite_ns;
    }
    ready_.clear();
    if (const std::int64_t bound = lower_bound_ns_; bound > 0)
        managed_.recorder->figure(FigureKind::lower_bound_ns, bound);
    any_ready_.store(false, std::memory_order_relaxed);
}

// --- the background thread
// ------------------------------------------------------------------------------------------

void PlanDirector::work() {
    for (;;) {
        Job job;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return stopping_.load() || !jobs_.empty(); });
            if (stopping_) return;
            job = std::move(jobs_.front());
            jobs_.erase(jobs_.begin());
            end_job_.store(false);
            discard_ = false;
            running_ = job.script->iteration().signature;
            noted_ns_ = 0;
        }
        run_job(job);
        std::lock_guard lock(mutex_);
        running_ = 0;
    }
}

void PlanDirector::note_search() {
    std::lock_guard lock(mutex_);
    noted_ns_ = 0;
    search_began_ = std::chrono::steady_clock::now();
}

void PlanDirector::note_better(std::int64_t predicted_ns) {
    std::lock_guard lock(mutex_);
    if (noted_ns_ != 0 && static_cast<double>(predicted_ns) > kIdleGain * static_cast<double>(noted_ns_))
        return;
    noted_ns_ = predicted_ns;
    noted_at_ = std::chrono::steady_clock::now();
}

// At a boundary: a search that has long found nothing worth the change ends.
void PlanDirector::end_idle_search() {
    std::lock_guard lock(mutex_);
    if (running_ == 0 || noted_ns_ == 0 || end_job_) return;
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> idle = now - noted_at_, all = now - search_began_;
    if (idle.count() <= std::max(kIdleSeconds, kIdleShare * all.count())) return;
    end_job_.store(true);
    if (logging(LogTopic::plan)) say("the search ends: nothing worth a change in %.1f s", idle.count());
}

void PlanDirector::run_job(const Job& job) {
    PlanRequest request;
    request.iteration = job.script->shared_iteration();
    request.limit_bytes = job.limit_bytes;
    request.chunk_bytes = static_cast<std::int64_t>(residency_.options().page_bytes);
    request.model = job.model;
    request.function_name = [this](std::uint64_t function) {
        return managed_.recorder->function_name(function);
    };
    request.cancel = &end_job_;
    request.on_bound = [this, &job](std::int64_t ns) {
        // A plan that is made again has less room: its bound is higher, and does not hold for what ran
        // before.
        const std::uint64_t signature = job.script->iteration().signature;
        if (bound_signature_ == signature) ns = std::min(ns, lower_bound_ns_.load());
        bound_signature_ = signature;
        lower_bound_ns_.store(ns);
        any_ready_.store(true, std::memory_order_relaxed);
    };
    request.use_file = !job.again;
    request.another_try = job.reserve_bytes != 0;
    request.late_bytes = [&](const planner::Plan& plan) {
        std::string error;
        const auto script = PlanScript::create(job.script, plan, error);
        return script ? static_cast<std::int64_t>(script->late_bytes()) : -1;
    };
    request.on_misfit = [this](const std::string& line) {
        std::lock_guard lock(mutex_);
        misfit_ = line;
        any_ready_.store(true, std::memory_order_relaxed);
    };
    request.on_search = [this] { note_search(); };
    request.on_better = [this](std::int64_t predicted_ns) { note_better(predicted_ns); };
    bool any = false;
    auto offer = [&](const planner::Plan& plan, int gain_percent) {
        std::string error;
        Ready ready{PlanScript::create(job.script, plan, error), request.infinite_ns, gain_percent,
                    request.from_file};
        if (!ready.plan) {
            request.refusal = error;
            if (!request.from_file) say("a plan was refused: %s", error.c_str());
            return false;
        }
        std::lock_guard lock(mutex_);
        if (discard_) return false;  // made for more room than there is by now
        ready_.push_back(std::move(ready));
        any_ready_.store(true, std::memory_order_relaxed);
        return any = true;
    };
    run_planner(request, offer);
    if (any || end_job_ || job.reserve_bytes == 0) return;
    // Better a plan that may have to be left than none.
    request.limit_bytes += job.reserve_bytes;
    request.another_try = false;
    run_planner(request, offer);
}

}  // namespace swapadvisor
