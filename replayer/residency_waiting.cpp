// Waiting for what has to happen before an op can have its memory: without the owner's lock, and never for
// good. See replayer/outcome.h for what attempts say, replayer/timeline.h for gates.
#include <unistd.h>

#include <algorithm>

#include "replayer/planned_pool.h"
#include "replayer/residency.h"

namespace swapadvisor {

// Our own copies come after what the program does with a buffer: one wait for the last of them is often all.
Outcome Residency::over(const MarkSet& marks) {
    Wait found;
    marks.for_each([&](Mark mark) {
        if (timeline_.done(mark)) return;
        if (found.mark.seq == 0 || mark.queue == out_ || (mark.queue == in_ && found.mark.queue != out_))
            found.mark = mark;
        found.gate = found.gate || timeline_.gated(mark);
    });
    if (found.mark.seq == 0) return CUDA_SUCCESS;
    wait_ = found;
    return Outcome::Kind::wait;
}

// Nobody may leave as things are: is there someone who will be able to?
Outcome Residency::who_else() {
    bool gated = false, held = false;
    for (Buffer* b = oldest_; b != nullptr; b = b->newer) {
        if (b->stamp == stamp_ || b->escaped != nullptr) continue;
        (b->holds != 0 ? held : gated) = true;
    }
    for (const auto& [size, list] : cached_) gated = gated || !list.empty();
    if (held) return wait_for_release();
    if (gated) return wait_for_gate();
    return Outcome::Kind::crowded;
}

// How long an attempt is made again while nothing goes on.
class Residency::Patience {
  public:
    explicit Patience(Residency& residency) : residency_(residency) { restart(); }
    /// After a pause without anyone to wait for: how long it has been quiet.
    std::chrono::steady_clock::duration quiet() {
        if (residency_.timeline_.all_issued() != issued_ || residency_.wait_.release != release_) restart();
        return std::chrono::steady_clock::now() - since_;
    }
    std::chrono::microseconds step() {
        step_ = std::min(step_ * 2, std::chrono::microseconds(1000));
        return step_;
    }
    void restart() {
        since_ = std::chrono::steady_clock::now();
        step_ = std::chrono::microseconds(10);
        issued_ = residency_.timeline_.all_issued();
        release_ = residency_.wait_.release;
    }

  private:
    Residency& residency_;
    std::chrono::steady_clock::time_point since_;
    std::chrono::microseconds step_{10};
    std::uint64_t issued_ = 0;
    bool release_ = false;
};

CUresult Residency::try_again(const BufferUse* uses, std::size_t count,
                              const std::function<Outcome()>& attempt) {
    // The program may begin a capture meanwhile, which what is done here must not spoil.
    const RelaxedCapture relaxed(api_);
    Patience patience(*this);
    ++pausing_;
    for (std::size_t i = 0; i < count; ++i) ++uses[i].buffer->waiters;
    CUresult result = CUDA_ERROR_UNKNOWN;
    for (;;) {
        CUresult paused = CUDA_SUCCESS;
        if (wait_.mark.seq != 0 && !wait_.gate) {
            const Mark mark = wait_.mark;
            const CUevent event = timeline_.pin(mark);
            if (event == nullptr) {
                paused = timeline_.wait(mark);
            } else {
                paused = options_.pause ? options_.pause(event, {}) : api_.cuEventSynchronize_(event);
                timeline_.unpin(event);
            }
            patience.restart();
        } else {
            if (options_.pause)
                paused = options_.pause(nullptr, patience.step());
            else
                usleep(static_cast<useconds_t>(patience.step().count()));
            const auto quiet = patience.quiet();
            if (pool_ && quiet > options_.plan_patience && !abandoned_) {
                paused =
                    leave_plan(wait_.release ? "a call that is in progress holds the plan's memory"
                                             : "work that waits for the program holds the plan's memory");
                patience.restart();
            } else if (quiet > options_.patience || gave_up_ == timeline_.all_issued()) {
                gave_up_ =
                    timeline_.all_issued();  // as long as nothing new comes, there is no use in waiting
                why_ = wait_.release ? "all that could leave the device is used by calls that do not end"
                                     : "all that could leave the device is used by work that waits for the "
                                       "program (a host function, a value in memory)";
                result = CUDA_ERROR_OUT_OF_MEMORY;
                break;
            }
        }
        if (abandoned_) paused = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (paused != CUDA_SUCCESS) {
            result = paused;
            break;
        }
        const Outcome outcome = attempt();
        if (outcome.is(Outcome::Kind::wait)) continue;
        result = outcome.code();
        break;
    }
    for (std::size_t i = 0; i < count; ++i) --uses[i].buffer->waiters;
    --pausing_;
    return result;
}

}  // namespace swapadvisor
