// Kernel launches in all their forms, host functions, function attributes and occupancy.
#include <atomic>
#include <vector>

#include "registry.h"

namespace cudart {

namespace {

struct Configuration {
    dim3 grid, block;
    size_t shared_bytes;
    void* stream;
};
thread_local std::vector<Configuration> pushed;

struct Limits {
    int block_threads = 1024, block[3] = {1024, 1024, 64}, grid[3] = {2147483647, 65535, 65535};
};

// The driver says "invalid value" for any wrong argument; the runtime names the launch configuration.
cudaError_t check_configuration(const Driver& cu, dim3 grid, dim3 block) {
    const auto limits_of = [&] {
        Limits l;
        CUdevice device = 0;
        if (cu.cuCtxGetDevice(&device) != CUDA_SUCCESS) return l;
        cu.cuDeviceGetAttribute(&l.block_threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
        for (int i = 0; i < 3; ++i) {
            cu.cuDeviceGetAttribute(&l.block[i],
                                    static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i),
                                    device);
            cu.cuDeviceGetAttribute(
                &l.grid[i], static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i), device);
        }
        return l;
    };
    static const Limits limits = limits_of();
    const auto within = [](unsigned value, int limit) {
        return value >= 1 && value <= static_cast<unsigned>(limit);
    };
    const bool fine = within(grid.x, limits.grid[0]) && within(grid.y, limits.grid[1]) &&
                      within(grid.z, limits.grid[2]) && within(block.x, limits.block[0]) &&
                      within(block.y, limits.block[1]) && within(block.z, limits.block[2]) &&
                      static_cast<unsigned long long>(block.x) * block.y * block.z <=
                          static_cast<unsigned long long>(limits.block_threads);
    return fine ? cudaSuccess : cudaErrorInvalidConfiguration;
}

cudaError_t launch(const Driver& cu, CUkernel kernel, dim3 grid, dim3 block, void** arguments,
                   size_t shared_bytes, cudaStream_t stream, bool cooperative = false) {
    CUDART_TRY(check_configuration(cu, grid, block));
    const auto function = reinterpret_cast<CUfunction>(kernel);
    const auto bytes = static_cast<unsigned>(shared_bytes);
    return to_error(cooperative ? cu.cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x,
                                                               block.y, block.z, bytes, stream, arguments)
                                : cu.cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y,
                                                    block.z, bytes, stream, arguments, nullptr));
}

CUlaunchConfig driver_config(const cudaLaunchConfig_t& c) {
    static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
    CUlaunchConfig out{};
    out.gridDimX = c.gridDim.x, out.gridDimY = c.gridDim.y, out.gridDimZ = c.gridDim.z;
    out.blockDimX = c.blockDim.x, out.blockDimY = c.blockDim.y, out.blockDimZ = c.blockDim.z;
    out.sharedMemBytes = static_cast<unsigned>(c.dynamicSmemBytes);
    out.hStream = c.stream;
    out.attrs = reinterpret_cast<CUlaunchAttribute*>(c.attrs);
    out.numAttrs = c.numAttrs;
    return out;
}

}  // namespace

}  // namespace cudart

using namespace cudart;

// --- what nvcc's code calls
// ---------------------------------------------------------------------------------------------
CUDART_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                   CUstream_st* stream) {
    pushed.push_back({grid, block, shared_bytes, stream});
    return cudaSuccess;
}

CUDART_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                                     void* stream) {
    if (pushed.empty()) return remember(cudaErrorMissingConfiguration);
    const Configuration c = pushed.back();
    pushed.pop_back();
    *grid = c.grid;
    *block = c.block;
    *shared_bytes = c.shared_bytes;
    *static_cast<void**>(stream) = c.stream;
    return cudaSuccess;
}

namespace {
// A stub asks for its kernel once and keeps the answer, so a failure has to be told by its launches too.
std::atomic<cudaError_t> failed_look_up{cudaErrorInvalidDeviceFunction};
}  // namespace

CUDART_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
    const cudaError_t error = run(false, true, [&](const Driver&) {
        if (!is_stub(stub)) return cudaErrorInvalidDeviceFunction;
        return find_kernel(stub, reinterpret_cast<CUkernel*>(kernel));
    });
    if (error != cudaSuccess) failed_look_up = error;
    return remember(error);
}

CUDART_TWIN(__cudaLaunchKernel, _ptsz,
            (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
             cudaStream_t stream),
            (kernel, grid, block, arguments, shared_bytes, stream)) {
    if (!kernel) return failed_look_up;
    return launch(cu, reinterpret_cast<CUkernel>(kernel), grid, block, arguments, shared_bytes, stream);
}

// --- launches by address
// ------------------------------------------------------------------------------------------------
CUDART_TWIN(cudaLaunchKernel, _ptsz,
            (const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
             cudaStream_t stream),
            (stub, grid, block, arguments, shared_bytes, stream)) {
    CUkernel kernel = nullptr;
    CUDART_TRY(find_kernel(stub, &kernel));
    return launch(cu, kernel, grid, block, arguments, shared_bytes, stream);
}

CUDART_TWIN(cudaLaunchCooperativeKernel, _ptsz,
            (const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
             cudaStream_t stream),
            (stub, grid, block, arguments, shared_bytes, stream)) {
    CUkernel kernel = nullptr;
    CUDART_TRY(find_kernel(stub, &kernel));
    return launch(cu, kernel, grid, block, arguments, shared_bytes, stream, true);
}

