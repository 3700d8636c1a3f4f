// Devices and contexts: each thread has a device; its primary context is created by the first call that needs
// one.
#include <mutex>
#include <vector>

#include "api.h"

namespace cudart {

namespace {

thread_local int device_of_thread = 0;

// Primary contexts that this runtime has retained; they are released by cudaDeviceReset or never.
std::mutex contexts_mutex;
std::vector<CUcontext>& contexts() {
    static auto* all = new std::vector<CUcontext>;
    return *all;
}

cudaError_t device_count(int* count) {
    return to_error(driver().cuDeviceGetCount(count));
}

cudaError_t check_device(int device) {
    int count = 0;
    CUDART_TRY(device_count(&count));
    if (count == 0) return cudaErrorNoDevice;
    return device < 0 || device >= count ? cudaErrorInvalidDevice : cudaSuccess;
}

}  // namespace

int thread_device() {
    return device_of_thread;
}

cudaError_t primary_context(int device, CUcontext* context) {
    CUDART_TRY(check_device(device));
    std::lock_guard lock(contexts_mutex);
    auto& all = contexts();
    const auto index = static_cast<std::size_t>(device);
    if (all.size() <= index) all.resize(index + 1);
    if (!all[index]) {
        const auto& cu = driver();
        CUdevice handle = 0;
        CUDART_TRY(to_error(cu.cuDeviceGet(&handle, device)));
        CUDART_TRY(to_error(cu.cuDevicePrimaryCtxRetain(&all[index], handle)));
    }
    *context = all[index];
    return cudaSuccess;
}

cudaError_t ensure_context() {
    const auto& cu = driver();
    CUcontext current = nullptr;
    CUDART_TRY(to_error(cu.cuCtxGetCurrent(&current)));
    if (current) return cudaSuccess;
    CUDART_TRY(primary_context(device_of_thread, &current));
    return to_error(cu.cuCtxSetCurrent(current));
}

}  // namespace cudart

using namespace cudart;

CUDART_API_NC(cudaGetDeviceCount, (int* count), (count)) {
    if (!count) return cudaErrorInvalidValue;
    CUDART_TRY(to_error(cu.cuDeviceGetCount(count)));
    return *count ? cudaSuccess : cudaErrorNoDevice;
}

CUDART_API_NC(cudaSetDevice, (int device), (device)) {
    CUcontext context = nullptr;
    CUDART_TRY(primary_context(device, &context));
    CUDART_TRY(to_error(cu.cuCtxSetCurrent(context)));
    device_of_thread = device;
    return cudaSuccess;
}

CUDART_API_NC(cudaInitDevice, (int device, unsigned flags, unsigned), (device, flags, 0u)) {
    CUDART_TRY(check_device(device));
    if (flags) CUDART_TRY(to_error(cu.cuDevicePrimaryCtxSetFlags(device, flags)));
    CUcontext context = nullptr;
    return primary_context(device, &context);
}

CUDART_API_NC(cudaGetDevice, (int* device), (device)) {
    if (!device) return cudaErrorInvalidValue;
    CUdevice current = 0;
    // A context that the program made current through the driver decides.
    *device = cu.cuCtxGetDevice(&current) == CUDA_SUCCESS ? current : device_of_thread;
    return check_device(*device);
}

CUDART_API_NC(cudaSetValidDevices, (int* devices, int count), (devices, count)) {
    if (count < 0 || (count > 0 && !devices)) return cudaErrorInvalidValue;
    for (int i = 0; i < count; ++i) CUDART_TRY(check_device(devices[i]));
    if (count > 0) device_of_thread = devices[0];
    return cudaSuccess;
}

CUDART_API_NC(cudaSetDeviceFlags, (unsigned flags), (flags)) {
    return to_error(cu.cuDevicePrimaryCtxSetFlags(device_of_thread, flags));
}

