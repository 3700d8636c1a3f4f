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

void Runtime::stream_gated(CUstream stream, DefaultStream default_stream) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    if (state.is_capturing(stream, default_stream)) return;
    CUcontext context = nullptr;
    if (state.api.cuCtxGetCurrent_(&context) != CUDA_SUCCESS || context == nullptr) return;
    const RelaxedCapture outside = state.outside_captures();
    state.timeline->gate(state.queue_for(context, stream, default_stream));
    state.gates.store(true, std::memory_order_relaxed);
}

void Runtime::event_recorded(CUevent event, CUstream stream, DefaultStream default_stream) {
    RuntimeState& state = RuntimeState::of(this);
    if (!state.gates.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(state.mutex);
    if (state.is_capturing(stream, default_stream)) return;
    CUcontext context = nullptr;
    if (state.api.cuCtxGetCurrent_(&context) != CUDA_SUCCESS || context == nullptr) return;
    const RelaxedCapture outside = state.outside_captures();
    state.timeline->event_recorded(event, state.queue_for(context, stream, default_stream));
    state.gates.store(state.timeline->any_gate(), std::memory_order_relaxed);
}

void Runtime::event_waited(CUstream stream, DefaultStream default_stream, CUevent event) {
    RuntimeState& state = RuntimeState::of(this);
    if (!state.gates.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(state.mutex);
    if (state.is_capturing(stream, default_stream)) return;
    CUcontext context = nullptr;
    if (state.api.cuCtxGetCurrent_(&context) != CUDA_SUCCESS || context == nullptr) return;
    const RelaxedCapture outside = state.outside_captures();
    state.timeline->event_waited(state.queue_for(context, stream, default_stream), event);
}

}  // namespace swapadvisor
