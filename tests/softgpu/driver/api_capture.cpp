// Entry points of stream capture.
#include <algorithm>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/capture.h"
#include "tests/softgpu/driver/graph_api.h"

using namespace softgpu;

namespace {

CUresult begin(const StreamRef& stream, CUstreamCaptureMode mode, CUgraph existing,
               std::vector<CUgraphNode_st*> leaves) {
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    auto session = std::make_shared<CaptureSession>();
    session->id = ++driver().next_object_id;
    session->mode = mode;
    session->thread = std::this_thread::get_id();
    session->origin = stream;
    session->members.push_back(stream);
    session->existing = existing != nullptr;
    session->handle = existing ? existing : make_graph_handle(std::make_shared<Graph>());
    session->graph = session->handle->graph;
    stream->capture = session;
    stream->capture_leaves = std::move(leaves);
    driver().captures.push_back(session);
    return CUDA_SUCCESS;
}

/// Whether the origin's next operation would be ordered behind `leaf`.
bool joined(const StreamRef& origin, CUgraphNode_st* leaf) {
    std::vector<CUgraphNode_st*> ahead = origin->capture_leaves;
    std::unordered_set<CUgraphNode_st*> seen;
    while (!ahead.empty()) {
        CUgraphNode_st* node = ahead.back();
        ahead.pop_back();
        if (node == leaf) return true;
        if (seen.insert(node).second)
            ahead.insert(ahead.end(), node->dependencies.begin(), node->dependencies.end());
    }
    return false;
}

/// Work that was forked off to another stream and never joined.
bool unjoined(const CaptureSession& session, const StreamRef& origin) {
    std::vector<CUgraphNode_st*> leaves = session.orphans;
    for (const auto& weak : session.members)
        if (const StreamRef stream = weak.lock();
            stream && stream != origin && stream->capture.get() == &session)
            leaves.insert(leaves.end(), stream->capture_leaves.begin(), stream->capture_leaves.end());
    return std::any_of(leaves.begin(), leaves.end(),
                       [&](CUgraphNode_st* leaf) { return !joined(origin, leaf); });
}

CUresult end(const StreamRef& stream, CUgraph* out) {
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<CaptureSession> session = stream->capture;
    if (!session) return CUDA_ERROR_ILLEGAL_STATE;
    if (session->origin.lock() != stream) {
        session->invalidate();
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (session->mode != CU_STREAM_CAPTURE_MODE_RELAXED && session->thread != std::this_thread::get_id())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult r = CUDA_SUCCESS;
    if (session->invalid)
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (unjoined(*session, stream))
        r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    leave_capture(session);
    if (r != CUDA_SUCCESS) {
        if (!session->existing) drop_graph_handle(session->handle);
        *out = nullptr;
        return r;
    }
    *out = session->handle;
    return CUDA_SUCCESS;
}

CUresult info(const StreamRef& stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
              const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = refuse_implicit(stream); r != CUDA_SUCCESS) return r;
    const auto& session = stream->capture;
    *status = !session           ? CU_STREAM_CAPTURE_STATUS_NONE
              : session->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (!session || session->invalid) return CUDA_SUCCESS;
    if (id) *id = session->id;
    if (graph) *graph = session->handle;
    if (nodes) *nodes = stream->capture_leaves.data();
    if (count) *count = stream->capture_leaves.size();
    if (edges) *edges = nullptr;  // all edges are plain
    return CUDA_SUCCESS;
}

CUresult update(const StreamRef& stream, CUgraphNode* nodes, size_t count, unsigned flags) {
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if ((count && !nodes) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
    if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (size_t i = 0; i < count; ++i)
        if (driver().kind(nodes[i]) != Kind::node || nodes[i]->graph != stream->capture->graph.get())
            return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->capture_leaves.clear();
    for (size_t i = 0; i < count; ++i) stream->capture_leaves.push_back(nodes[i]);
    return CUDA_SUCCESS;
}

}  // namespace

SOFTCU cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    SOFTGPU_CALL(kContext);
    return begin(resolve_stream(stream), mode, nullptr, {});
}

#undef cuStreamBeginCapture
SOFTCU cuStreamBeginCapture(CUstream stream) {
    SOFTGPU_CALL(kContext);
    return begin(resolve_stream(stream), CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, {});
}

SOFTCU cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                   const CUgraphEdgeData*, size_t count, CUstreamCaptureMode mode) {
    SOFTGPU_CALL(kContext);
    if (driver().kind(graph) != Kind::graph || (count && !dependencies)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode_st*> leaves(dependencies, dependencies + count);
    for (CUgraphNode_st* node : leaves)
        if (driver().kind(node) != Kind::node || node->graph != graph->graph.get())
            return CUDA_ERROR_INVALID_VALUE;
    return begin(resolve_stream(stream), mode, graph, std::move(leaves));
}

SOFTCU cuStreamEndCapture(CUstream stream, CUgraph* graph) {
    SOFTGPU_CALL(kContext);
    return end(resolve_stream(stream), graph);
}

SOFTCU cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    SOFTGPU_CALL(kFree | kContext);
    return info(resolve_stream(stream), status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

#undef cuStreamGetCaptureInfo
SOFTCU cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
    SOFTGPU_CALL(kFree | kContext);
    return info(resolve_stream(stream), status, id, nullptr, nullptr, nullptr, nullptr);
}

extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                              const CUgraphNode**, size_t*);
SOFTCU cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                 CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
    SOFTGPU_CALL(kFree | kContext);
    return info(resolve_stream(stream), status, id, graph, nodes, nullptr, count);
}

SOFTCU cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                 CUgraph* graph, const CUgraphNode** nodes, const CUgraphEdgeData** edges,
                                 size_t* count) {
    SOFTGPU_CALL(kFree | kContext);
    return info(resolve_stream(stream), status, id, graph, nodes, edges, count);
}

#undef cuStreamUpdateCaptureDependencies
SOFTCU cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return update(resolve_stream(stream), nodes, count, flags);
}

SOFTCU cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData*,
                                            size_t count, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return update(resolve_stream(stream), nodes, count, flags);
}

SOFTCU cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    SOFTGPU_CALL(kFree);
    if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, thread_state().capture_mode);
    return CUDA_SUCCESS;
}