CUDART_TWIN(cudaLaunchKernelExC, _ptsz,
            (const cudaLaunchConfig_t* config, const void* stub, void** arguments),
            (config, stub, arguments)) {
    if (!config) return cudaErrorInvalidValue;
    CUkernel kernel = nullptr;
    CUDART_TRY(find_kernel(stub, &kernel));
    CUDART_TRY(check_configuration(cu, config->gridDim, config->blockDim));
    const CUlaunchConfig c = driver_config(*config);
    return to_error(cu.cuLaunchKernelEx(&c, reinterpret_cast<CUfunction>(kernel), arguments, nullptr));
}

CUDART_FORWARD_TWIN(cudaLaunchHostFunc, _ptsz, cuLaunchHostFunc,
                    (cudaStream_t stream, cudaHostFn_t function, void* data), (stream, function, data))

// --- functions
// ----------------------------------------------------------------------------------------------------------
CUDART_API(cudaGetKernel, (cudaKernel_t * kernel, const void* stub), (kernel, stub)) {
    (void)cu;
    if (!kernel) return cudaErrorInvalidValue;
    if (!is_stub(stub)) return cudaErrorInvalidDeviceFunction;
    return find_kernel(stub, reinterpret_cast<CUkernel*>(kernel));
}

CUDART_API(cudaGetFuncBySymbol, (cudaFunction_t * function, const void* stub), (function, stub)) {
    (void)cu;
    if (!function) return cudaErrorInvalidValue;
    if (!is_stub(stub)) return cudaErrorInvalidDeviceFunction;
    return find_function(stub, reinterpret_cast<CUfunction*>(function));
}

CUDART_API(cudaFuncGetName, (const char** name, const void* stub), (name, stub)) {
    CUfunction function = nullptr;
    CUDART_TRY(find_function(stub, &function));
    return to_error(cu.cuFuncGetName(name, function));
}

CUDART_API(cudaFuncGetParamInfo, (const void* stub, size_t index, size_t* offset, size_t* bytes),
           (stub, index, offset, bytes)) {
    CUfunction function = nullptr;
    CUDART_TRY(find_function(stub, &function));
    return to_error(cu.cuFuncGetParamInfo(function, index, offset, bytes));
}

CUDART_API(cudaFuncGetAttributes, (cudaFuncAttributes * attributes, const void* stub), (attributes, stub)) {
    if (!attributes) return cudaErrorInvalidValue;
    CUfunction function = nullptr;
    CUDART_TRY(find_function(stub, &function));
    cudaFuncAttributes a{};
    const auto read = [&](auto& out, CUfunction_attribute which) {
        int value = 0;
        if (cu.cuFuncGetAttribute(&value, which, function) == CUDA_SUCCESS)
            out = static_cast<std::remove_reference_t<decltype(out)>>(value);
    };
    int threads = 0;
    CUDART_TRY(to_error(cu.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)));
    a.maxThreadsPerBlock = threads;
    read(a.sharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    read(a.constSizeBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
    read(a.localSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    read(a.numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS);
    read(a.ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION);
    read(a.binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    read(a.cacheModeCA, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
    read(a.maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    read(a.preferredShmemCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    read(a.clusterDimMustBeSet, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
    read(a.requiredClusterWidth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
    read(a.requiredClusterHeight, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
    read(a.requiredClusterDepth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
    read(a.clusterSchedulingPolicyPreference, CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
    read(a.nonPortableClusterSizeAllowed, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    *attributes = a;
    return cudaSuccess;
}

CUDART_API(cudaFuncSetAttribute, (const void* stub, cudaFuncAttribute attribute, int value),
           (stub, attribute, value)) {
    CUfunction function = nullptr;
    CUDART_TRY(find_function(stub, &function));
    return to_error(cu.cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attribute), value));
}

CUDART_API(cudaFuncSetCacheConfig, (const void* stub, cudaFuncCache config), (stub, config)) {
    CUfunction function = nullptr;
    CUDART_TRY(find_function(stub, &function));
    return to_error(cu.cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(config)));
}

// --- occupancy
// ----------------------------------------------------------------------------------------------------------
CUDART_API(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
           (int* blocks, const void* stub, int threads, size_t shared_bytes),
           (blocks, stub, threads, shared_bytes)) {
    CUfunction function = nullptr;
    CUDART_TRY(find_function(stub, &function));
    return to_error(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes));
}

CUDART_API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
           (int* blocks, const void* stub, int threads, size_t shared_bytes, unsigned flags),
           (blocks, stub, threads, shared_bytes, flags)) {
    CUfunction function = nullptr;
    CUDART_TRY(find_function(stub, &function));
    return to_error(cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                            shared_bytes, flags));
}

CUDART_API(cudaOccupancyAvailableDynamicSMemPerBlock,
           (size_t * bytes, const void* stub, int blocks, int threads), (bytes, stub, blocks, threads)) {
    CUfunction function = nullptr;
    CUDART_TRY(find_function(stub, &function));
    return to_error(cu.cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads));
}

CUDART_API(cudaOccupancyMaxPotentialClusterSize,
           (int* size, const void* stub, const cudaLaunchConfig_t* config), (size, stub, config)) {
    if (!config) return cudaErrorInvalidValue;
    CUfunction function = nullptr;
    CUDART_TRY(find_function(stub, &function));
    const CUlaunchConfig c = driver_config(*config);
    return to_error(cu.cuOccupancyMaxPotentialClusterSize(size, function, &c));
}

CUDART_API(cudaOccupancyMaxActiveClusters,
           (int* clusters, const void* stub, const cudaLaunchConfig_t* config), (clusters, stub, config)) {
    if (!config) return cudaErrorInvalidValue;
    CUfunction function = nullptr;
    CUDART_TRY(find_function(stub, &function));
    const CUlaunchConfig c = driver_config(*config);
    return to_error(cu.cuOccupancyMaxActiveClusters(clusters, function, &c));
}