CUDART_API_NC(cudaGetDeviceFlags, (unsigned* flags), (flags)) {
    if (!flags) return cudaErrorInvalidValue;
    CUcontext current = nullptr;
    if (cu.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current) return to_error(cu.cuCtxGetFlags(flags));
    int active = 0;
    return to_error(cu.cuDevicePrimaryCtxGetState(device_of_thread, flags, &active));
}

CUDART_API_NC(cudaChooseDevice, (int* device, const cudaDeviceProp* wanted), (device, wanted)) {
    if (!device || !wanted) return cudaErrorInvalidValue;
    int count = 0, best_score = -1;
    CUDART_TRY(device_count(&count));
    for (int i = 0; i < count; ++i) {
        cudaDeviceProp p{};
        CUDART_TRY(cudaGetDeviceProperties(&p, i));
        const int score = (p.major >= wanted->major) + (p.totalGlobalMem >= wanted->totalGlobalMem);
        if (score > best_score) best_score = score, *device = i;
    }
    return count ? cudaSuccess : cudaErrorNoDevice;
}

// Without a context for the thread's device there is nothing to do; the next call makes a new one.
CUDART_EXPORT cudaError_t cudaDeviceReset() {
    const auto reset = [] {
        CUDART_TRY(to_error(load_driver()));
        const auto& cu = driver();
        int device = 0;
        CUDART_TRY(cudaGetDevice(&device));
        std::lock_guard lock(contexts_mutex);
        auto& all = contexts();
        const auto index = static_cast<std::size_t>(device);
        if (index >= all.size() || !all[index]) return cudaSuccess;
        all[index] = nullptr;
        CUDART_TRY(to_error(cu.cuDevicePrimaryCtxReset(device)));
        cu.cuDevicePrimaryCtxRelease(device);
        cu.cuCtxSetCurrent(nullptr);
        return cudaSuccess;
    };
    forget_last_error();
    return remember(reset());
}

CUDART_API0(cudaDeviceSynchronize) {
    return to_error(cu.cuCtxSynchronize());
}
CUDART_API0(cudaCtxResetPersistingL2Cache) {
    return to_error(cu.cuCtxResetPersistingL2Cache());
}
CUDART_API0(cudaProfilerStart) {
    return to_error(cu.cuProfilerStart());
}
CUDART_API0(cudaProfilerStop) {
    return to_error(cu.cuProfilerStop());
}

CUDART_FORWARD(cudaDeviceSetLimit, cuCtxSetLimit, (cudaLimit limit, size_t value), (limit, value))
CUDART_FORWARD(cudaDeviceGetLimit, cuCtxGetLimit, (size_t * value, cudaLimit limit), (value, limit))
CUDART_FORWARD(cudaDeviceGetCacheConfig, cuCtxGetCacheConfig, (cudaFuncCache * config), (config))
CUDART_FORWARD(cudaDeviceSetCacheConfig, cuCtxSetCacheConfig, (cudaFuncCache config), (config))
CUDART_FORWARD(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int* least, int* greatest),
               (least, greatest))
CUDART_FORWARD(cudaDeviceFlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites,
               (cudaFlushGPUDirectRDMAWritesTarget target, cudaFlushGPUDirectRDMAWritesScope scope),
               (target, scope))

// --- peers
// ------------------------------------------------------------------------------------------------------------
CUDART_FORWARD_NC(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int* can, int device, int peer),
                  (can, device, peer))
CUDART_FORWARD_NC(cudaDeviceGetP2PAttribute, cuDeviceGetP2PAttribute,
                  (int* value, cudaDeviceP2PAttr attribute, int from, int to), (value, attribute, from, to))

CUDART_API(cudaDeviceEnablePeerAccess, (int peer, unsigned flags), (peer, flags)) {
    CUcontext context = nullptr;
    CUDART_TRY(primary_context(peer, &context));
    return to_error(cu.cuCtxEnablePeerAccess(context, flags));
}
CUDART_API(cudaDeviceDisablePeerAccess, (int peer), (peer)) {
    CUcontext context = nullptr;
    CUDART_TRY(primary_context(peer, &context));
    return to_error(cu.cuCtxDisablePeerAccess(context));
}
