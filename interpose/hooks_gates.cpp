// What makes a stream wait for something that the program may still have to do, and the events by which other
// streams come to wait for the same.
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

CUresult recorded(Entry entry, CUevent event, CUstream stream, CUresult result) {
    if (result == CUDA_SUCCESS) {
        if (Runtime* runtime = runtime_for(entry)) runtime->event_recorded(event, stream, entry.stream);
    }
    return result;
}

}  // namespace

CUresult hook_cuLaunchHostFunc(Entry entry, Fn_cuLaunchHostFunc real, CUstream stream, CUhostFn function,
                               void* user) {
    return gated(entry, stream, real(stream, function, user));
}

CUresult hook_cuStreamAddCallback(Entry entry, Fn_cuStreamAddCallback real, CUstream stream,
                                  CUstreamCallback callback, void* user, unsigned flags) {
    return gated(entry, stream, real(stream, callback, user, flags));
}

CUresult hook_cuWaitExternalSemaphoresAsync(Entry entry, Fn_cuWaitExternalSemaphoresAsync real,
                                            const CUexternalSemaphore* semaphores,
                                            const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS* params, unsigned count,
                                            CUstream stream) {
    return gated(entry, stream, real(semaphores, params, count, stream));
}

CUresult hook_cuEventRecord(Entry entry, Fn_cuEventRecord real, CUevent event, CUstream stream) {
    return recorded(entry, event, stream, real(event, stream));
}

CUresult hook_cuEventRecordWithFlags(Entry entry, Fn_cuEventRecordWithFlags real, CUevent event,
                                     CUstream stream, unsigned flags) {
    return recorded(entry, event, stream, real(event, stream, flags));
}

CUresult hook_cuStreamWaitEvent(Entry entry, Fn_cuStreamWaitEvent real, CUstream stream, CUevent event,
                                unsigned flags) {
    const CUresult result = real(stream, event, flags);
    if (result == CUDA_SUCCESS) {
        if (Runtime* runtime = runtime_for(entry)) runtime->event_waited(stream, entry.stream, event);
    }
    return result;
}

}  // namespace swapadvisor
