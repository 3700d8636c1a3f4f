// Captures of the program: which are open, and what they name. What a capture names is only mapped when the
// call is recorded, and is kept from being freed until the graph that comes of it has been made executable.
#include <algorithm>

#include "interpose/runtime_state.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kUnmade = 64;  // captured graphs that may still be made executable

/// How the timeline names a stream that may be captured; the legacy stream may not.
CUstream captured_stream(CUstream stream, DefaultStream default_stream) {
    return stream == nullptr && default_stream == DefaultStream::per_thread ? CU_STREAM_PER_THREAD : stream;
}
std::uint64_t thread_of(CUstream stream) {
    return stream == CU_STREAM_PER_THREAD ? thread_number() : 0;
}

}  // namespace

cuuint64_t RuntimeState::capture_id(CUstream stream, DefaultStream default_stream) const {
    stream = captured_stream(stream, default_stream);
    // The legacy stream cannot be captured, and asking about it may break a capture.
    if (stream == nullptr || stream == CU_STREAM_LEGACY) return 0;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    if (api.cuStreamGetCaptureInfo_ != nullptr &&
        api.cuStreamGetCaptureInfo_(stream, &status, &id, nullptr, nullptr, nullptr, nullptr) == CUDA_SUCCESS)
        return status == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : std::max<cuuint64_t>(id, 1);
    return api.cuStreamIsCapturing_(stream, &status) == CUDA_SUCCESS &&
                   status != CU_STREAM_CAPTURE_STATUS_NONE
               ? 1
               : 0;
}

void RuntimeState::name_in_capture(cuuint64_t capture, const PendingOp& op) {
    auto names = std::find_if(captured.begin(), captured.end(), [&](const CapturedNames& c) {
        return c.graph == nullptr && c.capture == capture;
    });
    if (names == captured.end()) names = captured.insert(captured.end(), {capture, nullptr, {}});
    for (const BufferUse& use : op.uses) {
        if (std::find(names->buffers.begin(), names->buffers.end(), use.buffer) != names->buffers.end())
            continue;
        names->buffers.push_back(use.buffer);
        ++use.buffer->captures;
    }
}

void RuntimeState::drop_capture(cuuint64_t capture) {
    std::erase_if(captured, [&](const CapturedNames& c) {
        if (c.graph != nullptr || c.capture != capture) return false;
        for (Buffer* buffer : c.buffers) --buffer->captures;
        return true;
    });
    finish_deferred_frees();
}

void RuntimeState::forget_captured_graph(CUgraph graph) {
    std::erase_if(captured, [&](const CapturedNames& c) {
        if (c.graph != graph) return false;
        for (Buffer* buffer : c.buffers) --buffer->captures;
        return true;
    });
}

void RuntimeState::forget_captures_of(const Residency& residency) {
    for (CapturedNames& c : captured)
        std::erase_if(c.buffers, [&](const Buffer* buffer) { return buffer->owner == &residency; });
}

// Memory is short: graphs that were captured and have not been made executable keep nothing, and captures that
// are over although no call said so are forgotten.
void RuntimeState::review_captures() {
    const RelaxedCapture outside = outside_captures();
    bool any_open = false;
    timeline->review_captures([&](CUstream stream, std::uint64_t thread) {
        // Another thread's default stream cannot be asked about.
        const bool over = (stream != CU_STREAM_PER_THREAD || thread == thread_number()) &&
                          capture_id(stream, DefaultStream::legacy) == 0;
        any_open |= !over;
        return over;
    });
    std::erase_if(captured, [&](const CapturedNames& c) {
        if (c.graph == nullptr && any_open) return false;
        for (Buffer* buffer : c.buffers) --buffer->captures;
        return true;
    });
}

void Runtime::capture_begins(CUstream stream, DefaultStream default_stream) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    CUcontext context = nullptr;
    state.api.cuCtxGetCurrent_(&context);
    stream = captured_stream(stream, default_stream);
    const RelaxedCapture outside = state.outside_captures();
    state.timeline->begin_capture(context, stream, thread_of(stream));
}

void Runtime::capture_refused(CUstream stream, DefaultStream default_stream) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    stream = captured_stream(stream, default_stream);
    state.timeline->end_capture(stream, thread_of(stream));
}

cuuint64_t Runtime::capture_of(CUstream stream, DefaultStream default_stream) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    return state.timeline->capturing() ? state.capture_id(stream, default_stream) : 0;
}

void Runtime::capture_ended(CUstream stream, DefaultStream default_stream, cuuint64_t capture,
                            CUgraph graph) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    // Of another thread, or not where it began: it goes on.
    if (capture == 0 || state.capture_id(stream, default_stream) == capture) return;
    stream = captured_stream(stream, default_stream);
    state.timeline->end_capture(stream, thread_of(stream));
    if (graph == nullptr) return state.drop_capture(capture);
    state.forget_captured_graph(graph);  // an earlier one at the same address
    for (RuntimeState::CapturedNames& names : state.captured)
        if (names.graph == nullptr && names.capture == capture) names.graph = graph;
    if (state.captured.size() <= kUnmade) return;
    const auto oldest = std::find_if(state.captured.begin(), state.captured.end(),
                                     [](const auto& names) { return names.graph != nullptr; });
    if (oldest != state.captured.end()) state.forget_captured_graph(oldest->graph);
    state.finish_deferred_frees();
}

}  // namespace swapadvisor
