// Legacy IPC. Handles are made for memory of cuMemAlloc and refused for mapped, pooled and managed memory, as the
// platform does. They can be opened by other processes on a real device; here memory is private to the process, so
// opening works as the platform's does in the exporting process: it is refused.
#include <unistd.h>

#include <cstring>

#include "tests/softgpu/driver/api.h"

using namespace softgpu;

namespace {

struct Handle {
    char magic[8];
    std::uint64_t pid, address;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

CUresult open_memory(CUdeviceptr* address, const CUipcMemHandle& handle, unsigned flags) {
    Handle h;
    std::memcpy(&h, &handle, sizeof h);
    if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (std::memcmp(h.magic, "softipc", 8) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (h.pid == static_cast<std::uint64_t>(getpid())) return CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_ERROR_MAP_FAILED;
}

}  // namespace

SOFTCU cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
    SOFTGPU_CALL(kContext);
    const Span* span = driver().memory.find(address);
    if (!handle || !span || span->kind != SpanKind::device) return CUDA_ERROR_INVALID_VALUE;
    std::memset(handle, 0, sizeof *handle);
    const Handle h{{'s', 'o', 'f', 't', 'i', 'p', 'c', 0}, static_cast<std::uint64_t>(getpid()), span->begin};
    std::memcpy(handle, &h, sizeof h);
    return CUDA_SUCCESS;
}

SOFTCU cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return open_memory(address, handle, flags);
}

SOFTCU cuIpcCloseMemHandle(CUdeviceptr) {
    SOFTGPU_CALL(kContext);
    return CUDA_ERROR_INVALID_VALUE;
}

SOFTCU cuIpcGetEventHandle(CUipcEventHandle*, CUevent) {
    SOFTGPU_CALL(kContext);
    return CUDA_ERROR_NOT_SUPPORTED;
}

SOFTCU cuIpcOpenEventHandle(CUevent*, CUipcEventHandle) {
    SOFTGPU_CALL(kContext);
    return CUDA_ERROR_NOT_SUPPORTED;
}
