// The driver functions that the replayer and the recorder call, as plain pointers. Filled by interpose from
// the real driver (never from our own hooks), and by unit tests from the software GPU or a fake. A null
// pointer means that this driver lacks the entry point: callers check the optional ones.
#pragma once

#include <cuda.h>

namespace swapadvisor {

struct DriverApi {
#define SWAPADVISOR_DRIVER_FUNCTIONS(X)                                                                     \
    X(cuGetErrorString)                                                                                     \
    X(cuCtxGetCurrent)                                                                                      \
    X(cuCtxSetCurrent)                                                                                      \
    X(cuCtxPushCurrent)                                                                                     \
    X(cuCtxPopCurrent) X(cuCtxGetDevice) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetAttribute) X(      \
        cuDeviceTotalMem) X(cuCtxSynchronize) X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc)  \
        X(cuMemFreeHost) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) X(       \
            cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemGetAllocationGranularity) X(cuMemcpyHtoDAsync) \
            X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) X(cuStreamCreate) X(               \
                cuStreamDestroy) X(cuStreamWaitEvent) X(cuStreamSynchronize) X(cuStreamQuery)               \
                X(cuStreamIsCapturing) X(cuStreamGetCaptureInfo) X(cuStreamGetFlags) X(cuEventCreate) X(    \
                    cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize)                  \
                    X(cuEventElapsedTime) X(cuThreadExchangeStreamCaptureMode) X(cuFuncGetParamInfo) X(     \
                        cuFuncGetName) X(cuPointerGetAttribute) X(cuKernelGetParamInfo) X(cuKernelGetName)  \
                        X(cuKernelGetFunction) X(cuDeviceGetName) X(cuGraphGetNodes) X(cuGraphNodeGetType)  \
                            X(cuGraphNodeGetDependencies) X(cuGraphKernelNodeGetParams)                     \
                                X(cuGraphMemcpyNodeGetParams) X(cuGraphMemsetNodeGetParams)                 \
                                    X(cuGraphChildGraphNodeGetGraph) X(cuGraphHostNodeGetParams)            \
                                        X(cuGraphEventRecordNodeGetEvent) X(cuGraphEventWaitNodeGetEvent)   \
                                            X(cuGraphBatchMemOpNodeGetParams)                               \
                                                X(cuGraphKernelNodeGetAttribute) X(cuLaunchKernel)          \
                                                    X(cuMemcpy3DAsync) X(cuStreamBatchMemOp)                \
                                                        X(cuLaunchKernelEx) X(cuLaunchHostFunc)             \
                                                            X(cuModuleLoadData) X(cuModuleGetFunction)      \
                                                                X(cuMemsetD2D8Async) X(cuMemsetD2D16Async)  \
                                                                    X(cuMemsetD2D32Async)
// cuda.h maps the plain names to their newest versions by macros, so decltype(&name) is the newest ABI,
// and the string of the *expanded* name is what must be looked up.
#define SWAPADVISOR_DECLARE(name) decltype(&::name) name##_ = nullptr;
    SWAPADVISOR_DRIVER_FUNCTIONS(SWAPADVISOR_DECLARE)
#undef SWAPADVISOR_DECLARE
};

/// While it lives, this thread's calls that a global-mode capture in any thread would refuse (mapping,
/// waiting, queries, pinning) are allowed and do not spoil that capture. Not `wanted`: nothing changes.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const DriverApi& api, bool wanted = true)
        : exchange_(wanted ? api.cuThreadExchangeStreamCaptureMode_ : nullptr) {
        if (exchange_ != nullptr) exchange_(&mode_);
    }
    ~RelaxedCapture() {
        if (exchange_ != nullptr) exchange_(&mode_);
    }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    decltype(DriverApi::cuThreadExchangeStreamCaptureMode_) exchange_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// Fills `api` with look_up("cuMemAlloc_v2") and so on.
void fill_driver_api(DriverApi& api, void* (*look_up)(void* user, const char* symbol), void* user);

}  // namespace swapadvisor
