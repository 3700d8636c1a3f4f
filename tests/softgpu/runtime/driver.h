// The driver as the runtime sees it: one table of entry points per default-stream flavour, filled through
// cuGetProcAddress as NVIDIA's runtime does (dlopen of libcuda.so.1, one dlsym, then queries).
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>

#include <type_traits>

namespace cudart {

/// An entry point that may be absent: calling it then answers CUDA_ERROR_NOT_SUPPORTED.
template <class F>
class Entry;
template <class... P>
class Entry<CUresult (*)(P...)> {
  public:
    CUresult operator()(P... arguments) const {
        return address ? reinterpret_cast<CUresult (*)(P...)>(address)(arguments...)
                       : CUDA_ERROR_NOT_SUPPORTED;
    }
    void* address = nullptr;
};

// Name, and the CUDA version whose ABI cuda.h declares under that name (where the newest is another one).
// clang-format off
#define CUDART_DRIVER_ENTRIES(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorString) X(cuGetErrorName) X(cuDeviceGet) \
    X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceTotalMem) X(cuDeviceGetAttribute) \
    X(cuDeviceGetByPCIBusId) X(cuDeviceGetPCIBusId) X(cuDeviceGetP2PAttribute) X(cuDeviceCanAccessPeer) \
    X(cuDeviceGetDefaultMemPool) X(cuDeviceSetMemPool) X(cuDeviceGetMemPool) X(cuDevicePrimaryCtxRetain) \
    X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxSetFlags) \
    X(cuDevicePrimaryCtxGetState) X(cuDeviceGraphMemTrim) X(cuDeviceGetGraphMemAttribute) \
    X(cuDeviceSetGraphMemAttribute) X(cuDeviceGetTexture1DLinearMaxWidth) X(cuDeviceGetLuid) \
    X(cuDeviceRegisterAsyncNotification) X(cuDeviceUnregisterAsyncNotification) X(cuCtxGetCurrent) \
    X(cuCtxSetCurrent) X(cuCtxGetDevice) X(cuCtxSetLimit) X(cuCtxGetLimit) X(cuCtxGetFlags) \
    X(cuCtxGetCacheConfig) X(cuCtxSetCacheConfig) X(cuCtxGetStreamPriorityRange) X(cuCtxEnablePeerAccess) \
    X(cuCtxDisablePeerAccess) X(cuCtxResetPersistingL2Cache) X(cuFlushGPUDirectRDMAWrites) \
    X(cuLibraryLoadData) X(cuLibraryLoadFromFile) X(cuLibraryUnload) X(cuLibraryGetKernel) \
    X(cuLibraryGetKernelCount) X(cuLibraryEnumerateKernels) X(cuLibraryGetGlobal) X(cuLibraryGetManaged) \
    X(cuLibraryGetUnifiedFunction) X(cuKernelGetFunction) X(cuKernelSetAttribute) X(cuKernelGetAttribute) \
    X(cuKernelSetCacheConfig) X(cuKernelGetName) X(cuKernelGetParamInfo) X(cuFuncGetAttribute) \
    X(cuFuncSetAttribute) X(cuFuncSetCacheConfig) X(cuFuncGetName) X(cuFuncGetParamInfo) X(cuLaunchKernel) \
    X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel) X(cuLaunchHostFunc) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
    X(cuOccupancyAvailableDynamicSMemPerBlock) X(cuOccupancyMaxPotentialClusterSize) \
    X(cuOccupancyMaxActiveClusters) X(cuMemAlloc) X(cuMemAllocPitch) X(cuMemAllocManaged) X(cuMemFree) \
    X(cuMemAllocHost) X(cuMemFreeHost) X(cuMemHostAlloc) X(cuMemHostRegister) X(cuMemHostUnregister) \
    X(cuMemHostGetDevicePointer) X(cuMemHostGetFlags) X(cuMemGetInfo) X(cuPointerGetAttributes) \
    X(cuPointerGetAttribute) X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) \
    X(cuIpcGetEventHandle) X(cuIpcOpenEventHandle) X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyHtoD) \
    X(cuMemcpyDtoH) X(cuMemcpyDtoD) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) \
    X(cuMemcpyPeer) X(cuMemcpyPeerAsync) X(cuMemcpy2DUnaligned) X(cuMemcpy2DAsync) X(cuMemcpy3D) \
    X(cuMemcpy3DAsync) X(cuMemcpy3DPeer) X(cuMemcpy3DPeerAsync) X(cuMemcpyBatchAsync) \
    X(cuMemcpy3DBatchAsync) X(cuMemsetD8) X(cuMemsetD8Async) X(cuMemsetD2D8) X(cuMemsetD2D8Async) \
    X(cuMemPrefetchAsync) X(cuMemAdvise) X(cuMemRangeGetAttribute) X(cuMemRangeGetAttributes) \
    X(cuMemPrefetchBatchAsync) X(cuMemDiscardBatchAsync) X(cuMemDiscardAndPrefetchBatchAsync) \
    X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemAllocFromPoolAsync) X(cuMemPoolTrimTo) \
    X(cuMemPoolSetAttribute) X(cuMemPoolGetAttribute) X(cuMemPoolSetAccess) X(cuMemPoolGetAccess) \
    X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemGetDefaultMemPool) X(cuMemGetMemPool) X(cuMemSetMemPool) \
    X(cuMemPoolExportToShareableHandle) X(cuMemPoolImportFromShareableHandle) X(cuMemPoolExportPointer) \
    X(cuMemPoolImportPointer) X(cuStreamCreate) X(cuStreamCreateWithPriority) X(cuStreamDestroy) \
    X(cuStreamSynchronize) X(cuStreamQuery) X(cuStreamWaitEvent) X(cuStreamAddCallback) \
    X(cuStreamAttachMemAsync) X(cuStreamGetPriority) X(cuStreamGetFlags) X(cuStreamGetId) \
    X(cuStreamGetDevice) X(cuStreamCopyAttributes) X(cuStreamGetAttribute) X(cuStreamSetAttribute) \
    X(cuStreamBeginCapture) X(cuStreamBeginCaptureToGraph) X(cuStreamEndCapture) X(cuStreamIsCapturing) \
    X(cuStreamGetCaptureInfo) X(cuStreamUpdateCaptureDependencies) X(cuThreadExchangeStreamCaptureMode) \
    X(cuEventCreate) X(cuEventRecord) X(cuEventRecordWithFlags) X(cuEventQuery) X(cuEventSynchronize) \
    X(cuEventDestroy) X(cuEventElapsedTime) X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphClone) \
    X(cuGraphDestroyNode) X(cuGraphAddNode) X(cuGraphNodeSetParams) X(cuGraphExecNodeSetParams) \
    X(cuGraphAddKernelNode) X(cuGraphKernelNodeGetParams) X(cuGraphKernelNodeSetParams) \
    X(cuGraphKernelNodeCopyAttributes) X(cuGraphKernelNodeGetAttribute) X(cuGraphKernelNodeSetAttribute) \
    X(cuGraphExecKernelNodeSetParams) X(cuGraphAddMemcpyNode) X(cuGraphMemcpyNodeGetParams) \
    X(cuGraphMemcpyNodeSetParams) X(cuGraphExecMemcpyNodeSetParams) X(cuGraphAddMemsetNode) \
    X(cuGraphMemsetNodeGetParams) X(cuGraphMemsetNodeSetParams) X(cuGraphExecMemsetNodeSetParams) \
    X(cuGraphAddHostNode) X(cuGraphHostNodeGetParams) X(cuGraphHostNodeSetParams) \
    X(cuGraphExecHostNodeSetParams) X(cuGraphAddChildGraphNode) X(cuGraphChildGraphNodeGetGraph) \
    X(cuGraphExecChildGraphNodeSetParams) X(cuGraphAddEmptyNode) X(cuGraphAddEventRecordNode) \
    X(cuGraphEventRecordNodeGetEvent) X(cuGraphEventRecordNodeSetEvent) \
    X(cuGraphExecEventRecordNodeSetEvent) X(cuGraphAddEventWaitNode) X(cuGraphEventWaitNodeGetEvent) \
    X(cuGraphEventWaitNodeSetEvent) X(cuGraphExecEventWaitNodeSetEvent) X(cuGraphAddMemAllocNode) \
    X(cuGraphMemAllocNodeGetParams) X(cuGraphAddMemFreeNode) X(cuGraphMemFreeNodeGetParams) \
    X(cuGraphNodeFindInClone) X(cuGraphNodeGetType) X(cuGraphGetNodes) X(cuGraphGetRootNodes) \
    X(cuGraphGetEdges) X(cuGraphNodeGetDependencies) X(cuGraphNodeGetDependentNodes) \
    X(cuGraphAddDependencies) X(cuGraphRemoveDependencies) X(cuGraphInstantiateWithFlags) \
    X(cuGraphInstantiateWithParams) X(cuGraphExecGetFlags) X(cuGraphNodeSetEnabled) \
    X(cuGraphNodeGetEnabled) X(cuGraphExecUpdate) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphExecDestroy) \
    X(cuGraphDebugDotPrint) X(cuGraphConditionalHandleCreate) X(cuUserObjectCreate) X(cuUserObjectRetain) \
    X(cuUserObjectRelease) X(cuGraphRetainUserObject) X(cuGraphReleaseUserObject) X(cuProfilerStart) \
    X(cuProfilerStop) X(cuCtxSynchronize)
// clang-format on

struct Driver {
    bool per_thread = false;
#define X(name) Entry<decltype(&::name)> name;
    CUDART_DRIVER_ENTRIES(X)
#undef X
    CUresult get_proc_address(const char* name, void** address, int version, cuuint64_t flags,
                              CUdriverProcAddressQueryResult* status) const {
        return query(name, address, version, flags, status);
    }
    std::add_pointer_t<CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*)>
        query = nullptr;
};

/// The two flavours; valid once load_driver() said CUDA_SUCCESS.
const Driver& driver(bool per_thread = false);

/// Opens and initialises the driver once per process. Failures keep their answer: CUDA_ERROR_STUB_LIBRARY
/// stands for "no driver, or one that is too old". Thread-safe.
CUresult load_driver();

/// True from the moment the process runs its exit handlers: the driver may be gone.
bool exiting();

}  // namespace cudart
