#include "tests/softgpu/driver/core.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/capture.h"
#include "tests/softgpu/driver/kernel_memory.h"
#include "tests/softgpu/driver/race.h"
#include "tests/softgpu/driver/stats.h"

CUctx_st::CUctx_st() = default;
CUctx_st::~CUctx_st() = default;

namespace softgpu {
namespace {

std::atomic<bool> g_forked{false};

void write_stats_at_exit() {
    if (forked()) return;
    Driver& d = driver();
    // The program may be exiting from within a call: don't wait for a lock that is never released.
    Lock lock(d.mutex, std::try_to_lock);
    d.stats->write();
}

void on_fatal_signal(int number) {
    static std::atomic<bool> written{
        false};  // a second thread or signal must not write them again, and again
    signal(number, SIG_DFL);
    if (!forked() && !written.exchange(true))
        driver().stats->write();  // best effort; the default action follows
    raise(number);
}

}  // namespace

Driver::Driver() : races(std::make_unique<RaceCheck>()), stats(std::make_unique<Stats>()) {
    sim.on_complete = [this](const Op& op) {
        if (options().timeline.empty() || op.quiet) return;
        stats->timeline.push_back({op.name, op.device, op.slot, op.engine, op.start, op.end, op.bytes});
    };
    started = std::time(nullptr);
    pthread_atfork(nullptr, nullptr, [] { g_forked = true; });
    std::atexit(write_stats_at_exit);
    if (!options().stats.empty() || !options().timeline.empty()) {
        for (const int number : {SIGTERM, SIGABRT, SIGINT}) {
            struct sigaction old {};
            if (sigaction(number, nullptr, &old) != 0 || old.sa_handler != SIG_DFL) continue;
            struct sigaction action {};
            action.sa_handler = on_fatal_signal;
            action.sa_flags = static_cast<int>(SA_RESETHAND);
            sigaction(number, &action, nullptr);
        }
    }
}

// Virtual time moves with driver calls. A program that only polls memory which the device is to write would
// wait for ever, so when no call has come for a long while, whatever is queued runs.
void Driver::watch_idleness() {
    const Time patience = options().idle;
    if (patience == 0) return;
    std::thread([this, patience] {
        std::uint64_t seen = 0;
        Time quiet = 0;
        for (constexpr Time kStep = 100'000'000;;) {
            std::this_thread::sleep_for(std::chrono::nanoseconds(kStep));
            Lock lock(mutex);
            quiet = seen == call_count ? quiet + kStep : 0;
            seen = call_count;
            if (quiet >= patience) sim.drain(lock);
        }
    }).detach();
}

Driver& driver() {
    static Driver* const the_driver = new Driver;
    return *the_driver;
}

ThreadState& thread_state() {
    static thread_local ThreadState state;
    return state;
}

bool& in_host_function() {
    static thread_local bool inside = false;
    return inside;
}

bool forked() {
    return g_forked;
}

void say(const char* format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "softgpu: %s\n", text);
}

void report_strictness(const char* format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "softgpu: strict: %s\n", text);
    Stats& stats = *driver().stats;
    ++stats.strictness_errors;
    if (stats.findings.size() < 100) stats.findings.push_back(text);
}

unsigned Driver::take_slot() {
    // Slots are used again with their sequence numbers running on: a clock of an earlier owner then claims to
    // know only earlier numbers, so nothing is taken for ordered that is not.
    if (!free_slots.empty()) {
        const unsigned slot = free_slots.back();
        free_slots.pop_back();
        return slot;
    }
    slot_sequence.push_back(0);
    return static_cast<unsigned>(slot_sequence.size() - 1);
}

// ---- contexts ----

CUctx_st* current_context() {
    const auto& stack = thread_state().contexts;
    return stack.empty() ? nullptr : stack.back();
}

StreamRef make_stream(CUctx_st* context, unsigned flags, int priority) {
    Driver& d = driver();
    auto stream = std::make_shared<CUstream_st>();
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = ++d.next_object_id;
    stream->slot = d.take_slot();
    context->streams.push_back(stream);
    return stream;
}

