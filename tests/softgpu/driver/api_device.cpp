// Devices: their properties, and the primary context.
#include <cstdio>
#include <cstring>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/modules.h"

using namespace softgpu;

namespace {

constexpr int kMultiprocessors = 40;

bool valid(CUdevice device) {
    return device >= 0 && device < options().devices;
}

CUresult attribute(CUdevice_attribute which, CUdevice device, int* value) {
    const Options& o = options();
    const bool ampere = o.cc_major >= 8, hopper = o.cc_major >= 9;
    switch (which) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *value = 1024;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
            *value = 1024;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
            *value = 1024;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
            *value = 64;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
            *value = 0x7fffffff;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
            *value = 65535;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
            *value = 65535;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
            *value = kSharedPerBlock;
            break;
        case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
            *value = 65536;
            break;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
            *value = 32;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
            *value = 0x7fffffff;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
            *value = 65536;
            break;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
            *value = 100'000;
            break;  // kHz; low, so that programs that spin by the clock end soon
        case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
            *value = 512;
            break;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
            *value = 32;
            break;
        case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
            *value = 512;
            break;
        case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            *value = kMultiprocessors;
            break;
        case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_INTEGRATED:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
            *value = CU_COMPUTEMODE_DEFAULT;
            break;
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
            *value = device + 1;
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_TCC_DRIVER:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
            *value = 1'000'000;
            break;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
            *value = static_cast<int>(o.memory_bytes_per_s / 1e9 * 4);
            break;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
            *value = 4 << 20;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
            *value = ampere && o.cc_minor != 6 ? 2048 : 1024;
            break;
        case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
            *value = 2;
            break;
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            *value = o.cc_major;
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            *value = o.cc_minor;
            break;
        case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
            *value = static_cast<int>(shared_per_block_optin() + (ampere ? 1024 : 0));
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
            *value = 65536;
            break;
        case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
            *value = device;
            break;
        case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
            *value = 32;
            break;
        case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
            *value = static_cast<int>(shared_per_block_optin());
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
            *value = o.vmm;
            break;
        case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
            *value = o.vmm;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
            *value = ampere ? 32 : 16;
            break;
        case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
            *value = ampere ? 3 << 20 : 0;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE:
            *value = ampere ? 128 << 20 : 0;
            break;
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
            *value = ampere ? 1024 : 0;
            break;
        case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
            *value = hopper;
            break;
        case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_NUMA_CONFIG:
            *value = CU_DEVICE_NUMA_CONFIG_NONE;
            break;
        case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
            *value = 0;
            break;
        case CU_DEVICE_ATTRIBUTE_NUMA_ID:
            *value = -1;
            break;
        case CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID:
            *value = 0;
            break;
        // Image sizes: what textures could be, though arrays and textures themselves are absent.
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH:
            *value = 131072;
            break;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH:
            *value = 1 << 28;
            break;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH:
            *value = 131072;
            break;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT:
            *value = 65536;
            break;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH:
            *value = 16384;
            break;
        default:
            if (which <= 0 || which >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
            *value = 0;  // a feature that this device doesn't have
    }
    return CUDA_SUCCESS;
}

void fill_uuid(CUuuid* uuid, CUdevice device) {
    std::memset(uuid->bytes, 0, sizeof uuid->bytes);
    std::memcpy(uuid->bytes, "softgpu", 7);
    uuid->bytes[15] = static_cast<char>(device);
}

}  // namespace

SOFTCU cuDeviceGet(CUdevice* device, int ordinal) {
    SOFTGPU_CALL(kFree);
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceGetCount(int* count) {
    SOFTGPU_CALL(kFree);
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = options().devices;
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceGetName(char* name, int length, CUdevice device) {
    SOFTGPU_CALL(kFree);
    if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<std::size_t>(length), "Software GPU");
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    SOFTGPU_CALL(kFree);
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    fill_uuid(uuid, device);
    return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
SOFTCU cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    SOFTGPU_CALL(kFree);
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    fill_uuid(uuid, device);
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
    SOFTGPU_CALL(kFree);
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = options().memory;
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
    SOFTGPU_CALL(kFree);
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    return attribute(which, device, value);
}

SOFTCU cuDeviceGetProperties(CUdevprop* p, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    *p = {1024,
          {1024, 1024, 64},
          {0x7fffffff, 65535, 65535},
          kSharedPerBlock,
          65536,
          32,
          0x7fffffff,
          65536,
          100'000,
          512};
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    *major = options().cc_major;
    *minor = options().cc_minor;
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (!text || length < 13) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0",
                  static_cast<unsigned>(device + 1) & 0xff);
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
    SOFTGPU_CALL(kPlain);
    if (!device || !text) return CUDA_ERROR_INVALID_VALUE;
    unsigned domain = 0, bus = 0, slot = 0;
    if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) < 3 &&
        std::sscanf(text, "%x:%x", &bus, &slot) < 2)
        return CUDA_ERROR_INVALID_VALUE;
    if (domain != 0 || slot != 0 || !valid(static_cast<int>(bus) - 1)) return CUDA_ERROR_INVALID_DEVICE;
    *device = static_cast<int>(bus) - 1;
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceGetTexture1DLinearMaxWidth(size_t* width, CUarray_format, unsigned, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (!width) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    *width = 1 << 28;
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (!supported) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    *supported = 0;
    return CUDA_SUCCESS;
}

// ---- peers ----

SOFTCU cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    SOFTGPU_CALL(kPlain);
    if (!can) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device) || !valid(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute which, CUdevice source, CUdevice target) {
    SOFTGPU_CALL(kPlain);
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(source) || !valid(target)) return CUDA_ERROR_INVALID_DEVICE;
    if (source == target) return CUDA_ERROR_INVALID_DEVICE;
    *value = which == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    return CUDA_SUCCESS;
}

// ---- primary context ----

SOFTCU cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    Device& d = driver().devices[static_cast<std::size_t>(device)];
    if (!d.primary) d.primary = make_context(device, d.primary_flags, true);
    ++d.primary->primary_count;
    *context = d.primary;
    return CUDA_SUCCESS;
}

SOFTCU cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    Device& d = driver().devices[static_cast<std::size_t>(device)];
    if (!d.primary || d.primary->primary_count == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--d.primary->primary_count == 0) {
        wait_for_context(call.lock(), d.primary);
        destroy_context(d.primary);
        d.primary = nullptr;
    }
    return CUDA_SUCCESS;
}

SOFTCU cuDevicePrimaryCtxReset_v2(CUdevice device) {
    SOFTGPU_CALL(kUnsafe);
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    Device& d = driver().devices[static_cast<std::size_t>(device)];
    if (!d.primary) return CUDA_SUCCESS;
    wait_for_context(call.lock(), d.primary);
    destroy_context(d.primary);
    d.primary = nullptr;
    return CUDA_SUCCESS;
}

SOFTCU cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    SOFTGPU_CALL(kPlain);
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    Device& d = driver().devices[static_cast<std::size_t>(device)];
    d.primary_flags = flags;
    if (d.primary) d.primary->flags = flags;
    return CUDA_SUCCESS;
}

SOFTCU cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    SOFTGPU_CALL(kFree);
    if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
    const Device& d = driver().devices[static_cast<std::size_t>(device)];
    if (flags) *flags = d.primary_flags;
    if (active) *active = d.primary != nullptr;
    return CUDA_SUCCESS;
}
