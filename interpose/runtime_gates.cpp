// Work that may wait for the program, and waiting without the lock so that the program can go on meanwhile.
#include "interpose/runtime_state.h"

namespace swapadvisor {

CUresult RuntimeState::pause(CUevent event, std::chrono::microseconds step) {
    std::unique_lock lock(mutex, std::adopt_lock);
    CUresult result = CUDA_SUCCESS;
    if (event != nullptr) {
        lock.unlock();
        result = api.cuEventSynchronize_(event);
        lock.lock();
    } else {
        released.wait_for(lock, step);
    }
    lock.release();  // the caller holds it again
    return result;
}

void RuntimeState::gate(QueueId queue) {
    timeline->gate(queue);
    gates.store(true, std::memory_order_relaxed);
}

// With the lock: use(queue) of the stream in the current context, unless a capture records what is put there.
template <class Use>
void RuntimeState::with_queue(CUstream stream, DefaultStream default_stream, Use use) {
    std::lock_guard lock(mutex);
    if (is_capturing(stream, default_stream)) return;
    CUcontext context = nullptr;
    if (api.cuCtxGetCurrent_(&context) != CUDA_SUCCESS || context == nullptr) return;
    const RelaxedCapture outside = outside_captures();
    use(queue_for(context, stream, default_stream));
}

void Runtime::stream_gated(CUstream stream, DefaultStream default_stream) {
    RuntimeState& state = RuntimeState::of(this);
    state.with_queue(stream, default_stream, [&](QueueId queue) { state.gate(queue); });
}

void Runtime::event_recorded(CUevent event, CUstream stream, DefaultStream default_stream) {
    RuntimeState& state = RuntimeState::of(this);
    if (!state.gates.load(std::memory_order_relaxed)) return;
    state.with_queue(stream, default_stream, [&](QueueId queue) {
        state.timeline->event_recorded(event, queue);
        state.gates.store(state.timeline->any_gate(), std::memory_order_relaxed);
    });
}

void Runtime::event_waited(CUstream stream, DefaultStream default_stream, CUevent event) {
    RuntimeState& state = RuntimeState::of(this);
    if (!state.gates.load(std::memory_order_relaxed)) return;
    state.with_queue(stream, default_stream,
                     [&](QueueId queue) { state.timeline->event_waited(queue, event); });
}

}  // namespace swapadvisor
