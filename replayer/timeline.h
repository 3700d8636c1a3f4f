// The order between streams: numbers the work issued on every queue and makes one queue (or the host) wait
// for a point of another with as few events as possible. Vector-clock style: what a queue is known to have
// waited for is remembered, so asking again costs a comparison.
//
// Events come from a ring per queue. Recording an event again while a stream still waits for its former state
// is legal (the wait took the state it had when it was asked for), so a ring never needs to be drained: a
// point whose own event has been recycled is covered by a later one, which only waits for more.
//
// Gates: what follows a host function, a wait for a value or the like on its queue may need the program to go
// on first. Whoever waits on the host, or makes other work wait, asks gated() before. It is a question of
// order alone: a gate that the program has opened counts until review_gates() has seen that.
//
// Not thread-safe: the owner's lock guards it. Queues belong to a context; a queue that ends (stream, thread or
// context gone) counts as done once its last event is, and its number is then given to another.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
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

    /// The event that comes with or after `mark`, for a wait without the owner's lock: it is neither recorded
    /// anew nor destroyed until unpin(). Null: there is nothing to wait for, or no event could be made.
    CUevent pin(Mark mark);
    void unpin(CUevent event);

    // --- gates
    // ------------------------------------------------------------------------------------------------------
    /// What was just put on `queue` may end only once the program does something.
    void gate(QueueId queue);
    /// The program recorded an event of its own on `queue`, or made `queue` wait for one.
    void event_recorded(CUevent event, QueueId queue);
    void event_waited(QueueId queue, CUevent event);
    bool any_gate() const { return !gates_.empty(); }
    /// Forgets the gates that have been passed.
    void review_gates();
    /// Is `mark` behind a gate (and not known to be done)?
    bool gated(Mark mark) const;
    bool gated(const MarkSet& marks) const;

    /// The program destroys a stream (call before): what was issued stays waitable.
    void end_stream(CUcontext context, CUstream stream);
    /// A thread has ended, and its per-thread default streams with it.
    void end_thread(std::uint64_t thread);
    /// The context is gone, and all of its work with it.
    void end_context(CUcontext context);

    /// While captures are open every piece of work is followed by an event at once: a capturing stream must
    /// not be given ours. Call before the capture begins. Captures that are not over stay open until the
    /// stream, its thread (a per-thread default stream) or its context goes. Streams as in queue().
    void begin_capture(CUcontext context, CUstream stream, std::uint64_t thread = 0);
    void end_capture(CUstream stream, std::uint64_t thread = 0);
    bool capturing() const { return !captures_.empty(); }
    /// Forgets the captures of whose stream `over(stream, thread)` says that they are.
    template <class F>
    void review_captures(F&& over) {
        std::erase_if(captures_, [&](const Capture& c) { return over(c.stream, c.thread); });
    }
    bool captures(CUstream stream, std::uint64_t thread) const;

    std::uint64_t waits() const { return waits_; }
    std::uint64_t records() const { return records_; }
    std::size_t queues() const { return queues_.size(); }
    /// Grows with all that is issued: who waits for progress compares it.
    std::uint64_t all_issued() const { return all_issued_; }

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
        bool blocking = false;     ///< the legacy stream and this one wait for each other
    };
    struct Key {
        CUcontext context;
        CUstream stream;
        std::uint64_t thread;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const {
            return (reinterpret_cast<std::uintptr_t>(key.stream) * 31 + key.thread) * 0x9E3779B97F4A7C15ull ^
                   reinterpret_cast<std::uintptr_t>(key.context);
        }
    };
    struct Capture {
        CUcontext context;
        CUstream stream;
        std::uint64_t thread;
    };
    /// What is on `queue` from number `from` on waits for `until`.
    struct Gate {
        QueueId queue;
        Seq from;
        Mark until;
    };
    bool is_blocking(CUstream stream) const;
    void add_gate(Gate gate);
    void close(QueueId id);
    void destroy_events(Queue& queue);
    bool pinned(CUevent event) const;
    const Entry* event_for(QueueId queue, Seq seq);
    Seq& waited(Queue& queue, QueueId other) {
        if (queue.waited.size() <= other) queue.waited.resize(queues_.size());
        return queue.waited[other];
    }

    const DriverApi& api_;
    std::deque<Queue> queues_{1};  ///< number 0 is nobody's
    std::unordered_map<Key, QueueId, KeyHash> open_;
    std::deque<QueueId> closed_;  ///< the first to end first
    QueueId recent_ = 0;
    std::vector<Capture> captures_;
    std::vector<Gate> gates_;
    std::unordered_map<CUevent, Mark> gated_events_;  ///< of the program, recorded behind a gate
    std::vector<CUevent> pins_, orphans_;             ///< orphans: pinned when their queue was taken over
    std::uint64_t waits_ = 0, records_ = 0, all_issued_ = 0;
};

}  // namespace swapadvisor
