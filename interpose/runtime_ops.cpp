// Ops: what each touches, made resident before the real call, noted after it.
#include <algorithm>
#include <array>

#include "interpose/log.h"
#include "interpose/runtime_graphs.h"
#include "interpose/runtime_plan.h"
#include "interpose/runtime_state.h"

namespace swapadvisor {
namespace {
// Copies and memsets are told apart by their size, where a kernel has its grid and block.
std::array<unsigned, 6> size_as_geometry(std::uint64_t bytes) {
    return {static_cast<unsigned>(bytes), static_cast<unsigned>(bytes >> 32)};
}
}  // namespace

QueueId RuntimeState::queue_for(CUcontext context, CUstream stream, DefaultStream default_stream) {
    if (stream == nullptr)
        stream = default_stream == DefaultStream::per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (any_ended.load(std::memory_order_relaxed)) [[unlikely]]
        close_ended_threads();
    return timeline->queue(context, stream, stream == CU_STREAM_PER_THREAD ? thread_with_stream() : 0);
}

// The driver checks addresses when it records a node, so there has to be a mapping; the contents come at each
// launch.
CUresult RuntimeState::map_for_capture(PendingOp& op) {
    add_pages(op.uses);
    const RelaxedCapture outside = outside_captures();
    for (std::size_t i = 0; i < contexts.size(); ++i) {
        ManagedContext* const m = contexts[i].get();  // the list may change while it waits
        std::vector<BufferUse> own;
        for (const BufferUse& use : op.uses)
            if (use.buffer->owner == m->residency.get()) own.push_back(use);
        if (own.empty()) continue;
        op.home = m;
        if (const CUresult result = m->residency->map_only(own.data(), own.size()); result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

std::optional<CUresult> Runtime::map_for_node(const CopySpan& destination, const CopySpan& source) {
    RuntimeState& state = RuntimeState::of(this);
    PendingOp* const op = state.open(false);
    if (op == nullptr) return std::nullopt;
    for (const CopySpan* span : {&destination, &source}) {
        Buffer* const buffer = span->address != 0 ? state.find(span->address) : nullptr;
        if (buffer != nullptr) state.add_use(*op, buffer, Access::read_write);
    }
    if (const CUresult result = state.map_for_capture(*op); result != CUDA_SUCCESS)
        return state.fail(*op, result, "a graph's node").fail;
    op->busy = false;
    state.mutex.unlock();
    return std::nullopt;
}

void RuntimeState::add_use(PendingOp& op, Buffer* buffer, Access access, bool overwrites) {
    for (BufferUse& use : op.uses)
        if (use.buffer == buffer) {
            use.access = static_cast<Access>(static_cast<int>(use.access) | static_cast<int>(access));
            use.overwrites = false;
            return;
        }
    op.uses.push_back({buffer, access, overwrites});
}

void RuntimeState::add_kernel_uses(PendingOp& op, const FunctionInfo& info, void** params, void** extra) {
    const bool all =
        named_by(info, params, extra, [&](Buffer* buffer) { add_use(op, buffer, Access::read_write); });
    if (all) return;
    add_pages(op.uses);
    const bool known = params == nullptr || info.layout_known;
    add_whatever_fits(op, info,
                      known ? "an argument points into our addresses, but to no memory that there is"
                            : "the driver does not tell its parameters");
}

// It may use anything. What fits is made resident; what does not is out of reach (unmapped), so that a use of
// it is an error of the kernel and never another buffer's bytes.
void RuntimeState::add_whatever_fits(PendingOp& op, const FunctionInfo& info, const char* why) {
    const RelaxedCapture outside = outside_captures();
    bool complete = true;
    for (auto& m : contexts) {
        if (!m->residency) continue;
        std::vector<Buffer*> more;
        const bool fits = m->residency->whatever_fits(op.uses.data(), op.uses.size(), more);
        if (!fits && m->residency->leave_plan("a kernel may use anything") != CUDA_SUCCESS) more.clear();
        for (Buffer* buffer : more) add_use(op, buffer, Access::read_write);
        complete = complete && fits;
    }
    if (first_time(info.id))
        say("kernel %s: %s; all memory %sis made resident for it%s", info.name.c_str(), why,
            complete ? "" : "that fits the limit ",
            complete ? "" : ", and using any other will be an illegal address");
    count("kernel that may use any memory");
}

OpToken RuntimeState::fail(PendingOp& op, CUresult result, const char* what) {
    if (op.home != nullptr) {
        const std::string& why = op.home->residency->why();
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            const std::string line =
                std::string(what) + (why.empty() ? " could not get the device memory it uses" : " " + why);
            say("out of memory: %s", line.c_str());
            if (notes.size() < 100) notes.push_back(line);
        }
    }
    op.busy = false;
    mutex.unlock();
    OpToken token;
    token.fail = result;
    return token;
}

// Is anything that the op uses away, or on its way in or out? (What it waits for on account of the program's
// own streams is not our doing.)
bool RuntimeState::waits_for_copies(const PendingOp& op) const {
    for (const BufferUse& use : op.uses) {
        const Buffer& b = *use.buffer;
        if (!b.backed || b.place == Place::absent) return true;
        bool waits = use.access != Access::read && timeline->would_wait(op.queue, b.saved);
        b.ready.for_each([&](Mark mark) {
            const bool copy = mark.queue == b.owner->in_queue() || mark.queue == b.owner->out_queue();
            waits = waits || (copy && timeline->would_wait(op.queue, mark));
        });
        if (waits) return true;
    }
    return false;
}

// Entered with the lock held and left with it, except when the op fails, touches nothing, or is synchronous.
OpToken RuntimeState::begin(PendingOp& op, OpKind kind, std::uint64_t function, const unsigned* geometry,
                            CUstream stream, DefaultStream default_stream, const char* what) {
    op.home = nullptr;
    if (op.uses.empty()) {
        unknown_to_timeline = unknown_to_timeline || (op.host_sees && !op.synchronous);
        if (kind == OpKind::kernel) {
            const RelaxedCapture outside = outside_captures();
            for (auto& m : contexts)
                if (m->director) m->director->steering().before_unnamed(function);
        }
        op.busy = false;
        mutex.unlock();
        return {};
    }
    if (timeline->capturing()) {
        if (const cuuint64_t capture = capture_id(stream, default_stream); capture != 0) {
            (void)map_for_capture(
                op);  // where that fails the driver refuses the call, and spoils the capture
            name_in_capture(capture, op);
            // With the lock held, for what is mapped has to stay so until the driver has seen it.
            op.captured = true;
            OpToken token;
            token.state = &op;
            return token;
        }
    }
    add_pages(op.uses);
    Residency* owner = op.uses.front().buffer->owner;
    bool single = true;
    for (const BufferUse& use : op.uses) single = single && use.buffer->owner == owner;
    for (auto& m : contexts)
        if (m->residency.get() == owner) op.home = m.get();
    CUcontext context = nullptr;
    if (CUresult result = api.cuCtxGetCurrent_(&context); result != CUDA_SUCCESS)
        return fail(op, result, what);
    op.queue = queue_for(context, stream, default_stream);

    bool uses_biggest = false;
    for (const BufferUse& use : op.uses) uses_biggest |= use.buffer->id == op.home->habits.biggest();
    op.home->habits.operation(uses_biggest);

    OpView view;
    view.kind = kind;
    view.function = function;
    std::copy_n(geometry, 6, view.geometry.begin());
    view.stream = timeline->stream(op.queue);
    op.touches.clear();
    for (const BufferUse& use : op.uses)
        if (use.buffer->owner == owner) op.touches.push_back({use.buffer->id, use.access});
    view.touches = op.touches.data();
    view.touch_count = static_cast<std::uint32_t>(op.touches.size());
    if (logging(LogTopic::ops)) [[unlikely]] {
        std::string line;
        for (const BufferUse& use : op.uses)
            line += (use.buffer->small ? " s" : " b") + std::to_string(use.buffer->id) + ":" +
                    std::to_string(use.buffer->bytes);
        say("op %llu %s [%u %u %u %u %u %u] stream %p%s",
            static_cast<unsigned long long>(op.home->director->next_seq()), what, geometry[0], geometry[1],
            geometry[2], geometry[3], geometry[4], geometry[5], static_cast<void*>(view.stream),
            line.c_str());
    }
    const RelaxedCapture outside = outside_captures();
    op.home->director->before_op(view, op.uses);
    for (BufferUse& use : op.uses) use.overwrites = use.overwrites && use.buffer->place == Place::absent;

    if (op.graph != nullptr)
        if (CUresult ordered = timeline->order(op.queue, op.graph->last); ordered != CUDA_SUCCESS)
            return fail(op, ordered, what);
    // What its stream waits for from here on is a stall.
    OpTimer& timer = op.home->director->timer();
    ContentSampler* const sampler = op.home->director->sampler();
    // One that is looked at waits for that, too.
    if (sampler == nullptr && waits_for_copies(op)) timer.arrive(timeline->stream(op.queue));
    CUresult result;
    if (single) {
        result = owner->begin(op.uses.data(), op.uses.size(), op.queue, context);
    } else {
        result = CUDA_SUCCESS;
        for (std::size_t i = 0; i < contexts.size() && result == CUDA_SUCCESS; ++i) {
            ManagedContext* const m = contexts[i].get();  // the list may change while it waits
            std::vector<BufferUse> own;
            for (const BufferUse& use : op.uses)
                if (use.buffer->owner == m->residency.get()) own.push_back(use);
            if (own.empty()) continue;
            result = m->residency->begin(own.data(), own.size(), op.queue, context);
            if (result != CUDA_SUCCESS) op.home = m;
        }
    }
    if (result != CUDA_SUCCESS) {
        timer.cancel(timeline->stream(op.queue), {});
        if (sampler != nullptr) sampler->cancel();
        return fail(op, result, what);
    }
    if (sampler != nullptr) sampler->before(timeline->stream(op.queue));
    op.seq = op.home->recorder->op(view);
    op.timed = timer.begin(timeline->stream(op.queue));
    OpToken token;
    token.state = &op;
    // A full queue behind a gate takes no more work until the program opens it: perhaps from another thread.
    op.unlocked = op.synchronous || (timeline->any_gate() && timeline->gated(timeline->last(op.queue)));
    if (op.unlocked) {
        for (const BufferUse& use : op.uses) ++use.buffer->holds;
        mutex.unlock();
    }
    return token;
}

void RuntimeState::end(PendingOp& op, CUresult result) {
    if (op.captured) {
        op.busy = op.captured = false;
        return;
    }
    if (op.unlocked) {
        mutex.lock();
        for (const BufferUse& use : op.uses) --use.buffer->holds;
        released.notify_all();
    }
    const RelaxedCapture outside = outside_captures();
    const Mark mark = timeline->issued(op.queue);
    if (op.timed) {
        OpTimer& timer = op.home->director->timer();
        if (result == CUDA_SUCCESS)
            timer.end(timeline->stream(op.queue), op.seq, op.timed);
        else
            timer.cancel(timeline->stream(op.queue), op.timed);
    }
    if (ContentSampler* const sampler = op.home->director->sampler(); sampler != nullptr) {
        if (result == CUDA_SUCCESS)
            sampler->after(op.seq, timeline->stream(op.queue));
        else
            sampler->cancel();
    }
    if (op.graph != nullptr) {
        op.graph->last = mark;
        if (op.graph->gated) gate(op.queue);
    }
    for (const BufferUse& use : op.uses) {
        use.buffer->uses.add(mark);
        // The old contents were left on the host because this op was to replace them all.
        if (use.overwrites && result != CUDA_SUCCESS) use.buffer->owner->copy_in(*use.buffer);
    }
    if (op.host_sees && !op.synchronous && result == CUDA_SUCCESS) seen_by_host.add(mark);
    op.home->residency->issued(mark);
    op.home->director->after_op(mark);
    if (op.unlocked && !deferred_frees.empty()) finish_deferred_frees();
    op.busy = op.unlocked = false;
}

void Runtime::end_op(OpToken& token, CUresult result) {
    if (token.state == nullptr) return;
    RuntimeState& state = RuntimeState::of(this);
    state.end(*static_cast<PendingOp*>(token.state), result);
    state.mutex.unlock();
}

// Takes the lock. Null, without it: nothing is managed, or this is a call that a driver makes inside an op.
PendingOp* RuntimeState::open(bool synchronous) {
    if (live.load(std::memory_order_relaxed) == 0) return nullptr;
    PendingOp& op = thread_op();
    if (op.busy) return nullptr;
    mutex.lock();
    op.busy = true;
    op.captured = op.host_sees = false;
    op.home = nullptr;
    op.synchronous = synchronous;
    op.graph = nullptr;
    op.uses.clear();
    return &op;
}

OpToken Runtime::begin_kernel(const KernelLaunch& launch, DefaultStream default_stream) {
    RuntimeState& state = RuntimeState::of(this);
    PendingOp* const opened = state.open(false);
    if (opened == nullptr) return {};
    PendingOp& op = *opened;
    FunctionInfo& info = state.functions->info(launch.function);
    static thread_local std::vector<RuntimeState::Part> given;
    bool host_sees = false;
    if (state.given_host_memory(info, launch.params, launch.extra, given, host_sees)) [[unlikely]] {
        op.busy = false;
        state.mutex.unlock();
        state.look_at_host_memory(given);
        if (state.open(false) == nullptr) return {};
    }
    op.host_sees = host_sees;
    state.bring_named_back();
    state.add_kernel_uses(op, info, launch.params, launch.extra);
    if (!op.uses.empty() && !info.told) state.tell_name(op.uses.front().buffer->owner, info);
    const unsigned geometry[6] = {launch.grid[0],  launch.grid[1],  launch.grid[2],
                                  launch.block[0], launch.block[1], launch.block[2]};
    return state.begin(op, OpKind::kernel, info.id, geometry, launch.stream, default_stream,
                       info.name.c_str());
}

void RuntimeState::tell_name(Residency* owner, FunctionInfo& info) {
    for (auto& m : contexts)
        if (m->residency.get() == owner) m->recorder->name_function(info.id, info.name);
    info.told = contexts.size() == 1;
}

OpToken Runtime::begin_copy(const CopySpan& destination, const CopySpan& source, CUstream stream,
                            DefaultStream default_stream, bool synchronous) {
    RuntimeState& state = RuntimeState::of(this);
    if (const CUresult result = state.look_through_payload(destination, source); result != CUDA_SUCCESS)
        return {result, nullptr};
    PendingOp* const opened = state.open(synchronous);
    if (opened == nullptr) return {};
    PendingOp& op = *opened;
    if (state.out_of_bounds(destination.address, destination.bytes) ||
        state.out_of_bounds(source.address, source.bytes))
        return state.fail(op, CUDA_ERROR_INVALID_VALUE, "a copy");
    Buffer* to = destination.address != 0 ? state.find(destination.address) : nullptr;
    Buffer* from = source.address != 0 ? state.find(source.address) : nullptr;
    if (to != nullptr && destination.bytes != 0) {
        const bool whole = destination.address == to->address && destination.bytes >= to->bytes &&
                           !destination.pitched && from != to;
        state.add_use(op, to, Access::write, whole);
    }
    if (from != nullptr && source.bytes != 0) state.add_use(op, from, Access::read);
    op.host_sees = to == nullptr;
    const OpKind kind = to == nullptr         ? OpKind::memcpy_d2h
                        : source.address != 0 ? OpKind::memcpy_d2d
                                              : OpKind::memcpy_h2d;
    const std::uint64_t bytes = std::max(destination.bytes, source.bytes);
    return state.begin(op, kind, 0, size_as_geometry(bytes).data(), stream, default_stream, "a copy");
}

OpToken Runtime::begin_memset(const CopySpan& destination, std::uint32_t value, unsigned element_bytes,
                              CUstream stream, DefaultStream default_stream, bool synchronous) {
    RuntimeState& state = RuntimeState::of(this);
    const CUdeviceptr address = destination.address;
    const std::size_t bytes = destination.bytes;
    if (const CUresult result = state.filled_with(address, destination.row_bytes, value, element_bytes);
        result != CUDA_SUCCESS)
        return {result, nullptr};
    PendingOp* const opened = state.open(synchronous);
    if (opened == nullptr) return {};
    PendingOp& op = *opened;
    if (state.out_of_bounds(address, bytes)) return state.fail(op, CUDA_ERROR_INVALID_VALUE, "a memset");
    Buffer* const buffer = state.find(address);
    if (buffer != nullptr && bytes != 0) state.add_use(op, buffer, Access::write);
    op.host_sees = buffer == nullptr;
    return state.begin(op, OpKind::memset, 0, size_as_geometry(bytes).data(), stream, default_stream,
                       "a memset");
}

}  // namespace swapadvisor
