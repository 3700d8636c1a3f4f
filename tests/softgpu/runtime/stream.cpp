// Streams, events and capture.
#include "api.h"

using namespace cudart;

CUDART_API(cudaStreamCreate, (cudaStream_t * stream), (stream)) {
    return to_error(cu.cuStreamCreate(stream, CU_STREAM_DEFAULT));
}
CUDART_FORWARD(cudaStreamCreateWithFlags, cuStreamCreate, (cudaStream_t * stream, unsigned flags),
               (stream, flags))
CUDART_FORWARD(cudaStreamCreateWithPriority, cuStreamCreateWithPriority,
               (cudaStream_t * stream, unsigned flags, int priority), (stream, flags, priority))
CUDART_FORWARD(cudaStreamDestroy, cuStreamDestroy, (cudaStream_t stream), (stream))
CUDART_FORWARD_TWIN(cudaStreamSynchronize, _ptsz, cuStreamSynchronize, (cudaStream_t stream), (stream))
CUDART_FORWARD_TWIN(cudaStreamQuery, _ptsz, cuStreamQuery, (cudaStream_t stream), (stream))
CUDART_FORWARD_TWIN(cudaStreamWaitEvent, _ptsz, cuStreamWaitEvent,
                    (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags))
CUDART_FORWARD_TWIN(cudaStreamAddCallback, _ptsz, cuStreamAddCallback,
                    (cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags),
                    (stream, callback, data, flags))
CUDART_FORWARD_TWIN(cudaStreamGetPriority, _ptsz, cuStreamGetPriority, (cudaStream_t stream, int* priority),
                    (stream, priority))
CUDART_FORWARD_TWIN(cudaStreamGetFlags, _ptsz, cuStreamGetFlags, (cudaStream_t stream, unsigned* flags),
                    (stream, flags))
CUDART_FORWARD_TWIN(cudaStreamGetId, _ptsz, cuStreamGetId, (cudaStream_t stream, unsigned long long* id),
                    (stream, id))
CUDART_FORWARD_TWIN(cudaStreamGetDevice, _ptsz, cuStreamGetDevice, (cudaStream_t stream, int* device),
                    (stream, device))
CUDART_FORWARD_TWIN(cudaStreamCopyAttributes, _ptsz, cuStreamCopyAttributes,
                    (cudaStream_t to, cudaStream_t from), (to, from))
CUDART_FORWARD_TWIN(cudaStreamGetAttribute, _ptsz, cuStreamGetAttribute,
                    (cudaStream_t stream, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue* value),
                    (stream, attribute, value))
CUDART_FORWARD_TWIN(cudaStreamSetAttribute, _ptsz, cuStreamSetAttribute,
                    (cudaStream_t stream, cudaLaunchAttributeID attribute,
                     const cudaLaunchAttributeValue* value),
                    (stream, attribute, value))

// --- events
// -------------------------------------------------------------------------------------------------------------
CUDART_API(cudaEventCreate, (cudaEvent_t * event), (event)) {
    return to_error(cu.cuEventCreate(event, CU_EVENT_DEFAULT));
}
CUDART_FORWARD(cudaEventCreateWithFlags, cuEventCreate, (cudaEvent_t * event, unsigned flags), (event, flags))
CUDART_FORWARD_TWIN(cudaEventRecord, _ptsz, cuEventRecord, (cudaEvent_t event, cudaStream_t stream),
                    (event, stream))
CUDART_FORWARD_TWIN(cudaEventRecordWithFlags, _ptsz, cuEventRecordWithFlags,
                    (cudaEvent_t event, cudaStream_t stream, unsigned flags), (event, stream, flags))
CUDART_FORWARD(cudaEventQuery, cuEventQuery, (cudaEvent_t event), (event))
CUDART_FORWARD(cudaEventSynchronize, cuEventSynchronize, (cudaEvent_t event), (event))
CUDART_FORWARD(cudaEventDestroy, cuEventDestroy, (cudaEvent_t event), (event))
CUDART_FORWARD(cudaEventElapsedTime, cuEventElapsedTime, (float* ms, cudaEvent_t start, cudaEvent_t end),
               (ms, start, end))

// --- capture
// ------------------------------------------------------------------------------------------------------------
CUDART_FORWARD_TWIN(cudaStreamBeginCapture, _ptsz, cuStreamBeginCapture,
                    (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode))
CUDART_FORWARD_TWIN(cudaStreamBeginCaptureToGraph, _ptsz, cuStreamBeginCaptureToGraph,
                    (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode),
                    (stream, graph, dependencies, edges, count, mode))
CUDART_FORWARD_TWIN(cudaStreamEndCapture, _ptsz, cuStreamEndCapture,
                    (cudaStream_t stream, cudaGraph_t* graph), (stream, graph))
CUDART_FORWARD_TWIN(cudaStreamIsCapturing, _ptsz, cuStreamIsCapturing,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status), (stream, status))
CUDART_FORWARD_TWIN(cudaStreamGetCaptureInfo, _ptsz, cuStreamGetCaptureInfo,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                     const cudaGraphEdgeData** edges, size_t* count),
                    (stream, status, id, graph, dependencies, edges, count))
CUDART_FORWARD_TWIN(cudaStreamUpdateCaptureDependencies, _ptsz, cuStreamUpdateCaptureDependencies,
                    (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                     size_t count, unsigned flags),
                    (stream, dependencies, edges, count, flags))
CUDART_FORWARD(cudaThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode,
               (cudaStreamCaptureMode * mode), (mode))
