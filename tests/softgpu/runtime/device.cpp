// Device properties and attributes, versions, driver entry points.
#include <cstring>

#include "api.h"

using namespace cudart;

namespace {

// Reads attributes until one fails.
class Reader {
  public:
    Reader(const Driver& cu, CUdevice device) : cu_(cu), device_(device) {}
    template <class T>
    void operator()(T& out, CUdevice_attribute attribute) {
        int value = 0;
        // Attributes that a driver does not know read as zero.
        if (cu_.cuDeviceGetAttribute(&value, attribute, device_) != CUDA_SUCCESS) value = 0;
        out = static_cast<T>(value);
    }

  private:
    const Driver& cu_;
    CUdevice device_;
};

void texture_limits(Reader& read, cudaDeviceProp& p) {
    read(p.maxTexture1D, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH);
    read(p.maxTexture1DMipmap, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH);
    read(p.maxTexture2D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH);
    read(p.maxTexture2D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT);
    read(p.maxTexture2DMipmap[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH);
    read(p.maxTexture2DMipmap[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT);
    read(p.maxTexture2DLinear[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH);
    read(p.maxTexture2DLinear[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT);
    read(p.maxTexture2DLinear[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH);
    read(p.maxTexture3D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH);
    read(p.maxTexture3D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT);
    read(p.maxTexture3D[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH);
    read(p.maxTexture1DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH);
    read(p.maxTexture1DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS);
    read(p.maxTexture2DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH);
    read(p.maxTexture2DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT);
    read(p.maxTexture2DLayered[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS);
    read(p.maxTextureCubemap, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH);
    read(p.textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    read(p.texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
    read(p.surfaceAlignment, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
}

void execution_limits(Reader& read, cudaDeviceProp& p) {
    read(p.sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    read(p.sharedMemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    read(p.sharedMemPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    read(p.reservedSharedMemPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    read(p.regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    read(p.regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    read(p.warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    read(p.maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    read(p.maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    read(p.maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    read(p.multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    for (int i = 0; i < 3; ++i) {
        read(p.maxThreadsDim[i], static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
        read(p.maxGridSize[i], static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
    }
    read(p.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    read(p.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    read(p.concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
    read(p.asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    read(p.streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
    read(p.computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
    read(p.cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
    read(p.clusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
    read(p.unifiedFunctionPointers, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS);
}

void memory_properties(Reader& read, cudaDeviceProp& p) {
    read(p.totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    read(p.memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    read(p.canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
    read(p.unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
    read(p.memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    read(p.l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    read(p.persistingL2CacheMaxSize, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
    read(p.accessPolicyMaxWindowSize, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
    read(p.globalL1CacheSupported, CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED);
    read(p.localL1CacheSupported, CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED);
    read(p.managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
    read(p.pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
    read(p.concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
    read(p.canUseHostPointerForRegisteredMem, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    read(p.pageableMemoryAccessUsesHostPageTables,
         CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
    read(p.directManagedMemAccessFromHost, CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
    read(p.hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
    read(p.hostRegisterReadOnlySupported, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
    read(p.hostNativeAtomicSupported, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED);
    read(p.sparseCudaArraySupported, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED);
    read(p.deferredMappingCudaArraySupported, CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
    read(p.memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
    read(p.memoryPoolSupportedHandleTypes, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
    read(p.gpuDirectRDMASupported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
    read(p.gpuDirectRDMAFlushWritesOptions, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
    read(p.gpuDirectRDMAWritesOrdering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
}

void identity(Reader& read, cudaDeviceProp& p) {
    read(p.integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
    read(p.ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
    read(p.pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    read(p.pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
    read(p.pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
    read(p.tccDriver, CU_DEVICE_ATTRIBUTE_TCC_DRIVER);
    read(p.isMultiGpuBoard, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD);
    read(p.multiGpuBoardGroupID, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID);
    read(p.timelineSemaphoreInteropSupported, CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
    read(p.ipcEventSupported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
    read(p.deviceNumaConfig, CU_DEVICE_ATTRIBUTE_NUMA_CONFIG);
    read(p.deviceNumaId, CU_DEVICE_ATTRIBUTE_NUMA_ID);
    read(p.mpsEnabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
    read(p.hostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    read(p.gpuPciSubsystemID, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID);
    read(p.hostNumaMultinodeIpcSupported, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED);
}

}  // namespace

CUDART_API_NC(cudaGetDeviceProperties, (cudaDeviceProp * properties, int device), (properties, device)) {
    if (!properties) return cudaErrorInvalidValue;
    CUdevice handle = 0;
    if (cu.cuDeviceGet(&handle, device) != CUDA_SUCCESS) return cudaErrorInvalidDevice;
    cudaDeviceProp p;
    std::memset(static_cast<void*>(&p), 0, sizeof p);
    CUDART_TRY(to_error(cu.cuDeviceGetName(p.name, sizeof p.name, handle)));
    static_assert(sizeof p.uuid == sizeof(CUuuid));
    cu.cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&p.uuid), handle);
    CUDART_TRY(to_error(cu.cuDeviceTotalMem(&p.totalGlobalMem, handle)));
    Reader read(cu, handle);
    execution_limits(read, p);
    memory_properties(read, p);
    texture_limits(read, p);
    identity(read, p);
    *properties = p;
    return cudaSuccess;
}

CUDART_API_NC(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device),
              (value, attribute, device)) {
    if (!value) return cudaErrorInvalidValue;
    return to_error(cu.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device));
}

CUDART_FORWARD_NC(cudaDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, (int* device, const char* id), (device, id))
CUDART_FORWARD_NC(cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char* id, int length, int device),
                  (id, length, device))

CUDART_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
    if (!version) return remember(cudaErrorInvalidValue);
    *version = 0;  // also the answer where no driver is installed
    if (const CUresult r = load_driver(); r != CUDA_SUCCESS && r != CUDA_ERROR_NO_DEVICE) return cudaSuccess;
    return remember(to_error(driver().cuDriverGetVersion(version)));
}

CUDART_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
    if (!version) return remember(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

// --- driver entry points
// ----------------------------------------------------------------------------------------------
namespace {

cudaError_t entry_point(const Driver& cu, const char* symbol, void** address, unsigned version,
                        unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
    if (!symbol || !address) return cudaErrorInvalidValue;
    // "Default" means the flavour that the caller was compiled for.
    if (flags == cudaEnableDefault)
        flags = cu.per_thread ? cudaEnablePerThreadDefaultStream : cudaEnableLegacyStream;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    *address = nullptr;
    const CUresult r = cu.get_proc_address(symbol, address, static_cast<int>(version), flags, &found);
    if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    if (r == CUDA_ERROR_NOT_FOUND) {
        *address = nullptr;
        if (status && found == CU_GET_PROC_ADDRESS_SUCCESS) *status = cudaDriverEntryPointSymbolNotFound;
        return status ? cudaSuccess : cudaErrorSymbolNotFound;
    }
    return to_error(r);
}

}  // namespace

CUDART_TWIN(cudaGetDriverEntryPoint, _ptsz,
            (const char* symbol, void** address, unsigned long long flags,
             cudaDriverEntryPointQueryResult* status),
            (symbol, address, flags, status)) {
    return entry_point(cu, symbol, address, CUDART_VERSION, flags, status);
}
CUDART_TWIN(cudaGetDriverEntryPointByVersion, _ptsz,
            (const char* symbol, void** address, unsigned version, unsigned long long flags,
             cudaDriverEntryPointQueryResult* status),
            (symbol, address, version, flags, status)) {
    return entry_point(cu, symbol, address, version, flags, status);
}