CUctx_st* make_context(int device, unsigned flags, bool primary) {
    Driver& d = driver();
    auto* context = new CUctx_st;
    context->device = device;
    context->flags = flags;
    context->primary = primary;
    context->id = ++d.next_object_id;
    context->limits = {{CU_LIMIT_STACK_SIZE, 1024},
                       {CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20},
                       {CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20},
                       {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2},
                       {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
                       {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
                       {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}};
    context->legacy = make_stream(context, 0, 0);
    context->legacy->legacy = true;
    context->kernel_memory = std::make_unique<KernelMemory>(context);
    d.alive[context] = Kind::context;
    return context;
}

void fail_context(CUctx_st* context, CUresult error) {
    if (context->error == CUDA_SUCCESS) context->error = error;
}

// ---- streams ----

void end_stream(const StreamRef& stream) {
    CUctx_st* context = stream->context;
    std::erase(context->streams, stream);
    const bool busy = stream->tail && stream->tail->state != Op::State::done;
    if (busy && stream->blocking()) {
        OpRef marker = new_op(context->legacy, "marker");
        marker->quiet = true;
        enqueue(context->legacy, marker, {stream->tail}, {&stream->tail->clock});
    }
    if (busy)
        context->detached.push_back(stream);
    else
        driver().release_slot(stream->slot);
}

ThreadState::~ThreadState() {
    if (default_streams.empty() || forked()) return;
    const Lock lock(driver().mutex);
    for (const auto& [context, stream] : default_streams)
        if (driver().kind(context) == Kind::context && context->alive) end_stream(stream);
}

StreamRef resolve_stream(CUstream handle) {
    Driver& d = driver();
    ThreadState& t = thread_state();
    CUctx_st* context = current_context();
    const bool per_thread = handle == CU_STREAM_PER_THREAD || (!handle && t.per_thread_default);
    if (per_thread) {
        if (!context) return nullptr;
        StreamRef& own = t.default_streams[context];
        if (!own) {
            own = make_stream(context, 0, 0);
            own->per_thread = true;
        }
        return own;
    }
    if (!handle || handle == CU_STREAM_LEGACY) return context ? context->legacy : nullptr;
    const auto it = d.streams.find(handle);
    return it == d.streams.end() ? nullptr : it->second;
}

EventRef resolve_event(CUevent handle) {
    Driver& d = driver();
    const auto it = d.events.find(handle);
    return it == d.events.end() ? nullptr : it->second;
}

OpRef new_op(const StreamRef& stream, const char* name, Engine engine) {
    auto op = std::make_shared<Op>();
    op->name = std::make_shared<const std::string>(name);
    op->stream = stream;
    op->context = stream->context;
    op->device = stream->context->device;
    op->engine = engine;
    op->slot = stream->slot;
    return op;
}

void enqueue(const StreamRef& stream, const OpRef& op, std::vector<OpRef> after,
             const std::vector<const VectorClock*>& also_knows) {
    if (stream->tail) after.push_back(stream->tail);
    if (stream->tail) join(op->clock, stream->tail->clock);
    if (stream->legacy) {
        for (const StreamRef& other : stream->context->streams) {
            if (other == stream || !other->blocking()) continue;
            if (other->tail) after.push_back(other->tail);
            if (other->tail) join(op->clock, other->tail->clock);
        }
    } else if (stream->blocking()) {
        if (stream->context->legacy->tail) after.push_back(stream->context->legacy->tail);
        if (stream->context->legacy->tail) join(op->clock, stream->context->legacy->tail->clock);
    }
    place(op, after, also_knows);
    stream->tail = op;
}

void place(const OpRef& op, const std::vector<OpRef>& after,
           const std::vector<const VectorClock*>& also_knows) {
    Driver& d = driver();
    for (const VectorClock* clock : also_knows) join(op->clock, *clock);
    join(op->clock, d.host_knows);
    op->id = ++d.next_op;
    op->sequence = ++d.slot_sequence[op->slot];
    if (op->clock.size() <= op->slot) op->clock.resize(op->slot + 1);
    op->clock[op->slot] = op->sequence;
    op->enqueued = thread_state().time;
    d.sim.enqueue(op, after);
}

void host_learns(const OpRef& op) {
    join(driver().host_knows, op->clock);
}

CUresult wait_for(Lock& lock, CUctx_st* context, const OpRef& op) {
    Driver& d = driver();
    if (op) {
        d.sim.run_until(lock, [&] { return op->state == Op::State::done; });
        thread_state().time = std::max(thread_state().time, op->end);
        host_learns(op);
    }
    return context ? context->error : CUDA_SUCCESS;
}

CUresult wait_for_context(Lock& lock, CUctx_st* context) {
    // A copy: other threads may add streams while we wait.
    const auto streams = context->streams;
    for (const StreamRef& stream : streams) {
        const OpRef tail = stream->tail;
        if (tail) wait_for(lock, context, tail);
    }
    const auto detached = std::move(context->detached);
    context->detached.clear();
    for (const StreamRef& stream : detached) {
        wait_for(lock, context, stream->tail);
        driver().release_slot(stream->slot);
    }
    return context->error;
}

void destroy_context(CUctx_st* context) {
    Driver& d = driver();
    context->alive = false;
    d.alive.erase(context);
    std::vector<Span*> doomed;
    for (auto& [begin, span] : d.memory.spans())
        if (span.context == context && span.kind != SpanKind::mapped) doomed.push_back(&span);
    for (Span* span : doomed) {
        if (span->kind == SpanKind::registered)
            d.memory.remove(*span);
        else
            d.memory.free(*span);
    }
    for (auto it = d.streams.begin(); it != d.streams.end();) {
        if (it->first->context != context) {
            ++it;
            continue;
        }
        d.alive.erase(it->first);
        it = d.streams.erase(it);
    }
    for (const StreamRef& stream : context->streams) d.release_slot(stream->slot);
    context->streams.clear();
    for (auto it = d.events.begin(); it != d.events.end();) {
        if (it->first->context != context) {
            ++it;
            continue;
        }
        d.alive.erase(it->first);
        it = d.events.erase(it);
    }
    auto& stack = thread_state().contexts;
    std::erase(stack, context);
    // The struct stays: queued operations and other threads' stacks may still point at it.
}

// ---- use of memory ----

void note_span_use(const Op& op, Span& span, bool write) {
    for (Use& use : span.uses) {
        if (use.slot != op.slot) continue;
        use.sequence = std::max(use.sequence, op.sequence);
        use.write |= write;
        use.name = op.name;
        return;
    }
    // Uses that the host knows to be over are of no more interest.
    std::erase_if(span.uses, [](const Use& u) { return knows(driver().host_knows, u.slot, u.sequence); });
    span.uses.push_back({op.slot, op.sequence, write, op.name});
}

void note_use(const Op& op, std::uint64_t address, std::uint64_t bytes, bool write) {
    Driver& d = driver();
    d.memory.cover(address, bytes, [&](Span& span, std::uint64_t first, std::uint64_t last) {
        note_span_use(op, span, write);
        if (options().racecheck) d.races->access(op, span, first, last, write);
    });
}

const Use* use_in_flight(const Span& span) {
    for (const Use& use : span.uses)
        if (!knows(driver().host_knows, use.slot, use.sequence)) return &use;
    return nullptr;
}

// ---- entry points ----

Call::Call(const char* name, unsigned flags) : name_(name) {
    if (forked()) {  // the locks and threads of the parent are of no use here
        error_ = CUDA_ERROR_NOT_INITIALIZED;
        return;
    }
    Driver& d = driver();
    lock_ = Lock(d.mutex);
    ThreadState& t = thread_state();
    if (!t.started) {
        t.started = true;
        t.time = d.sim.now();
    }
    const Options& o = options();
    if (!(flags & kFree)) t.time += o.call;
    if (flags & kMapCost) t.time += o.map_call;
    if (flags & kCreateCost) t.time += o.create_call;
    ++d.call_count;
    const std::uint64_t count = ++d.stats->calls[name];
    for (const CallFault& fault : o.call_faults) {
        if (fault.entry != name && fault.entry != std::string(name).substr(0, std::string(name).rfind("_v")))
            continue;
        if (fault.nth != count && !(fault.from_then_on && count > fault.nth)) continue;
        ++d.stats->faults_injected;
        error_ = fault.error;
        return;
    }
    if (!(flags & kNoInit) && !d.initialised) {
        error_ = CUDA_ERROR_NOT_INITIALIZED;
        return;
    }
    if (in_host_function() && !(flags & kNoInit)) {
        error_ = CUDA_ERROR_NOT_PERMITTED;
        return;
    }
    if (d.initialised) d.sim.advance(lock_, t.time);
    if (flags & kUnsafe) {
        error_ = refuse_unsafe_call(name);
        if (error_ != CUDA_SUCCESS) return;
    }
    if (flags & kNeedsContext) {
        context_ = current_context();
        if (!context_)
            error_ = CUDA_ERROR_INVALID_CONTEXT;
        else if (!context_->alive)
            error_ = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        else if (!(flags & kIgnoresError))
            error_ = context_->error;
    }
}

Call::~Call() {
    if (!lock_.owns_lock()) return;
    auto functions = std::move(driver().deferred);
    driver().deferred.clear();
    lock_.unlock();
    for (const auto& f : functions) f();
}

}  // namespace softgpu
