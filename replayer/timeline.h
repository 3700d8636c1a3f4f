// The order between streams: numbers the work issued on every queue and makes one queue (or the host) wait
// for a point of another with as few events as possible. Vector-clock style: what a queue is known to have
// waited for is remembered, so asking again costs a comparison.
//
// Events come from a ring per queue. Recording an event again while a stream still waits for its former state
// is legal (the wait took the state it had when it was asked for), so a ring never needs to be drained: a
// point whose own event has been recycled is covered by a later one, which only waits for more.
//
// Not thread-safe: the owner's lock guards it. Queues belong to a context; a queue that ends (stream or
// context destroyed) counts as done once its last event is.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "recorder/driver_api.h"
#include "replayer/marks.h"

namespace swapadvisor {

/// Makes `context` current on this thread for a scope, and leaves the program's own as it was.
class ContextScope {
  public:
    ContextScope(const DriverApi& api, CUcontext context) : api_(api) {
        CUcontext current = nullptr;
        if (api.cuCtxGetCurrent_(&current) == CUDA_SUCCESS && current == context) return;
        pushed_ = api.cuCtxPushCurrent_(context) == CUDA_SUCCESS;
    }
    ~ContextScope() {
        CUcontext ignored = nullptr;
        if (pushed_) api_.cuCtxPopCurrent_(&ignored);
    }
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

  private:
    const DriverApi& api_;
    bool pushed_ = false;
};

class Timeline {
  public:
    explicit Timeline(const DriverApi& api) : api_(api) {}

    /// The queue of a stream. `stream` is normalised: CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, never null.
    /// `thread` tells per-thread default streams apart (0 for all others).
    QueueId queue(CUcontext context, CUstream stream, std::uint64_t thread = 0);

    /// A piece of work was just issued on `queue`.
    Mark issued(QueueId queue);
    Mark last(QueueId queue) const { return {queues_[queue].issued, queue}; }
    CUstream stream(QueueId queue) const { return queues_[queue].stream; }

    /// Later work on `waiter` starts after `mark` is done.
    CUresult order(QueueId waiter, Mark mark);
    CUresult order(QueueId waiter, const MarkSet& marks);
    /// Would order() put a wait into the queue?
    bool would_wait(QueueId waiter, Mark mark) const {
        if (mark.seq == 0 || mark.queue == waiter || queues_[mark.queue].completed >= mark.seq) return false;
        const std::vector<Seq>& seen = queues_[waiter].waited;
        return mark.queue >= seen.size() || seen[mark.queue] < mark.seq;
    }

    /// Puts an event behind what was issued last, so that waiting for that point does not wait for more.
    CUresult record(QueueId queue);
    /// The same for the queues of all marks, so that done() can tell later; what fails stays unknown.
    void record(const MarkSet& marks);

    bool done(Mark mark);  ///< never blocks; false when unknown
    bool done(const MarkSet& marks);
    CUresult wait(Mark mark);  ///< blocks the host
    CUresult wait(const MarkSet& marks);
    CUresult wait_all(CUcontext context);  ///< for everything issued so far on the context's queues

    /// The program destroys a stream (call before): what was issued stays waitable.
    void end_stream(CUcontext context, CUstream stream);
    /// The context is gone, and all of its work with it.
    void end_context(CUcontext context);

    /// While captures are open every piece of work is followed by an event at once: a capturing stream must
    /// not be given ours. Call before the capture begins.
    void begin_capture();
    void end_capture();
    bool capturing() const { return captures_ != 0; }

    std::uint64_t waits() const { return waits_; }
    std::uint64_t records() const { return records_; }

  private:
    struct Entry {
        CUevent event = nullptr;
        Seq seq = 0;
    };
    struct Queue {
        CUcontext context = nullptr;
        CUstream stream = nullptr;
        std::uint64_t thread = 0;
        bool open = false;
        Seq issued = 0;
        Seq completed = 0;         ///< known to be done
        std::deque<Entry> events;  ///< by rising seq
        std::vector<Seq> waited;   ///< by queue: what this queue has waited for
    };
    const Entry* event_for(QueueId queue, Seq seq);
    Seq& waited(Queue& queue, QueueId other) {
        if (queue.waited.size() <= other) queue.waited.resize(queues_.size());
        return queue.waited[other];
    }

    const DriverApi& api_;
    std::deque<Queue> queues_{1};  ///< number 0 is nobody's
    QueueId recent_ = 0;
    int captures_ = 0;
    std::uint64_t waits_ = 0, records_ = 0;
};

}  // namespace swapadvisor
