// Initialisation, errors, the look-up of entry points, and the profiler's switches.
#include <cstring>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/proc_table.h"
#include "tests/softgpu/driver/stats.h"

using namespace softgpu;

namespace {

constexpr int kDriverVersion = 13000;

CUresult look_up(const char* name, void** address, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
    if (!name || !address) return CUDA_ERROR_INVALID_VALUE;
    constexpr cuuint64_t known =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if ((flags & ~known) || flags == known) return CUDA_ERROR_INVALID_VALUE;
    const bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const ProcEntry* best = nullptr;
    bool named = false;
    for (std::size_t i = 0; i < kProcTableSize; ++i) {
        const ProcEntry& e = kProcTable[i];
        if (std::strcmp(e.name, name) != 0) continue;
        named = true;
        if (e.version > version || (e.per_thread && !per_thread)) continue;
        // The per-thread flavour wins over a plain one of any version.
        if (!best || (e.per_thread && !best->per_thread) ||
            (e.per_thread == best->per_thread && e.version > best->version))
            best = &e;
    }
    *address = best ? best->address : nullptr;
    if (status)
        *status = best    ? CU_GET_PROC_ADDRESS_SUCCESS
                  : named ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (best) return CUDA_SUCCESS;
    // With a status to say it by, a missing symbol is an answer and not an error.
    return status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

SOFTCU cuInit(unsigned flags) {
    SOFTGPU_CALL(kNoInit);
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Driver& d = driver();
    if (options().devices == 0) return CUDA_ERROR_NO_DEVICE;
    if (d.initialised) return CUDA_SUCCESS;
    for (int i = 0; i < options().devices; ++i) {
        d.devices.push_back({});
        d.devices.back().index = i;
        d.memory.add_device();
        d.sim.add_device();
    }
    d.initialised = true;
    d.watch_idleness();
    return CUDA_SUCCESS;
}

SOFTCU cuDriverGetVersion(int* version) {
    SOFTGPU_CALL(kFree | kNoInit);
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = kDriverVersion;
    return CUDA_SUCCESS;
}

SOFTCU cuGetErrorName(CUresult error, const char** text) {
    SOFTGPU_CALL(kFree | kNoInit);
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = result_name(error);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTCU cuGetErrorString(CUresult error, const char** text) {
    SOFTGPU_CALL(kFree | kNoInit);
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = result_description(error);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTCU cuGetProcAddress_v2(const char* name, void** address, int version, cuuint64_t flags,
                           CUdriverProcAddressQueryResult* status) {
    SOFTGPU_CALL(kFree | kNoInit);
    return look_up(name, address, version, flags, status);
}

#undef cuGetProcAddress
SOFTCU cuGetProcAddress(const char* name, void** address, int version, cuuint64_t flags) {
    SOFTGPU_CALL(kFree | kNoInit);
    return look_up(name, address, version, flags, nullptr);
}

/// This driver has none of the private tables, and says so: callers that can do without them (NVRTC) go on.
extern "C" SOFTGPU_EXPORT CUresult cuGetExportTable(const void** table, const CUuuid* id);
SOFTCU cuGetExportTable(const void** table, const CUuuid* id) {
    SOFTGPU_CALL(kNoInit | kFree);
    if (!table || !id) return CUDA_ERROR_INVALID_VALUE;
    *table = nullptr;
    return CUDA_ERROR_NOT_FOUND;
}

SOFTCU cuProfilerStart(void) {
    SOFTGPU_CALL(kContext);
    return CUDA_SUCCESS;
}

SOFTCU cuProfilerStop(void) {
    SOFTGPU_CALL(kContext);
    return CUDA_SUCCESS;
}

/// For tests: files the figures so far under a label into the statistics, and starts peaks anew.
extern "C" SOFTGPU_EXPORT void softgpu_snapshot(const char* label) {
    Driver& d = driver();
    Lock lock(d.mutex);
    d.stats->snapshots.push_back({label ? label : "", d.stats->json()});
    d.memory.reset_peaks();
}

/// For tests: the virtual time of the calling thread and of the device, and findings so far.
extern "C" SOFTGPU_EXPORT void softgpu_now(unsigned long long* host_ns, unsigned long long* device_ns) {
    Driver& d = driver();
    Lock lock(d.mutex);
    if (host_ns) *host_ns = std::max(thread_state().time, thread_state().started ? Time{0} : d.sim.now());
    if (device_ns) *device_ns = d.sim.now();
}

extern "C" SOFTGPU_EXPORT unsigned long long softgpu_count(const char* what) {
    Driver& d = driver();
    Lock lock(d.mutex);
    const std::string name = what;
    const Stats& s = *d.stats;
    if (name == "strictness") return s.strictness_errors;
    if (name == "races") return s.races;
    if (name == "illegal") return s.illegal_accesses;
    if (name == "kernels") return s.kernels;
    if (name == "host-memory") return d.memory.host_used();
    if (name == "device-memory") return d.initialised ? d.memory.used(0) : 0;
    const auto it = s.calls.find(name);
    return it == s.calls.end() ? 0 : it->second;
}
