#include "tests/softgpu/driver/capture.h"

#include <algorithm>

#include "tests/softgpu/driver/api.h"

namespace softgpu {
namespace {

bool open(const std::weak_ptr<CaptureSession>& weak) {
    return !weak.expired();
}

}  // namespace

CUresult refuse_unsafe_call(const char*) {
    Driver& d = driver();
    std::erase_if(d.captures, [](const auto& c) { return !open(c); });
    if (d.captures.empty()) return CUDA_SUCCESS;
    const CUstreamCaptureMode mine = thread_state().capture_mode;
    if (mine == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    bool refused = false;
    for (const auto& weak : d.captures) {
        const auto session = weak.lock();
        if (!session || session->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
        const bool own = session->thread == std::this_thread::get_id();
        const bool global =
            session->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mine == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!own && !global) continue;
        session->invalidate();
        refused = true;
    }
    return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult refuse_implicit(const StreamRef& stream) {
    if (!stream->legacy) return CUDA_SUCCESS;
    bool refused = false;
    for (const StreamRef& other : stream->context->streams) {
        if (!other->capture || !other->blocking() || other->capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
            continue;
        other->capture->invalidate();
        refused = true;
    }
    return refused ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult capture(const StreamRef& stream, Work work) {
    CaptureSession& session = *stream->capture;
    if (session.invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (const CUresult r = validate(stream->context, work); r != CUDA_SUCCESS) return r;
    CUgraphNode_st* node = session.graph->add(std::move(work), stream->capture_leaves);
    stream->capture_leaves = {node};
    return CUDA_SUCCESS;
}

CUresult capture_record(const StreamRef& stream, const EventRef& event) {
    CaptureSession& session = *stream->capture;
    if (session.invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->capture_nodes = stream->capture_leaves;
    event->captured = true;
    return CUDA_SUCCESS;
}

CUresult capture_wait(const StreamRef& stream, const EventRef& event, unsigned flags, bool* handled) {
    *handled = true;
    const std::shared_ptr<CaptureSession> from = event->captured ? event->capture.lock() : nullptr;
    if (!from && !stream->capture) {
        *handled = false;
        return event->captured ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
    }
    if (stream->capture && stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags & CU_EVENT_WAIT_EXTERNAL) return capture(stream, WaitWork{event});
    if (!from) {  // an event from outside the capture
        stream->capture->invalidate();
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (from->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->capture && stream->capture != from) {
        stream->capture->invalidate();
        from->invalidate();
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream->legacy) {
        from->invalidate();
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!stream->capture) {
        stream->capture = from;
        stream->capture_leaves.clear();
        from->members.push_back(stream);
    }
    for (CUgraphNode_st* node : event->capture_nodes)
        if (std::find(stream->capture_leaves.begin(), stream->capture_leaves.end(), node) ==
            stream->capture_leaves.end())
            stream->capture_leaves.push_back(node);
    return CUDA_SUCCESS;
}

void leave_capture(const std::shared_ptr<CaptureSession>& session) {
    for (const auto& weak : session->members)
        if (const StreamRef stream = weak.lock(); stream && stream->capture == session) {
            stream->capture = nullptr;
            stream->capture_leaves.clear();
        }
    std::erase_if(driver().captures, [&](const auto& c) { return c.lock() == session || c.expired(); });
}

}  // namespace softgpu
