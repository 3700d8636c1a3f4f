/* What little sense the fake driver has: look-ups, handles, addresses and properties that a runtime above it
 * needs. Memory is never touched. Environment:
 *   FAKE_DRIVER_MISSING=a,b    symbols that cuGetProcAddress answers NOT_FOUND for
 *   FAKE_DRIVER_FAIL=a=2,b=1   symbols that return this error (those without behaviour here)
 *   FAKE_DRIVER_PRIVATE=1      cuGetProcAddress answers with addresses that no symbol has
 *   FAKE_DRIVER_VERSION=N      driver version, 13000 by default
 *   FAKE_DRIVER_MEMORY=BYTES   device memory, 16 GiB by default
 *   FAKE_DRIVER_NO_VMM=1       the device has no virtual memory management
 *   FAKE_DRIVER_COUNT=0        calls are not counted */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"

#define API __attribute__((visibility("default")))

typedef struct {
    const char* name;
    int per_thread;
    int version;
    const char* symbol;
} Abi;
static const Abi abis[] = {
#define FAKE_ABI(name, per_thread, version, symbol) {name, per_thread, version, symbol},
#include "interpose/generated/fake_abis.inc"
#undef FAKE_ABI
};

static const struct fake_entry* find(const char* symbol) {
    for (unsigned i = 0; i < fake_entry_count; ++i) {
        if (!strcmp(fake_entries[i].symbol, symbol)) return &fake_entries[i];
    }
    return NULL;
}

static int listed(const char* variable, const char* word) {
    const char* text = getenv(variable);
    const size_t length = strlen(word);
    while (text && *text) {
        const size_t end = strcspn(text, ",=");
        if (end == length && !strncmp(text, word, length)) {
            return text[end] == '=' ? atoi(text + end + 1) : 1;
        }
        text += strcspn(text, ",");
        if (*text) ++text;
    }
    return 0;
}

static long number(const char* variable, long otherwise) {
    const char* text = getenv(variable);
    return text && *text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void read_environment(void) {
    fake_counting = number("FAKE_DRIVER_COUNT", 1) != 0;
    if (!getenv("FAKE_DRIVER_FAIL")) return;
    for (unsigned i = 0; i < fake_entry_count; ++i) {
        *fake_entries[i].result = listed("FAKE_DRIVER_FAIL", fake_entries[i].symbol);
    }
}

/* For tests. */
API unsigned long fake_count(const char* symbol) {
    const struct fake_entry* entry = find(symbol);
    return entry ? *entry->count : 0;
}
API void fake_reset(void) {
    for (unsigned i = 0; i < fake_entry_count; ++i) *fake_entries[i].count = 0;
}

/* Which symbol a driver answers a request with; NULL: none. */
API const char* fake_choose(const char* name, int version, uint64_t flags) {
    const Abi *best = NULL, *twin = NULL;
    for (unsigned i = 0; i < sizeof abis / sizeof *abis; ++i) {
        if (strcmp(abis[i].name, name) || abis[i].version > version) continue;
        const Abi** slot = abis[i].per_thread ? &twin : &best;
        if (!*slot || abis[i].version > (*slot)->version) *slot = &abis[i];
    }
    if ((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) && twin) best = twin;
    return best ? best->symbol : NULL;
}

/* Finds its counter once; an injected failure comes before anything else, as it does in a driver. */
#define CALL(symbol)                                           \
    do {                                                       \
        static const struct fake_entry* entry_;                \
        if (!entry_) entry_ = find(symbol);                    \
        if (fake_counting) ++*entry_->count;                   \
        if (*entry_->result) return (CUresult)*entry_->result; \
    } while (0)

static CUresult look_up(const char* name, void** function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult* status) {
    if (!name || !function) return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    const char* symbol = listed("FAKE_DRIVER_MISSING", name) ? NULL : fake_choose(name, version, flags);
    const struct fake_entry* entry = symbol ? find(symbol) : NULL;
    if (!strcmp(name, "cuFutureCall")) entry = find("cuProfilerStart");
    if (status) *status = entry ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (!entry) return CUDA_ERROR_NOT_FOUND;
    *function = getenv("FAKE_DRIVER_PRIVATE") ? entry->private_function : entry->function;
    return CUDA_SUCCESS;
}

API CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
    CALL("cuGetProcAddress");
    return look_up(name, function, version, flags, NULL);
}
API CUresult cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult* status) {
    CALL("cuGetProcAddress_v2");
    return look_up(name, function, version, flags, status);
}

