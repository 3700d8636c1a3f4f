// Virtual memory management, with every rule enforced that hardware lets pass or only documents.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include "tests/softgpu/driver/api.h"

using namespace softgpu;

namespace {

using ull = unsigned long long;

CUresult check_prop(const CUmemAllocationProp* prop) {
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    const int where = prop->location.type;
    if (where == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (prop->location.id < 0 || prop->location.id >= options().devices) return CUDA_ERROR_INVALID_DEVICE;
    } else if (where != CU_MEM_LOCATION_TYPE_HOST && where != CU_MEM_LOCATION_TYPE_HOST_NUMA &&
               where != CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    constexpr int handles = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (prop->requestedHandleTypes & ~handles) return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->allocFlags.gpuDirectRDMACapable) return CUDA_ERROR_INVALID_DEVICE;  // attribute says no
    return CUDA_SUCCESS;
}

/// The reservation that holds [address, +bytes); its end through `end`.
bool reserved(std::uint64_t address, std::uint64_t bytes) {
    const auto& all = driver().memory.reservations;
    auto it = all.upper_bound(address);
    if (it == all.begin()) return false;
    --it;
    return address + bytes <= it->first + it->second && address + bytes > address;
}

}  // namespace

SOFTCU cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t align, CUdeviceptr hint,
                           unsigned long long flags) {
    SOFTGPU_CALL(kPlain);
    if (!options().vmm) return CUDA_ERROR_NOT_SUPPORTED;
    if (!address || bytes == 0 || bytes % kPage || flags || (align & (align - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    Memory& memory = driver().memory;
    const std::uint64_t at = memory.reserve(bytes, align, hint);
    if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
    memory.reservations[at] = bytes;
    *address = at;
    return CUDA_SUCCESS;
}

SOFTCU cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    SOFTGPU_CALL(kPlain);
    Memory& memory = driver().memory;
    const auto it = memory.reservations.find(address);
    if (it == memory.reservations.end() || it->second != bytes) return CUDA_ERROR_INVALID_VALUE;
    const auto mapped = memory.spans().lower_bound(address);
    if (mapped != memory.spans().end() && mapped->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
    memory.reservations.erase(it);
    memory.unreserve(address, bytes);
    return CUDA_SUCCESS;
}

SOFTCU cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                     CUmemAllocationGranularity_flags) {
    SOFTGPU_CALL(kFree);
    if (!options().vmm) return CUDA_ERROR_NOT_SUPPORTED;
    if (!granularity) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = check_prop(prop); r != CUDA_SUCCESS) return r;
    *granularity = kPage;
    return CUDA_SUCCESS;
}

SOFTCU cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* prop,
                   unsigned long long flags) {
    SOFTGPU_CALL(kUnsafe | kCreateCost);
    if (!options().vmm) return CUDA_ERROR_NOT_SUPPORTED;
    if (!handle || flags || bytes == 0 || bytes % kPage) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = check_prop(prop); r != CUDA_SUCCESS) return r;
    const int device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : -1;
    const auto physical = driver().memory.create(device, bytes, *prop);
    if (!physical) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = physical->id;
    return CUDA_SUCCESS;
}

SOFTCU cuMemRelease(CUmemGenericAllocationHandle handle) {
    SOFTGPU_CALL(kUnsafe);
    Memory& memory = driver().memory;
    const auto physical = memory.handle(handle);
    if (!physical) return CUDA_ERROR_INVALID_VALUE;
    memory.drop_reference(physical);  // the memory goes with its last mapping
    return CUDA_SUCCESS;
}

