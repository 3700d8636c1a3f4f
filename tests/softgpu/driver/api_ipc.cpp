// Legacy IPC. Handles are made for memory of cuMemAlloc and refused for mapped, pooled and managed memory, as
// the platform does. A handle names the exporting process's backing file and the place in it; the importer
// opens the file through /proc, so both processes must belong to the same user. Virtual time is each
// process's own.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/softgpu/driver/api.h"

namespace softgpu {

SharedEvent::SharedEvent(int given) : fd(given) {
    if (fd < 0) {
        fd = memfd_create("softgpu-event", MFD_CLOEXEC);
        if (ftruncate(fd, 4096) != 0) say("error: cannot size the memory of an interprocess event");
    }
    state = static_cast<State*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
}

SharedEvent::~SharedEvent() {
    munmap(state, 4096);
    close(fd);
}

}  // namespace softgpu

using namespace softgpu;

namespace {

constexpr char kMemoryMagic[8] = "softmem", kEventMagic[8] = "softevt";

struct Handle {
    char magic[8];
    std::int32_t pid, fd;
    std::uint64_t offset, bytes;
    std::int32_t device;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

int open_foreign(const Handle& h) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

CUresult open_memory(Call& call, CUdeviceptr* address, const CUipcMemHandle& handle, unsigned flags) {
    Handle h;
    std::memcpy(&h, &handle, sizeof h);
    if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (std::memcmp(h.magic, kMemoryMagic, 8) != 0 || h.device >= options().devices)
        return CUDA_ERROR_INVALID_VALUE;
    if (h.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // not in the process that made it
    const int fd = open_foreign(h);
    if (fd < 0) return CUDA_ERROR_MAP_FAILED;
    Memory& memory = driver().memory;
    const std::uint64_t first = h.offset / kPage * kPage, into = h.offset - first;
    const std::uint64_t pages = (into + h.bytes + kPage - 1) / kPage * kPage;
    const std::uint64_t at = memory.reserve(pages, kPage);
    if (!at) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    Span span;
    span.begin = at + into;
    span.end = span.begin + h.bytes;
    span.kind = SpanKind::ipc;
    span.device = h.device;
    span.context = call.context();
    span.own_file = std::make_shared<BackingFile>(fd);
    span.file = span.own_file.get();
    span.offset = h.offset;
    span.access[static_cast<std::size_t>(h.device)] = kReadWrite;
    span.access[static_cast<std::size_t>(call.context()->device)] = kReadWrite;
    span.born = driver().next_op;
    memory.map(at, pages, *span.file, first);
    *address = memory.add(std::move(span)).begin;
    return CUDA_SUCCESS;
}

}  // namespace

SOFTCU cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
    SOFTGPU_CALL(kContext);
    const Span* span = driver().memory.find(address);
    if (!handle || !span || span->kind != SpanKind::device) return CUDA_ERROR_INVALID_VALUE;
    std::memset(handle, 0, sizeof *handle);
    Handle h{{}, getpid(), span->file->fd(), span->offset, span->bytes(), span->device};
    std::memcpy(h.magic, kMemoryMagic, 8);
    std::memcpy(handle, &h, sizeof h);
    return CUDA_SUCCESS;
}

SOFTCU cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
    SOFTGPU_CALL(kContext | kUnsafe);
    return open_memory(call, address, handle, flags);
}

SOFTCU cuIpcCloseMemHandle(CUdeviceptr address) {
    SOFTGPU_CALL(kContext | kUnsafe);
    Span* span = driver().memory.find(address);
    if (!span || span->kind != SpanKind::ipc || span->begin != address) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = wait_for_context(call.lock(), call.context());
    driver().memory.free(*span);
    return r;
}

SOFTCU cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
    SOFTGPU_CALL(kContext);
    const EventRef e = resolve_event(event);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (!handle || !e->shared) return CUDA_ERROR_INVALID_VALUE;
    std::memset(handle, 0, sizeof *handle);
    Handle h{{}, getpid(), e->shared->fd, 0, 0, 0};
    std::memcpy(h.magic, kEventMagic, 8);
    std::memcpy(handle, &h, sizeof h);
    return CUDA_SUCCESS;
}

SOFTCU cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
    SOFTGPU_CALL(kContext);
    Handle h;
    std::memcpy(&h, &handle, sizeof h);
    if (!event || std::memcmp(h.magic, kEventMagic, 8) != 0) return CUDA_ERROR_INVALID_VALUE;
    const int fd = open_foreign(h);
    if (fd < 0) return CUDA_ERROR_MAP_FAILED;
    auto made = std::make_shared<CUevent_st>();
    made->context = call.context();
    made->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    made->shared = std::make_shared<SharedEvent>(fd);
    driver().alive[made.get()] = Kind::event;
    driver().events[made.get()] = made;
    *event = made.get();
    return CUDA_SUCCESS;
}
