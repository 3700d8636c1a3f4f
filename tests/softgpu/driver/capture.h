// Stream capture: sessions, their rules, and joining by events.
#pragma once

#include <thread>

#include "tests/softgpu/driver/graph.h"
#include "tests/softgpu/driver/work.h"

namespace softgpu {

struct CaptureSession {
    std::uint64_t id = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id thread;
    std::weak_ptr<CUstream_st> origin;
    std::vector<std::weak_ptr<CUstream_st>> members;
    std::shared_ptr<Graph> graph;
    std::vector<CUgraphNode_st*> orphans;  ///< leaves of streams destroyed meanwhile
    CUgraph handle = nullptr;
    bool existing = false;  ///< cuStreamBeginCaptureToGraph: the graph was there before
    bool invalid = false;

    void invalidate() { invalid = true; }
};

/// Error of touching the legacy stream while one of its context's blocking streams captures.
CUresult refuse_implicit(const StreamRef& stream);
/// Adds a captured operation behind the stream's leaves.
CUresult capture(const StreamRef& stream, Work work);
/// cuStreamWaitEvent in or into a capture. Sets `handled` when capturing was involved.
CUresult capture_wait(const StreamRef& stream, const EventRef& event, unsigned flags, bool* handled);
CUresult capture_record(const StreamRef& stream, const EventRef& event);
/// cuMemAllocAsync in a capture: a node, and an address of its own.
CUresult capture_allocation(const StreamRef& stream, CUdeviceptr* out, std::size_t bytes,
                            const CUmemPoolProps& props);
void leave_capture(const std::shared_ptr<CaptureSession>& session);

}  // namespace softgpu
