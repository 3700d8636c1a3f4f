#include "tests/softgpu/driver/sim.h"

#include <algorithm>
#include <chrono>

#include "tests/softgpu/driver/core.h"

namespace softgpu {

constexpr auto kHostFunctionPatience = std::chrono::milliseconds(200);

void join(VectorClock& into, const VectorClock& from) {
    if (into.size() < from.size()) into.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

const char* engine_name(Engine e) {
    static const char* const names[] = {"host", "compute", "h2d", "d2h"};
    return names[static_cast<int>(e)];
}

bool Sim::ByReady::operator()(const OpRef& a, const OpRef& b) const {
    return a->ready != b->ready ? a->ready < b->ready : a->id < b->id;
}

Sim::Sim() = default;

void Sim::add_device() {
    devices_.emplace_back();
}

void Sim::post(Time t, const OpRef& op) {
    events_.push({t, ++order_, op});
}

void Sim::enqueue(const OpRef& op, const std::vector<OpRef>& after) {
    op->enqueued = std::max(op->enqueued, now_);
    op->ready = op->enqueued;
    if (!op->quiet) ++undone_;
    for (const OpRef& dependency : after) {
        if (!dependency) continue;
        op->ready = std::max(op->ready, dependency->end);  // 0 while it isn't done
        if (dependency->state == Op::State::done) continue;
        dependency->dependents.push_back(op);
        ++op->pending;
    }
    if (op->pending == 0) {
        op->state = Op::State::ready;
        post(op->ready, op);
    }
    notify();
}

// An operation whose dependencies are done, at now_ == op->ready.
void Sim::arrive(const OpRef& op) {
    if (op->gate && !op->gate()) {
        gated_.push_back(op);
        return;
    }
    op->ready = std::max(op->ready, now_);
    if (op->engine != Engine::none) {
        devices_[static_cast<std::size_t>(op->device)].queue[static_cast<int>(op->engine)].insert(op);
        return;
    }
    op->start = now_;
    op->state = Op::State::running;
    if (op->on_start) op->on_start(*op);
    if (op->host_function) {
        calls_.push_back(op);
    } else if (op->duration == 0) {
        finished_.push_back(op);
    } else {
        post(now_ + op->duration, op);
    }
}

void Sim::complete(const OpRef& op) {
    op->end = now_;
    op->state = Op::State::done;
    if (op->on_end) op->on_end(*op);
    if (!op->quiet) --undone_;
    if (op->tells_host) join(driver().host_knows, op->clock);
    if (on_complete) on_complete(*op);
    op->on_start = nullptr;
    op->on_end = nullptr;
    op->gate = nullptr;
    op->host_function = nullptr;
    auto dependents = std::move(op->dependents);
    op->dependents.clear();
    for (const OpRef& next : dependents) {
        next->ready = std::max(next->ready, now_);
        if (op->late_clock) {
            join(next->clock, op->clock);
            next->late_clock = true;
        }
        if (--next->pending > 0) continue;
        next->state = Op::State::ready;
        if (next->ready > now_)
            post(next->ready, next);
        else
            arrive(next);
    }
}

void Sim::drain_worklist() {
    while (!finished_.empty()) {
        auto batch = std::move(finished_);
        finished_.clear();
        for (const OpRef& op : batch) complete(op);
    }
}

void Sim::poll_gates() {
    if (gated_.empty()) return;
    auto waiting = std::move(gated_);
    gated_.clear();
    for (const OpRef& op : waiting) arrive(op);
    drain_worklist();
    dispatch();  // what a gate held back is queued now, and no event may ever come to start it
}

/// Gives every kernel that polls memory a turn. True if one did more than that.
bool Sim::resume_waiting() {
    bool advanced = false;
    for (std::size_t i = 0; i < resumable_.size();) {
        const OpRef op = resumable_[i];
        const Resumed state = op->resume(*op);
        advanced = advanced || state != Resumed::waiting;
        if (state != Resumed::ended) {
            ++i;
            continue;
        }
        op->resume = nullptr;
        resumable_.erase(resumable_.begin() + static_cast<std::ptrdiff_t>(i));
        post(std::max(now_, op->start + op->duration), op);
    }
    return advanced;
}

// ---- copies ----

void Sim::set_rates(DeviceEngines& d) {
    const Options& o = options();
    d.rate_in = static_cast<std::uint64_t>(o.h2d);
    d.rate_out = static_cast<std::uint64_t>(o.d2h);
    const auto duplex = static_cast<std::uint64_t>(o.duplex);
    if (d.in.moving && d.out.moving && d.rate_in + d.rate_out > duplex) {
        const Wide sum = Wide{d.rate_in} + d.rate_out;
        const auto in = static_cast<std::uint64_t>(Wide{d.rate_in} * duplex / sum);
        const auto out = static_cast<std::uint64_t>(Wide{d.rate_out} * duplex / sum);
        d.rate_in = std::max<std::uint64_t>(1, in);
        d.rate_out = std::max<std::uint64_t>(1, out);
    }
}

// Brings the remaining work of both directions to time t.
void Sim::settle_copies(DeviceEngines& d, Time t) {
    const Wide passed = t - d.copies_at;
    const auto settle = [&](CopyEngine& e, std::uint64_t rate) {
        if (!e.moving || e.op->stuck) return;
        const Wide moved = passed * rate;
        e.left = moved >= e.left ? 0 : e.left - moved;
    };
    settle(d.in, d.rate_in);
    settle(d.out, d.rate_out);
    d.copies_at = t;
}

Time Sim::copy_event(const DeviceEngines& d, const CopyEngine& e, std::uint64_t rate) const {
    if (!e.op) return kNever;
    if (!e.moving) return e.moving_from;
    if (e.op->stuck) return kNever;
    return d.copies_at + static_cast<Time>((e.left + rate - 1) / rate);
}

bool Sim::start_copy(DeviceEngines& d, CopyEngine& e, Engine which) {
    auto& queue = d.queue[static_cast<int>(which)];
    if (e.op || queue.empty()) return false;
    e.op = *queue.begin();
    queue.erase(queue.begin());
    e.op->start = now_;
    e.op->state = Op::State::running;
    if (e.op->on_start) e.op->on_start(*e.op);
    const auto bytes = static_cast<std::uint64_t>(static_cast<double>(e.op->bytes) * e.op->slow_down);
    e.left = Wide{e.op->slow_down == 1 ? e.op->bytes : bytes} * 1'000'000'000u;
    e.moving_from = now_ + options().latency;
    e.moving = false;
    return true;
}

// ---- the loop ----

Time Sim::next_time() {
    Time t = events_.empty() ? kNever : events_.top().time;
    for (const DeviceEngines& d : devices_) {
        t = std::min(t, copy_event(d, d.in, d.rate_in));
        t = std::min(t, copy_event(d, d.out, d.rate_out));
    }
    return t;
}

void Sim::process(Time t) {
    now_ = t;
    // Copies: register ends, begin to move.
    for (DeviceEngines& d : devices_) {
        if (!d.in.op && !d.out.op) continue;
        settle_copies(d, t);
        for (auto [e, which] : {std::pair{&d.in, Engine::h2d}, std::pair{&d.out, Engine::d2h}}) {
            if (!e->op) continue;
            if (!e->moving && e->moving_from <= t) e->moving = true;
            if (!e->moving || e->left > 0 || e->op->stuck) continue;
            const OpRef op = std::move(e->op);
            e->op = nullptr;
            e->moving = false;
            auto& use = d.use[static_cast<int>(which)];
            use.busy += t - op->start;
            use.bytes += op->bytes;
            ++use.ops;
            finished_.push_back(op);
        }
        set_rates(d);
    }
    while (!events_.empty() && events_.top().time <= t) {
        const OpRef op = events_.top().op;
        events_.pop();
        if (op->state == Op::State::ready) {
            arrive(op);
        } else {  // a timed operation ends
            if (op->engine == Engine::compute) {
                DeviceEngines& d = devices_[static_cast<std::size_t>(op->device)];
                d.computing = nullptr;
                auto& use = d.use[static_cast<int>(Engine::compute)];
                use.busy += t - op->start;
                ++use.ops;
            }
            finished_.push_back(op);
        }
        drain_worklist();
    }
    drain_worklist();
    poll_gates();
    dispatch();
}

void Sim::dispatch() {
    for (DeviceEngines& d : devices_) {
        const bool idle = !d.in.op && !d.out.op;
        bool started = start_copy(d, d.in, Engine::h2d);
        started |= start_copy(d, d.out, Engine::d2h);
        if (started) {
            if (idle) d.copies_at = now_;
            for (CopyEngine* e : {&d.in, &d.out})
                if (e->op && e->moving_from <= now_) e->moving = true;
            set_rates(d);
        }
        auto& queue = d.queue[static_cast<int>(Engine::compute)];
        if (d.computing || queue.empty()) continue;
        const OpRef op = *queue.begin();
        queue.erase(queue.begin());
        d.computing = op;
        op->start = now_;
        op->state = Op::State::running;
        if (op->on_start) op->on_start(*op);
        if (op->resume)
            resumable_.push_back(op);
        else
            post(now_ + op->duration, op);
    }
}

void Sim::callback_loop() {
    Lock lock(driver().mutex);
    for (;;) {
        callback_ready_.wait(lock, [&] { return calling_ && !call_done_; });
        auto function = calling_->host_function;
        lock.unlock();
        function();
        lock.lock();
        call_done_ = true;
        changed_.notify_all();
        callback_ready_.wait(lock, [&] { return !(calling_ && call_done_); });
    }
}

// Runs events up to `until` or until finished. False when nothing is left to run.
bool Sim::run(Lock& lock, Time until, const std::function<bool()>* finished) {
    poll_gates();
    for (;;) {
        if (finished && (*finished)()) return true;
        if (!calling_ && !calls_.empty()) {
            calling_ = calls_.front();
            calls_.pop_front();
            call_done_ = call_overdue_ = false;
            if (!callback_thread_started_) {
                callback_thread_started_ = true;
                std::thread([this] {
                    in_host_function() = true;
                    callback_loop();
                }).detach();
            }
            callback_ready_.notify_all();
        }
        if (calling_ && !call_done_ && !call_overdue_) {
            // Virtual time stands still until a host function returns. One that waits for this very thread,
            // or for work on another stream, must not hang the device: after a while time goes on without it.
            const OpRef waited = calling_;
            const auto over = [&] { return calling_ != waited || call_done_ || call_overdue_; };
            if (!changed_.wait_for(lock, kHostFunctionPatience, over)) call_overdue_ = true;
            continue;
        }
        if (calling_ && call_done_) {
            const OpRef op = std::move(calling_);
            calling_ = nullptr;
            callback_ready_.notify_all();
            op->host_function = nullptr;
            post(now_ + options().host_function, op);
            continue;
        }
        if (resume_waiting()) continue;
        const Time t = next_time();
        if (t == kNever || t > until) {
            if (until != kNever) {
                for (DeviceEngines& d : devices_) {
                    if (!d.in.op && !d.out.op) continue;
                    settle_copies(d, std::max(now_, until));
                }
                now_ = std::max(now_, until);
            }
            return false;
        }
        process(t);
    }
}

void Sim::advance(Lock& lock, Time until) {
    if (until > now_ || !gated_.empty() || !resumable_.empty()) run(lock, until, nullptr);
}

void Sim::run_until(Lock& lock, const std::function<bool()>& finished) {
    while (!run(lock, kNever, &finished)) {
        // Nothing can run: another host thread must submit work, or write memory that a stream polls.
        const bool polls = !gated_.empty() || !resumable_.empty();
        changed_.wait_for(lock, std::chrono::milliseconds(polls ? 1 : 20));
    }
}

}  // namespace softgpu
