#include "replayer/timeline.h"

#include <algorithm>

namespace swapadvisor {
namespace {
constexpr std::size_t kRing = 1024;  // events per queue at most
constexpr std::size_t kEarlyReuse =
    32;                            // from here on finished events are taken again before new ones are made
constexpr std::size_t kLooks = 4;  // closed queues that are asked whether they are done, for a new one
}  // namespace

QueueId Timeline::queue(CUcontext context, CUstream stream, std::uint64_t thread) {
    const Queue& last = queues_[recent_];
    if (last.open && last.stream == stream && last.context == context && last.thread == thread)
        return recent_;
    const Key key{context, stream, thread};
    if (const auto found = open_.find(key); found != open_.end()) return recent_ = found->second;
    // A closed queue whose work is all done can be taken over: its numbers go on, so old marks stay done.
    QueueId chosen = 0;
    for (std::size_t looks = std::min(closed_.size(), kLooks); looks != 0 && chosen == 0; --looks) {
        const QueueId id = closed_.front();
        closed_.pop_front();
        if (done({queues_[id].issued, id}))
            chosen = id;
        else
            closed_.push_back(id);
    }
    if (chosen == 0) {
        chosen = static_cast<QueueId>(queues_.size());
        queues_.emplace_back();
    }
    Queue& q = queues_[chosen];
    if (q.context != context) destroy_events(q);  // events belong to a context
    q.waited.clear();
    q.context = context;
    q.stream = stream;
    q.thread = thread;
    q.open = true;
    q.blocking = is_blocking(stream);
    open_.emplace(key, chosen);
    // A stream that takes turns with the legacy one may be behind what that waits for.
    if (q.blocking && !gates_.empty()) {
        const std::size_t count = gates_.size();
        for (std::size_t i = 0; i < count; ++i)
            if (const Queue& other = queues_[gates_[i].queue]; other.blocking && other.context == context)
                gates_.push_back({chosen, q.issued + 1, gates_[i].until});
    }
    return recent_ = chosen;
}

bool Timeline::is_blocking(CUstream stream) const {
    if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return true;
    unsigned flags = CU_STREAM_NON_BLOCKING;
    if (api_.cuStreamGetFlags_ != nullptr && api_.cuStreamGetFlags_(stream, &flags) != CUDA_SUCCESS)
        flags = CU_STREAM_NON_BLOCKING;
    return (flags & CU_STREAM_NON_BLOCKING) == 0;
}

void Timeline::close(QueueId id) {
    Queue& q = queues_[id];
    if (!q.open) return;
    q.open = false;
    open_.erase({q.context, q.stream, q.thread});
    closed_.push_back(id);
}

bool Timeline::pinned(CUevent event) const {
    return std::find(pins_.begin(), pins_.end(), event) != pins_.end();
}

void Timeline::destroy_events(Queue& q) {
    for (Entry& entry : q.events)
        if (pinned(entry.event))
            orphans_.push_back(entry.event);
        else
            api_.cuEventDestroy_(entry.event);
    q.events.clear();
}

Mark Timeline::issued(QueueId id) {
    Queue& q = queues_[id];
    ++q.issued;
    ++all_issued_;
    // A per-thread default stream can be named by its own thread only.
    if (q.thread != 0 || !captures_.empty()) record(id);
    return {q.issued, id};
}

CUresult Timeline::record(QueueId id) {
    Queue& q = queues_[id];
    if (!q.open) return CUDA_SUCCESS;
    if (!q.events.empty() && q.events.back().seq == q.issued) return CUDA_SUCCESS;
    Entry entry;
    if (q.events.size() >= kEarlyReuse && q.events.size() < kRing && q.events.front().seq > q.completed &&
        api_.cuEventQuery_(q.events.front().event) == CUDA_SUCCESS) {
        q.completed = std::max(q.completed, q.events.front().seq);
    }
    const bool reuse =
        q.events.size() >= kRing || (q.events.size() >= kEarlyReuse && q.events.front().seq <= q.completed);
    if (reuse && (pins_.empty() || !pinned(q.events.front().event))) {
        entry = q.events.front();
        q.events.pop_front();
    } else {
        ContextScope scope(api_, q.context);
        CUresult result = api_.cuEventCreate_(&entry.event, CU_EVENT_DISABLE_TIMING);
        if (result != CUDA_SUCCESS) return result;
    }
    CUresult result;
    if (q.stream == CU_STREAM_LEGACY || q.stream == CU_STREAM_PER_THREAD) {
        ContextScope scope(api_, q.context);
        result = api_.cuEventRecord_(entry.event, q.stream);
    } else {
        result = api_.cuEventRecord_(entry.event, q.stream);
    }
    if (result != CUDA_SUCCESS) {
        api_.cuEventDestroy_(entry.event);
        return result;
    }
    ++records_;
    entry.seq = q.issued;
    q.events.push_back(entry);
    return CUDA_SUCCESS;
}

void Timeline::record(const MarkSet& marks) {
    marks.for_each([&](Mark mark) { record(mark.queue); });
}

const Timeline::Entry* Timeline::event_for(QueueId id, Seq seq) {
    Queue& q = queues_[id];
    auto found = std::lower_bound(q.events.begin(), q.events.end(), seq,
                                  [](const Entry& entry, Seq s) { return entry.seq < s; });
    if (found != q.events.end()) return &*found;
    if (record(id) != CUDA_SUCCESS || q.events.empty() || q.events.back().seq < seq) return nullptr;
    return &q.events.back();
}

CUresult Timeline::order(QueueId waiter, Mark mark) {
    if (mark.seq == 0 || mark.queue == waiter) return CUDA_SUCCESS;
    Queue& w = queues_[waiter];
    Queue& q = queues_[mark.queue];
    if (q.completed >= mark.seq) return CUDA_SUCCESS;
    Seq& seen = waited(w, mark.queue);
    if (seen >= mark.seq) return CUDA_SUCCESS;
    const Entry* entry = event_for(mark.queue, mark.seq);
    if (entry == nullptr) return CUDA_ERROR_UNKNOWN;
    CUresult result;
    if (w.stream == CU_STREAM_LEGACY || w.stream == CU_STREAM_PER_THREAD) {
        ContextScope scope(api_, w.context);
        result = api_.cuStreamWaitEvent_(w.stream, entry->event, CU_EVENT_WAIT_DEFAULT);
    } else {
        result = api_.cuStreamWaitEvent_(w.stream, entry->event, CU_EVENT_WAIT_DEFAULT);
    }
    if (result != CUDA_SUCCESS) return result;
    ++waits_;
    seen = entry->seq;
    if (!gates_.empty() && gated(mark)) add_gate({waiter, w.issued + 1, mark});
    return CUDA_SUCCESS;
}

CUresult Timeline::order(QueueId waiter, const MarkSet& marks) {
    CUresult result = CUDA_SUCCESS;
    marks.for_each([&](Mark mark) {
        CUresult one = order(waiter, mark);
        if (one != CUDA_SUCCESS) result = one;
    });
    return result;
}

bool Timeline::done(Mark mark) {
    Queue& q = queues_[mark.queue];
    if (q.completed >= mark.seq) return true;
    auto found = std::lower_bound(q.events.begin(), q.events.end(), mark.seq,
                                  [](const Entry& entry, Seq s) { return entry.seq < s; });
    if (found == q.events.end() || api_.cuEventQuery_(found->event) != CUDA_SUCCESS) return false;
    q.completed = found->seq;
    return true;
}

bool Timeline::done(const MarkSet& marks) {
    bool all = true;
    marks.for_each([&](Mark mark) { all = all && done(mark); });
    return all;
}

CUresult Timeline::wait(Mark mark) {
    Queue& q = queues_[mark.queue];
    if (done(mark)) return CUDA_SUCCESS;
    const Entry* entry = event_for(mark.queue, mark.seq);
    if (entry == nullptr) return CUDA_ERROR_UNKNOWN;
    CUresult result = api_.cuEventSynchronize_(entry->event);
    if (result == CUDA_SUCCESS) q.completed = std::max(q.completed, entry->seq);
    return result;
}

CUresult Timeline::wait(const MarkSet& marks) {
    CUresult result = CUDA_SUCCESS;
    marks.for_each([&](Mark mark) {
        CUresult one = wait(mark);
        if (one != CUDA_SUCCESS) result = one;
    });
    return result;
}

CUresult Timeline::wait_all(CUcontext context) {
    CUresult result = CUDA_SUCCESS;
    for (std::size_t i = 1; i < queues_.size(); ++i) {
        if (queues_[i].context != context) continue;
        CUresult one = wait(last(static_cast<QueueId>(i)));
        if (one != CUDA_SUCCESS) result = one;
    }
    return result;
}

CUevent Timeline::pin(Mark mark) {
    if (queues_[mark.queue].completed >= mark.seq) return nullptr;
    const Entry* entry = event_for(mark.queue, mark.seq);
    if (entry == nullptr) return nullptr;
    pins_.push_back(entry->event);
    return entry->event;
}

void Timeline::unpin(CUevent event) {
    const auto pin = std::find(pins_.begin(), pins_.end(), event);
    if (pin == pins_.end()) return;
    pins_.erase(pin);
    if (pinned(event)) return;
    if (const auto orphan = std::find(orphans_.begin(), orphans_.end(), event); orphan != orphans_.end()) {
        orphans_.erase(orphan);
        api_.cuEventDestroy_(event);
    }
}

// --- gates
// ----------------------------------------------------------------------------------------------------------

void Timeline::add_gate(Gate gate) {
    gates_.push_back(gate);
    const Queue& q = queues_[gate.queue];
    if (!q.blocking) return;
    // The legacy stream waits for all that is on such a stream, and what comes after on the others for it.
    for (const auto& [key, id] : open_)
        if (id != gate.queue && key.context == q.context && queues_[id].blocking)
            gates_.push_back({id, queues_[id].issued + 1, gate.until});
}

void Timeline::gate(QueueId id) {
    review_gates();
    const Mark mark = issued(id);
    if (record(id) != CUDA_SUCCESS) return;
    add_gate({id, mark.seq, mark});
}

void Timeline::event_recorded(CUevent event, QueueId id) {
    review_gates();
    const Mark mark = last(id);
    if (!gated(mark)) {
        gated_events_.erase(event);
        return;
    }
    record(id);
    gated_events_[event] = mark;
}

void Timeline::event_waited(QueueId id, CUevent event) {
    const auto found = gated_events_.find(event);
    if (found == gated_events_.end() || found->second.queue == id || !gated(found->second)) return;
    add_gate({id, issued(id).seq, found->second});
}

void Timeline::review_gates() {
    if (gates_.empty()) return;
    std::erase_if(gates_, [this](const Gate& gate) { return done(gate.until); });
    if (gates_.empty()) gated_events_.clear();
}

bool Timeline::gated(Mark mark) const {
    if (gates_.empty() || queues_[mark.queue].completed >= mark.seq) return false;
    for (const Gate& gate : gates_)
        if (gate.queue == mark.queue && gate.from <= mark.seq) return true;
    return false;
}

bool Timeline::gated(const MarkSet& marks) const {
    bool any = false;
    if (!gates_.empty()) marks.for_each([&](Mark mark) { any = any || gated(mark); });
    return any;
}

// --- ends
// -----------------------------------------------------------------------------------------------------------

void Timeline::end_stream(CUcontext context, CUstream stream) {
    std::erase_if(captures_, [&](const Capture& c) {
        return c.stream == stream && (context == nullptr || c.context == context);
    });
    for (std::size_t i = 1; i < queues_.size(); ++i) {
        Queue& q = queues_[i];
        if (!q.open || q.stream != stream || (context != nullptr && q.context != context)) continue;
        if (q.issued > q.completed) record(static_cast<QueueId>(i));
        close(static_cast<QueueId>(i));
    }
}

void Timeline::end_thread(std::uint64_t thread) {
    std::erase_if(captures_, [&](const Capture& c) { return c.thread == thread; });
    for (std::size_t i = 1; i < queues_.size(); ++i)
        if (queues_[i].open && queues_[i].thread == thread) close(static_cast<QueueId>(i));
}

void Timeline::end_context(CUcontext context) {
    if (context == nullptr) return;
    std::erase_if(captures_, [&](const Capture& c) { return c.context == context; });
    for (std::size_t i = 1; i < queues_.size(); ++i) {
        Queue& q = queues_[i];
        if (q.context != context) continue;
        close(static_cast<QueueId>(i));
        q.completed = q.issued;
        q.events.clear();  // they went with the context
        q.context = nullptr;
    }
    review_gates();
}

void Timeline::begin_capture(CUcontext context, CUstream stream, std::uint64_t thread) {
    if (captures_.empty())
        for (std::size_t i = 1; i < queues_.size(); ++i)
            if (queues_[i].open && queues_[i].thread == 0 && queues_[i].issued > queues_[i].completed)
                record(static_cast<QueueId>(i));
    captures_.push_back({context, stream, thread});
}

void Timeline::end_capture(CUstream stream, std::uint64_t thread) {
    const auto found = std::find_if(captures_.begin(), captures_.end(), [&](const Capture& c) {
        return c.stream == stream && c.thread == thread;
    });
    if (found != captures_.end()) captures_.erase(found);
}

bool Timeline::captures(CUstream stream, std::uint64_t thread) const {
    return std::any_of(captures_.begin(), captures_.end(),
                       [&](const Capture& c) { return c.stream == stream && c.thread == thread; });
}

}  // namespace swapadvisor