SOFTCU cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                unsigned long long flags) {
    SOFTGPU_CALL(kUnsafe | kMapCost);
    Memory& memory = driver().memory;
    const auto physical = memory.handle(handle);
    if (!physical) return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || flags != 0 || bytes == 0 || bytes % kPage || address % kPage ||
        bytes > physical->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!reserved(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    const auto next = memory.spans().lower_bound(address);
    if (memory.find(address) || (next != memory.spans().end() && next->first < address + bytes))
        return CUDA_ERROR_INVALID_VALUE;  // something is mapped there
    if (options().strict && bytes != physical->bytes)
        report_strictness("cuMemMap of %llu bytes of a handle of %llu bytes: map whole handles",
                          static_cast<ull>(bytes), static_cast<ull>(physical->bytes));
    memory.map(address, bytes, *physical->file, physical->offset);
    Span span;
    span.begin = address;
    span.end = address + bytes;
    span.kind = SpanKind::mapped;
    span.device = physical->device;
    span.context = current_context();
    span.file = physical->file;
    span.offset = physical->offset;
    span.physical = physical;
    span.born = driver().next_op;
    ++physical->mappings;
    memory.add(std::move(span));
    return CUDA_SUCCESS;
}

SOFTCU cuMemUnmap(CUdeviceptr address, size_t bytes) {
    SOFTGPU_CALL(kUnsafe | kMapCost);
    if (bytes == 0 || bytes % kPage || address % kPage) return CUDA_ERROR_INVALID_VALUE;
    Memory& memory = driver().memory;
    // Whole mappings only, and the range must be full of them.
    std::vector<Span*> doomed;
    bool whole = true;
    const bool covered =
        memory.cover(address, bytes, [&](Span& span, std::uint64_t first, std::uint64_t last) {
            whole &= span.kind == SpanKind::mapped && first == span.begin && last == span.end;
            doomed.push_back(&span);
        });
    if (!covered || !whole) return CUDA_ERROR_INVALID_VALUE;
    if (options().strict)
        for (const Span* span : doomed)
            if (const Use* use = use_in_flight(*span)) {
                report_strictness(
                    "cuMemUnmap of [0x%llx, +%llu) while %s (stream slot %u, #%llu) that uses it is not "
                    "known to be complete: synchronise with it first",
                    static_cast<ull>(span->begin), static_cast<ull>(span->bytes()), use->name->c_str(),
                    use->slot, static_cast<ull>(use->sequence));
                return CUDA_ERROR_ILLEGAL_STATE;
            }
    for (Span* span : doomed) {
        const auto physical = span->physical;
        memory.unmap(span->begin, span->bytes());
        memory.remove(*span);
        memory.drop_mapping(physical);
    }
    return CUDA_SUCCESS;
}

SOFTCU cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count) {
    SOFTGPU_CALL(kUnsafe | kMapCost);
    if (!access || count == 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (address % kPage || bytes % kPage) return CUDA_ERROR_INVALID_VALUE;
    Memory& memory = driver().memory;
    bool whole = true;
    const bool covered =
        memory.cover(address, bytes, [&](Span& span, std::uint64_t first, std::uint64_t last) {
            whole &= span.kind == SpanKind::mapped && first == span.begin && last == span.end;
        });
    if (!covered || !whole) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
        const CUmemLocation& where = access[i].location;
        const bool device = where.type == CU_MEM_LOCATION_TYPE_DEVICE;
        if (device && (where.id < 0 || where.id >= options().devices)) return CUDA_ERROR_INVALID_DEVICE;
        if (!device && where.type != CU_MEM_LOCATION_TYPE_HOST &&
            where.type != CU_MEM_LOCATION_TYPE_HOST_NUMA)
            return CUDA_ERROR_INVALID_VALUE;
        if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) continue;
        memory.cover(address, bytes, [&](Span& span, std::uint64_t, std::uint64_t) {
            span.access[static_cast<std::size_t>(access[i].location.id)] =
                static_cast<std::uint8_t>(access[i].flags);
        });
    }
    return CUDA_SUCCESS;
}

SOFTCU cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
    SOFTGPU_CALL(kPlain);
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (location->id < 0 || location->id >= options().devices) return CUDA_ERROR_INVALID_DEVICE;
    const Span* span = driver().memory.find(address);
    if (!span || span->kind != SpanKind::mapped) return CUDA_ERROR_INVALID_VALUE;
    *flags = span->access[static_cast<std::size_t>(location->id)];
    return CUDA_SUCCESS;
}

SOFTCU cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                              CUmemGenericAllocationHandle handle) {
    SOFTGPU_CALL(kPlain);
    const auto physical = driver().memory.handle(handle);
    if (!prop || !physical) return CUDA_ERROR_INVALID_VALUE;
    *prop = physical->prop;
    return CUDA_SUCCESS;
}

SOFTCU cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
    SOFTGPU_CALL(kPlain);
    const Span* span = driver().memory.find(reinterpret_cast<std::uint64_t>(address));
    if (!handle || !span || span->kind != SpanKind::mapped) return CUDA_ERROR_INVALID_VALUE;
    ++span->physical->references;
    *handle = span->physical->id;
    return CUDA_SUCCESS;
}

// Exported memory has a backing file of its own, whose descriptor is the shareable handle. A descriptor that
// this process exported leads back to the same memory; any other is taken for another process's export.
namespace {

std::map<int, std::weak_ptr<Physical>>& exported() {
    static auto* const all = new std::map<int, std::weak_ptr<Physical>>;
    return *all;
}

std::shared_ptr<Physical> adopt_foreign(int fd) {
    char link[64], name[128] = {};
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    struct stat status {};
    int device = -1;
    if (readlink(link, name, sizeof name - 1) < 0 || fstat(fd, &status) != 0) return nullptr;
    if (std::sscanf(name, "/memfd:softgpu-vmm-%d", &device) != 1 || device >= options().devices)
        return nullptr;
    auto physical = std::make_shared<Physical>();
    physical->own_file = std::make_shared<BackingFile>(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    physical->file = physical->own_file.get();
    physical->bytes = static_cast<std::uint64_t>(status.st_size);
    physical->device = device;
    physical->imported = true;
    physical->references = 0;
    physical->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    physical->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    physical->prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    driver().memory.adopt(physical);
    return physical;
}

}  // namespace

SOFTCU cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                    CUmemAllocationHandleType type, unsigned long long flags) {
    SOFTGPU_CALL(kPlain);
    const auto physical = driver().memory.handle(handle);
    if (!shareable || flags || !physical) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    if (!(physical->prop.requestedHandleTypes & type)) return CUDA_ERROR_INVALID_VALUE;
    const int fd = fcntl(physical->file->fd(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    exported()[fd] = physical;
    *static_cast<int*>(shareable) = fd;
    return CUDA_SUCCESS;
}

SOFTCU cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                      CUmemAllocationHandleType type) {
    SOFTGPU_CALL(kPlain);
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
    const auto it = exported().find(fd);
    auto physical = it == exported().end() ? nullptr : it->second.lock();
    if (!physical) physical = adopt_foreign(fd);
    if (!physical) return CUDA_ERROR_INVALID_VALUE;
    ++physical->references;
    *handle = physical->id;
    return CUDA_SUCCESS;
}
