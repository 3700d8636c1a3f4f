#include "replayer/timeline.h"

#include <algorithm>

namespace swapadvisor {
namespace {
constexpr std::size_t kRing = 1024;  // events per queue at most
constexpr std::size_t kEarlyReuse =
    32;  // from here on finished events are taken again before new ones are made
}  // namespace

QueueId Timeline::queue(CUcontext context, CUstream stream, std::uint64_t thread) {
    auto is = [&](const Queue& q) {
        return q.open && q.stream == stream && q.context == context && q.thread == thread;
    };
    if (is(queues_[recent_])) return recent_;
    for (std::size_t i = 1; i < queues_.size(); ++i)
        if (is(queues_[i])) return recent_ = static_cast<QueueId>(i);
    // A closed queue whose work is all done can be taken over: its numbers go on, so old marks stay done.
    std::size_t chosen = queues_.size();
    for (std::size_t i = 1; i < queues_.size(); ++i)
        if (!queues_[i].open && done({queues_[i].issued, static_cast<QueueId>(i)})) {
            chosen = i;
            break;
        }
    if (chosen == queues_.size()) queues_.emplace_back();
    Queue& q = queues_[chosen];
    for (Entry& entry : q.events) api_.cuEventDestroy_(entry.event);
    q.events.clear();
    q.waited.clear();
    q.context = context;
    q.stream = stream;
    q.thread = thread;
    q.open = true;
    return recent_ = static_cast<QueueId>(chosen);
}

Mark Timeline::issued(QueueId id) {
    Queue& q = queues_[id];
    ++q.issued;
    // A per-thread default stream can be named by its own thread only.
    if (q.thread != 0 || captures_ != 0) record(id);
    return {q.issued, id};
}

CUresult Timeline::record(QueueId id) {
    Queue& q = queues_[id];
    if (!q.open) return CUDA_SUCCESS;
    if (!q.events.empty() && q.events.back().seq == q.issued) return CUDA_SUCCESS;
    Entry entry;
    const bool reuse =
        !q.events.empty() &&
        (q.events.size() >= kRing || (q.events.size() >= kEarlyReuse && q.events.front().seq <= q.completed));
    if (!reuse && q.events.size() >= kEarlyReuse &&
        api_.cuEventQuery_(q.events.front().event) == CUDA_SUCCESS) {
        q.completed = std::max(q.completed, q.events.front().seq);
    }
    if (reuse || (q.events.size() >= kEarlyReuse && q.events.front().seq <= q.completed)) {
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
    if (q.completed >= mark.seq) return CUDA_SUCCESS;
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

void Timeline::end_stream(CUcontext context, CUstream stream) {
    for (std::size_t i = 1; i < queues_.size(); ++i) {
        Queue& q = queues_[i];
        if (!q.open || q.stream != stream || (context != nullptr && q.context != context)) continue;
        if (q.issued != 0) record(static_cast<QueueId>(i));
        q.open = false;
    }
}

void Timeline::end_context(CUcontext context) {
    for (Queue& q : queues_) {
        if (q.context != context || context == nullptr) continue;
        q.open = false;
        q.completed = q.issued;
        q.events.clear();  // they went with the context
        q.context = nullptr;
    }
}

void Timeline::begin_capture() {
    if (captures_++ != 0) return;
    for (std::size_t i = 1; i < queues_.size(); ++i)
        if (queues_[i].open && queues_[i].thread == 0 && queues_[i].issued > queues_[i].completed)
            record(static_cast<QueueId>(i));
}

void Timeline::end_capture() {
    if (captures_ > 0) --captures_;
}

}  // namespace swapadvisor
