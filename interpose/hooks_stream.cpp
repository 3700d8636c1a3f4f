// Streams: memory operations on them, and capture. What a memory operation names may be polled or written
// from anywhere at any time, so it stays where it is.
#include "interpose/memory_operations.h"
#include "interpose/op_call.h"

namespace swapadvisor {

CUresult hook_cuStreamWaitValue32(Entry entry, Fn_cuStreamWaitValue32 real, CUstream stream,
                                  CUdeviceptr address, cuuint32_t value, unsigned flags) {
    if (const CUresult result = keep_in_place(entry, address); result != CUDA_SUCCESS) return result;
    return gated(entry, stream, real(stream, address, value, flags));
}

CUresult hook_cuStreamWaitValue64(Entry entry, Fn_cuStreamWaitValue64 real, CUstream stream,
                                  CUdeviceptr address, cuuint64_t value, unsigned flags) {
    if (const CUresult result = keep_in_place(entry, address); result != CUDA_SUCCESS) return result;
    return gated(entry, stream, real(stream, address, value, flags));
}

CUresult hook_cuStreamWriteValue32(Entry entry, Fn_cuStreamWriteValue32 real, CUstream stream,
                                   CUdeviceptr address, cuuint32_t value, unsigned flags) {
    if (const CUresult result = keep_written(entry, address, value, 4); result != CUDA_SUCCESS) return result;
    return real(stream, address, value, flags);
}

CUresult hook_cuStreamWriteValue64(Entry entry, Fn_cuStreamWriteValue64 real, CUstream stream,
                                   CUdeviceptr address, cuuint64_t value, unsigned flags) {
    if (const CUresult result = keep_written(entry, address, value, 8); result != CUDA_SUCCESS) return result;
    return real(stream, address, value, flags);
}

CUresult hook_cuStreamBatchMemOp(Entry entry, Fn_cuStreamBatchMemOp real, CUstream stream, unsigned count,
                                 CUstreamBatchMemOpParams* params, unsigned flags) {
    if (const CUresult result = keep_batch(entry, params, count); result != CUDA_SUCCESS) return result;
    const CUresult result = real(stream, count, params, flags);
    bool waits = false;
    for (unsigned i = 0; params && i < count; ++i)
        waits = waits || params[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                params[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    return waits ? gated(entry, stream, result) : result;
}

namespace {

/// A capture that does not begin ends at once, for the runtime.
template <class Call>
CUresult begin_capture(Entry entry, CUstream stream, Call call) {
    Runtime* runtime = runtime_for(entry);
    if (!runtime) return call();
    runtime->capture_begins(stream, entry.stream);
    const CUresult result = call();
    if (result != CUDA_SUCCESS) runtime->capture_refused(stream, entry.stream);
    return result;
}

}  // namespace

CUresult hook_cuStreamBeginCapture(Entry entry, Fn_cuStreamBeginCapture real, CUstream stream) {
    return begin_capture(entry, stream, [&] { return real(stream); });
}

CUresult hook_cuStreamBeginCapture_v2(Entry entry, Fn_cuStreamBeginCapture_v2 real, CUstream stream,
                                      CUstreamCaptureMode mode) {
    return begin_capture(entry, stream, [&] { return real(stream, mode); });
}

CUresult hook_cuStreamBeginCaptureToGraph(Entry entry, Fn_cuStreamBeginCaptureToGraph real, CUstream stream,
                                          CUgraph graph, const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* edges, size_t count,
                                          CUstreamCaptureMode mode) {
    return begin_capture(entry, stream,
                         [&] { return real(stream, graph, dependencies, edges, count, mode); });
}

CUresult hook_cuStreamEndCapture(Entry entry, Fn_cuStreamEndCapture real, CUstream stream, CUgraph* graph) {
    Runtime* runtime = runtime_for(entry);
    if (!runtime) return real(stream, graph);
    const cuuint64_t capture = runtime->capture_of(stream, entry.stream);
    const CUresult result = real(stream, graph);
    runtime->capture_ended(stream, entry.stream, capture, result == CUDA_SUCCESS && graph ? *graph : nullptr);
    return result;
}

}  // namespace swapadvisor
