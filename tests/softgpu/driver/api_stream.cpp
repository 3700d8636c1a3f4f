// Streams and events.
#include <cstring>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/capture.h"

using namespace softgpu;

namespace {

CUresult create(Call& call, CUstream* out, unsigned flags, int priority) {
    if (!out || (flags & ~unsigned{CU_STREAM_NON_BLOCKING})) return CUDA_ERROR_INVALID_VALUE;
    StreamRef stream = make_stream(call.context(), flags, std::clamp(priority, -5, 0));
    Driver& d = driver();
    d.streams[stream.get()] = stream;
    d.alive[stream.get()] = Kind::stream;
    *out = stream.get();
    return CUDA_SUCCESS;
}

CUresult destroy(CUstream handle) {
    Driver& d = driver();
    const auto it = d.streams.find(handle);
    if (it == d.streams.end()) return CUDA_ERROR_INVALID_HANDLE;
    const StreamRef stream = it->second;
    if (stream->capture) {
        if (stream->capture->origin.lock() == stream) {
            stream->capture->invalidate();
            leave_capture(stream->capture);
        } else {  // a branch: fine as long as it is joined before the end
            for (CUgraphNode_st* leaf : stream->capture_leaves) stream->capture->orphans.push_back(leaf);
            stream->capture = nullptr;
        }
    }
    end_stream(stream);
    d.alive.erase(handle);
    d.streams.erase(it);
    return CUDA_SUCCESS;
}

/// Error for looking at a stream or waiting for it while it captures; such a look spoils the capture.
CUresult refuse_capturing(const StreamRef& stream) {
    if (stream->capture) {
        stream->capture->invalidate();
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return refuse_implicit(stream);
}

bool done(const StreamRef& stream) {
    if (stream->tail && stream->tail->state != Op::State::done) return false;
    if (!stream->legacy) return true;
    for (const StreamRef& other : stream->context->streams)
        if (other->blocking() && other->tail && other->tail->state != Op::State::done) return false;
    return true;
}

/// Querying threads must make progress even when another thread has driven the device ahead.
void catch_up() {
    ThreadState& t = thread_state();
    t.time = std::max(t.time, driver().sim.now());
}

CUresult wait_event(Call& call, const StreamRef& stream, CUevent handle, unsigned flags) {
    const EventRef event = resolve_event(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) return CUDA_ERROR_INVALID_VALUE;
    bool handled = false;
    if (const CUresult r = capture_wait(stream, event, flags, &handled); handled || r != CUDA_SUCCESS)
        return r;
    if (const CUresult r = refuse_implicit(stream); r != CUDA_SUCCESS) return r;
    if (event->shared) {  // recorded by any process: watch the shared state
        OpRef op = new_op(stream, "event wait");
        op->quiet = true;
        op->gate = [shared = event->shared, number = event->shared->state->recorded.load()] {
            return shared->state->reached.load() >= number;
        };
        enqueue(stream, op);
        return CUDA_SUCCESS;
    }
    if (!event->record) return CUDA_SUCCESS;
    OpRef op = new_op(stream, "event wait");
    op->quiet = true;
    enqueue(stream, op, {event->record}, {&event->record->clock});
    bound_queue(call);
    return CUDA_SUCCESS;
}

}  // namespace

// ---- streams ----

SOFTCU cuStreamCreate(CUstream* stream, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return create(call, stream, flags, 0);
}

SOFTCU cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
    SOFTGPU_CALL(kContext);
    return create(call, stream, flags, priority);
}

SOFTCU cuStreamDestroy_v2(CUstream stream) {
    SOFTGPU_CALL(kPlain);
    return destroy(stream);
}

SOFTCU cuStreamSynchronize(CUstream handle) {
    SOFTGPU_CALL(kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult r = refuse_capturing(stream); r != CUDA_SUCCESS) return r;
    if (const CUresult r = refuse_unsafe_call("cuStreamSynchronize"); r != CUDA_SUCCESS) return r;
    if (stream->legacy) {  // and all that it would wait for
        OpRef marker = new_op(stream, "marker");
        marker->quiet = true;
        enqueue(stream, marker);
    }
    return wait_for(call.lock(), stream->context, stream->tail);
}