/* No private tables: profilers ask for them and call through what they get. */
API CUresult cuGetExportTable(const void** table, const CUuuid* id) {
    CALL("cuGetExportTable");
    (void)table, (void)id;
    return CUDA_ERROR_NOT_FOUND;
}
API CUresult cuDriverGetVersion(int* version) {
    CALL("cuDriverGetVersion");
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = (int)number("FAKE_DRIVER_VERSION", 13000);
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    CALL("cuDeviceGet");
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (ordinal) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGetCount(int* count) {
    CALL("cuDeviceGetCount");
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    CALL("cuDeviceGetName");
    (void)device;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "Fake device");
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    CALL("cuDeviceGetAttribute");
    (void)device;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
            *value = !getenv("FAKE_DRIVER_NO_VMM");
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            *value = 8;
            break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
            *value = 0;
            break;
        default:
            *value = 0;
    }
    return CUDA_SUCCESS;
}
API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
    CALL("cuDeviceTotalMem_v2");
    (void)device;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *bytes = (size_t)number("FAKE_DRIVER_MEMORY", 16l << 30);
    return CUDA_SUCCESS;
}

static CUcontext the_context = (CUcontext)0x1000;
API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    CALL("cuDevicePrimaryCtxRetain");
    (void)device;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = the_context;
    return CUDA_SUCCESS;
}
static __thread CUcontext current; /* of a green context; NULL: the one there is */
API CUresult cuCtxGetCurrent(CUcontext* context) {
    CALL("cuCtxGetCurrent");
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = current ? current : the_context;
    return CUDA_SUCCESS;
}
API CUresult cuCtxSetCurrent(CUcontext context) {
    CALL("cuCtxSetCurrent");
    current = context;
    return CUDA_SUCCESS;
}
API CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx green) {
    CALL("cuCtxFromGreenCtx");
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = (CUcontext)green;
    return CUDA_SUCCESS;
}
API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
    CALL("cuCtxPopCurrent_v2");
    if (context) *context = the_context;
    return CUDA_SUCCESS;
}
API CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params, unsigned flags, CUdevice device) {
    CALL("cuCtxCreate_v4");
    (void)params, (void)flags, (void)device;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = the_context;
    return CUDA_SUCCESS;
}
API CUresult cuCtxGetDevice(CUdevice* device) {
    CALL("cuCtxGetDevice");
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

/* Addresses and handles are only numbers. */
static uintptr_t next_number = 0x10000000000;
static uintptr_t take(size_t bytes, size_t alignment) {
    if (alignment < 2u << 20) alignment = 2u << 20;
    const uintptr_t at = (next_number + alignment - 1) / alignment * alignment;
    next_number = at + (bytes ? bytes : 1);
    return at;
}
static uintptr_t new_handle(void) {
    static uintptr_t last = 0x2000;
    return __atomic_add_fetch(&last, 16, __ATOMIC_RELAXED);
}

API CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
    CALL("cuMemAlloc_v2");
    if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > (size_t)number("FAKE_DRIVER_MEMORY", 16l << 30)) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = take(bytes, 0);
    return CUDA_SUCCESS;
}
API CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
    CALL("cuMemAllocAsync");
    (void)stream;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = take(bytes, 0);
    return CUDA_SUCCESS;
}
API CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
    CALL("cuMemGetInfo_v2");
    const size_t bytes = (size_t)number("FAKE_DRIVER_MEMORY", 16l << 30);
    if (free_bytes) *free_bytes = bytes;
    if (total_bytes) *total_bytes = bytes;
    return CUDA_SUCCESS;
}
API CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
    CALL("cuMemHostAlloc");
    (void)flags;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = aligned_alloc(4096, (bytes + 4095) & ~4095ul);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API CUresult cuMemFreeHost(void* pointer) {
    CALL("cuMemFreeHost");
    free(pointer);
    return CUDA_SUCCESS;
}
API CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr near,
                                 unsigned long long flags) {
    CALL("cuMemAddressReserve");
    (void)near, (void)flags;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = take(bytes, alignment);
    return CUDA_SUCCESS;
}
API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* prop,
                         unsigned long long flags) {
    CALL("cuMemCreate");
    (void)bytes, (void)flags;
    if (!out || !prop) return CUDA_ERROR_INVALID_VALUE;
    if (prop->allocFlags.gpuDirectRDMACapable)
        return CUDA_ERROR_INVALID_DEVICE; /* as the attribute says: not here */
    *out = new_handle();
    return CUDA_SUCCESS;
}
API CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* prop,
                                           CUmemAllocationGranularity_flags option) {
    CALL("cuMemGetAllocationGranularity");
    (void)prop, (void)option;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *bytes = 2u << 20;
    return CUDA_SUCCESS;
}
API CUresult cuStreamCreate(CUstream* out, unsigned flags) {
    CALL("cuStreamCreate");
    (void)flags;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = (CUstream)new_handle();
    return CUDA_SUCCESS;
}
API CUresult cuEventCreate(CUevent* out, unsigned flags) {
    CALL("cuEventCreate");
    (void)flags;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = (CUevent)new_handle();
    return CUDA_SUCCESS;
}
API CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
    CALL("cuEventElapsedTime");
    (void)start, (void)end;
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    *milliseconds = 0.001f;
    return CUDA_SUCCESS;
}
API CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
    CALL("cuEventElapsedTime_v2");
    (void)start, (void)end;
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    *milliseconds = 0.001f;
    return CUDA_SUCCESS;
}
static CUresult not_capturing(CUstreamCaptureStatus* status) {
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    CALL("cuStreamIsCapturing");
    (void)stream;
    return not_capturing(status);
}
API CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
    CALL("cuStreamIsCapturing_ptsz");
    (void)stream;
    return not_capturing(status);
}
/* Every kernel has FAKE_DRIVER_PARAMS (8 by default) parameters of 8 bytes. */
API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
    CALL("cuFuncGetParamInfo");
    (void)function;
    if (index >= (size_t)number("FAKE_DRIVER_PARAMS", 8)) return CUDA_ERROR_INVALID_VALUE;
    if (offset) *offset = 8 * index;
    if (size) *size = 8;
    return CUDA_SUCCESS;
}
API CUresult cuFuncGetName(const char** name, CUfunction function) {
    CALL("cuFuncGetName");
    (void)function;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = "fake_kernel";
    return CUDA_SUCCESS;
}
/* What the last cuLaunchKernelEx was given, for tests. */
static const CUlaunchConfig* last_config;
API const void* fake_last_config(void) {
    return last_config;
}
API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                              void** extra) {
    CALL("cuLaunchKernelEx");
    (void)function, (void)params, (void)extra;
    last_config = config;
    return CUDA_SUCCESS;
}
static CUresult text(const char** out) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = "fake";
    return CUDA_SUCCESS;
}
API CUresult cuGetErrorString(CUresult error, const char** out) {
    CALL("cuGetErrorString");
    (void)error;
    return text(out);
}
API CUresult cuGetErrorName(CUresult error, const char** out) {
    CALL("cuGetErrorName");
    (void)error;
    return text(out);
}