SOFTCU cuStreamQuery(CUstream handle) {
    SOFTGPU_CALL(kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult r = refuse_capturing(stream); r != CUDA_SUCCESS) return r;
    if (const CUresult r = refuse_unsafe_call("cuStreamQuery"); r != CUDA_SUCCESS) return r;
    catch_up();
    if (stream->context->error != CUDA_SUCCESS) return stream->context->error;
    if (!done(stream)) return CUDA_ERROR_NOT_READY;
    if (stream->tail) host_learns(stream->tail);
    if (stream->legacy)
        for (const StreamRef& other : stream->context->streams)
            if (other->blocking() && other->tail) host_learns(other->tail);
    return CUDA_SUCCESS;
}

SOFTCU cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return wait_event(call, resolve_stream(stream), event, flags);
}

SOFTCU cuStreamGetPriority(CUstream handle, int* priority) {
    SOFTGPU_CALL(kFree | kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!priority) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

SOFTCU cuStreamGetFlags(CUstream handle, unsigned* flags) {
    SOFTGPU_CALL(kFree | kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

SOFTCU cuStreamGetId(CUstream handle, unsigned long long* id) {
    SOFTGPU_CALL(kFree | kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    *id = stream->id;
    return CUDA_SUCCESS;
}

SOFTCU cuStreamGetDevice(CUstream handle, CUdevice* device) {
    SOFTGPU_CALL(kFree | kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = stream->context->device;
    return CUDA_SUCCESS;
}

SOFTCU cuStreamGetCtx(CUstream handle, CUcontext* context) {
    SOFTGPU_CALL(kFree | kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = stream->context;
    return CUDA_SUCCESS;
}

SOFTCU cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
    SOFTGPU_CALL(kFree | kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!context || !green) return CUDA_ERROR_INVALID_VALUE;
    *context = stream->context;
    *green = nullptr;
    return CUDA_SUCCESS;
}

SOFTCU cuStreamCopyAttributes(CUstream to, CUstream from) {
    SOFTGPU_CALL(kContext);
    const StreamRef target = resolve_stream(to), source = resolve_stream(from);
    if (!target || !source) return CUDA_ERROR_INVALID_HANDLE;
    std::memcpy(target->attributes, source->attributes, sizeof target->attributes);
    return CUDA_SUCCESS;
}

SOFTCU cuStreamGetAttribute(CUstream handle, CUstreamAttrID which, CUstreamAttrValue* value) {
    SOFTGPU_CALL(kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!value || static_cast<unsigned>(which) >= std::size(stream->attributes))
        return CUDA_ERROR_INVALID_VALUE;
    *value = stream->attributes[which];
    if (which == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = stream->priority;
    return CUDA_SUCCESS;
}

SOFTCU cuStreamSetAttribute(CUstream handle, CUstreamAttrID which, const CUstreamAttrValue* value) {
    SOFTGPU_CALL(kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!value || static_cast<unsigned>(which) >= std::size(stream->attributes))
        return CUDA_ERROR_INVALID_VALUE;
    stream->attributes[which] = *value;
    if (which == CU_LAUNCH_ATTRIBUTE_PRIORITY) stream->priority = std::clamp(value->priority, -5, 0);
    return CUDA_SUCCESS;
}

SOFTCU cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t, unsigned) {
    SOFTGPU_CALL(kContext);
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    const Span* span = driver().memory.find(address);
    if (!span || span->kind != SpanKind::managed) return CUDA_ERROR_INVALID_VALUE;
    return submit(call, stream, EmptyWork{});
}

SOFTCU cuLaunchHostFunc(CUstream stream, CUhostFn function, void* user) {
    SOFTGPU_CALL(kContext);
    return submit(call, resolve_stream(stream), HostWork{function, nullptr, stream, user});
}

SOFTCU cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* user, unsigned flags) {
    SOFTGPU_CALL(kContext);
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) {
        stream->capture->invalidate();
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return submit(call, stream, HostWork{nullptr, callback, handle, user});
}

// ---- events ----

SOFTCU cuEventCreate(CUevent* event, unsigned flags) {
    SOFTGPU_CALL(kContext);
    constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (!event || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_shared<CUevent_st>();
    made->context = call.context();
    made->flags = flags;
    if (flags & CU_EVENT_INTERPROCESS) made->shared = std::make_shared<SharedEvent>(-1);
    driver().alive[made.get()] = Kind::event;
    driver().events[made.get()] = made;
    *event = made.get();
    return CUDA_SUCCESS;
}

SOFTCU cuEventDestroy_v2(CUevent event) {
    SOFTGPU_CALL(kPlain);
    Driver& d = driver();
    if (!d.events.erase(event)) return CUDA_ERROR_INVALID_HANDLE;
    d.alive.erase(event);
    return CUDA_SUCCESS;
}

SOFTCU cuEventRecord(CUevent handle, CUstream stream) {
    SOFTGPU_CALL(kContext);
    const EventRef event = resolve_event(handle);
    const StreamRef on = resolve_stream(stream);
    if (!event || !on) return CUDA_ERROR_INVALID_HANDLE;
    if (event->context != on->context) return CUDA_ERROR_INVALID_HANDLE;
    return submit(call, on, RecordWork{event});
}

SOFTCU cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags) {
    SOFTGPU_CALL(kContext);
    const EventRef event = resolve_event(handle);
    const StreamRef on = resolve_stream(stream);
    if (!event || !on) return CUDA_ERROR_INVALID_HANDLE;
    if (event->context != on->context) return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) return CUDA_ERROR_INVALID_VALUE;
    if (flags && on->capture) return capture(on, RecordWork{event});
    return submit(call, on, RecordWork{event});
}

SOFTCU cuEventQuery(CUevent handle) {
    SOFTGPU_CALL(kPlain);
    const EventRef event = resolve_event(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (event->captured) return CUDA_ERROR_CAPTURED_EVENT;
    if (const CUresult r = refuse_unsafe_call("cuEventQuery"); r != CUDA_SUCCESS) return r;
    catch_up();
    if (event->context->error != CUDA_SUCCESS) return event->context->error;
    if (event->shared) return event->shared->complete() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    if (!event->record) return CUDA_SUCCESS;
    if (event->record->state != Op::State::done) return CUDA_ERROR_NOT_READY;
    host_learns(event->record);
    return CUDA_SUCCESS;
}

SOFTCU cuEventSynchronize(CUevent handle) {
    SOFTGPU_CALL(kPlain);
    const EventRef event = resolve_event(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (event->captured) return CUDA_ERROR_CAPTURED_EVENT;
    if (const CUresult r = refuse_unsafe_call("cuEventSynchronize"); r != CUDA_SUCCESS) return r;
    if (event->shared) {
        driver().sim.run_until(call.lock(), [&] { return event->shared->complete(); });
        catch_up();
        return event->context->error;
    }
    return wait_for(call.lock(), event->context, event->record);
}

namespace {

CUresult elapsed(float* ms, CUevent from, CUevent to) {
    const EventRef a = resolve_event(from), b = resolve_event(to);
    if (!ms) return CUDA_ERROR_INVALID_VALUE;
    if (!a || !b || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_HANDLE;
    if (a->captured || b->captured) return CUDA_ERROR_CAPTURED_EVENT;
    if (!a->record || !b->record) return CUDA_ERROR_INVALID_HANDLE;
    if (a->context->error != CUDA_SUCCESS) return a->context->error;
    if (a->record->state != Op::State::done || b->record->state != Op::State::done)
        return CUDA_ERROR_NOT_READY;
    const auto ns = static_cast<double>(b->record->end) - static_cast<double>(a->record->end);
    *ms = static_cast<float>(ns / 1e6);
    return CUDA_SUCCESS;
}

}  // namespace

SOFTCU cuEventElapsedTime_v2(float* ms, CUevent from, CUevent to) {
    SOFTGPU_CALL(kPlain);
    return elapsed(ms, from, to);
}

#undef cuEventElapsedTime
SOFTCU cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
    SOFTGPU_CALL(kPlain);
    return elapsed(ms, from, to);
}
