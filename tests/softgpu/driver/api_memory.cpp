// Linear memory: device, pinned and registered host, managed; what is known about an address.
#include <cstring>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/pool.h"
#include "tests/softgpu/driver/work.h"

using namespace softgpu;

namespace {

using ull = unsigned long long;

void grant_peers(Span& span) {
    for (const auto& [handle, kind] : driver().alive) {
        if (kind != Kind::context) continue;
        const auto* other = static_cast<const CUctx_st*>(handle);
        if (other->peers.count(span.device))
            span.access[static_cast<std::size_t>(other->device)] = kReadWrite;
    }
}

CUresult allocate(Call& call, CUdeviceptr* out, std::size_t bytes) {
    if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    Memory& memory = driver().memory;
    const std::uint64_t address =
        memory.allocate_device(call.context()->device, call.context(), bytes, SpanKind::device);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    Span& span = *memory.find(address);
    span.born = driver().next_op;
    grant_peers(span);
    *out = address;
    return CUDA_SUCCESS;
}

CUresult allocate_host(Call& call, void** out, std::size_t bytes, unsigned flags) {
    constexpr unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (!out || bytes == 0 || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    call.spend(static_cast<Time>(static_cast<double>(bytes) * 1e9 / options().pinning_bytes_per_s));
    const std::uint64_t address = driver().memory.allocate_host(call.context(), bytes, SpanKind::host, flags);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    driver().memory.find(address)->born = driver().next_op;
    *out = reinterpret_cast<void*>(address);
    return CUDA_SUCCESS;
}

/// Everything queued in the context that owns the memory is over before it goes.
CUresult settle(Call& call, const Span& span) {
    CUctx_st* owner = span.context ? span.context : call.context();
    return owner && owner->alive ? wait_for_context(call.lock(), owner) : CUDA_SUCCESS;
}

/// Work of other contexts (peers) that may still use it was not waited for.
void check_idle(const Span& span, const char* what) {
    if (!options().strict) return;
    if (const Use* use = use_in_flight(span))
        report_strictness(
            "%s of %s [0x%llx, +%llu) while %s (stream slot %u, #%llu) that uses it is not known to be "
            "complete",
            what, span_kind_name(span.kind), static_cast<ull>(span.begin), static_cast<ull>(span.bytes()),
            use->name->c_str(), use->slot, static_cast<ull>(use->sequence));
}

CUresult pointer_attribute(void* data, CUpointer_attribute which, CUdeviceptr address) {
    if (!data) return CUDA_ERROR_INVALID_VALUE;
    const Span* span = driver().memory.find(address);
    if (!span) return CUDA_ERROR_INVALID_VALUE;
    const auto give = [&](auto value) {
        std::memcpy(data, &value, sizeof value);
        return CUDA_SUCCESS;
    };
    const bool host = span->on_host(), managed = span->kind == SpanKind::managed;
    switch (which) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            return give(span->kind == SpanKind::mapped || span->ordered ? CUcontext{}
                                                                        : CUcontext{span->context});
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return give(static_cast<unsigned>(host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            return give(CUdeviceptr{address});
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (!host && !managed) return CUDA_ERROR_INVALID_VALUE;
            return give(address);
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
            return give(static_cast<unsigned>(span->sync_memops));
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            return give(static_cast<unsigned long long>(span->id));
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            return give(static_cast<unsigned>(managed));
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            return give(
                static_cast<int>(span->context && (host || managed) ? span->context->device : span->device));
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            return give(static_cast<unsigned>(span->kind == SpanKind::device));
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            return give(CUdeviceptr{span->begin});
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            return give(static_cast<std::size_t>(span->bytes()));
        case CU_POINTER_ATTRIBUTE_MAPPED:
            return give(static_cast<unsigned>(1));
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
            return give(static_cast<unsigned long long>(
                span->physical ? span->physical->prop.requestedHandleTypes : 0));
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
            return give(static_cast<unsigned>(0));
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
            const CUctx_st* context = current_context();
            const std::uint8_t a = span->access[static_cast<std::size_t>(context ? context->device : 0)];
            return give(static_cast<unsigned>(a == kReadWrite ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                              : a == kRead    ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                                              : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE));
        }
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            return give(span->pool);
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
            return give(static_cast<std::size_t>(span->bytes()));
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
            return give(CUdeviceptr{span->begin});
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
            return give(static_cast<unsigned long long>(span->physical ? span->physical->id : span->id));
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
            return give(static_cast<unsigned>(0));
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

std::size_t attribute_size(CUpointer_attribute which) {
    switch (which) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
            return 8;
        default:
            return 4;
    }
}

CUresult register_host(Call& call, void* p, std::size_t bytes, unsigned flags) {
    constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                               CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if (!p || bytes == 0 || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY) return CUDA_ERROR_NOT_SUPPORTED;
    Memory& memory = driver().memory;
    const auto begin = reinterpret_cast<std::uint64_t>(p);
    const auto next = memory.spans().lower_bound(begin);
    if (memory.find(begin) || (next != memory.spans().end() && next->first < begin + bytes))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (!memory.take_host(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    call.spend(static_cast<Time>(static_cast<double>(bytes) * 1e9 / options().pinning_bytes_per_s));
    Span span;
    span.begin = begin;
    span.end = begin + bytes;
    span.kind = SpanKind::registered;
    span.context = call.context();
    span.flags = flags;
    span.access.fill(flags & CU_MEMHOSTREGISTER_READ_ONLY ? kRead : kReadWrite);
    span.born = driver().next_op;
    memory.add(std::move(span));
    return CUDA_SUCCESS;
}

CUresult free_device(Call& call, CUdeviceptr address) {
    if (address == 0) return CUDA_SUCCESS;
    Memory& memory = driver().memory;
    Span* span = memory.find(address);
    if (!span || span->begin != address) return CUDA_ERROR_INVALID_VALUE;
    if (span->kind == SpanKind::pool) {  // legal: waits, then frees at once
        const CUresult r = settle(call, *span);
        if (span->freeing) return CUDA_ERROR_INVALID_VALUE;
        free_pool_memory(*span);
        return r;
    }
    if (span->kind != SpanKind::device && span->kind != SpanKind::managed) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = settle(call, *span);
    check_idle(*span, "free");
    memory.free(*span);
    return r;
}

}  // namespace

// ---- device memory ----

SOFTCU cuMemGetInfo_v2(size_t* free, size_t* total) {
    SOFTGPU_CALL(kContext);
    const int device = call.context()->device;
    if (free) *free = options().memory - driver().memory.used(device);
    if (total) *total = options().memory;
    return CUDA_SUCCESS;
}

SOFTCU cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
    SOFTGPU_CALL(kContext | kUnsafe | kCreateCost);
    return allocate(call, address, bytes);
}

SOFTCU cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                          unsigned element) {
    SOFTGPU_CALL(kContext | kUnsafe | kCreateCost);
    if (!pitch || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
    if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
    const std::size_t row = (width + 511) / 512 * 512;
    const CUresult r = allocate(call, address, row * height);
    if (r == CUDA_SUCCESS) *pitch = row;  // outputs stay alone on errors
    return r;
}

SOFTCU cuMemFree_v2(CUdeviceptr address) {
    SOFTGPU_CALL(kContext | kUnsafe | kCreateCost);
    return free_device(call, address);
}

SOFTCU cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
    SOFTGPU_CALL(kFree | kContext);
    const Span* span = driver().memory.find(address);
    if (!span) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = span->begin;
    if (bytes) *bytes = span->bytes();
    return CUDA_SUCCESS;
}

// ---- host memory ----

SOFTCU cuMemAllocHost_v2(void** p, size_t bytes) {
    SOFTGPU_CALL(kContext | kUnsafe);
    return allocate_host(call, p, bytes, 0);
}

SOFTCU cuMemHostAlloc(void** p, size_t bytes, unsigned flags) {
    SOFTGPU_CALL(kContext | kUnsafe);
    return allocate_host(call, p, bytes, flags);
}

SOFTCU cuMemFreeHost(void* p) {
    SOFTGPU_CALL(kContext | kUnsafe);
    if (!p) return CUDA_SUCCESS;
    Memory& memory = driver().memory;
    const auto address = reinterpret_cast<std::uint64_t>(p);
    Span* span = memory.find(address);
    if (!span || span->begin != address || span->kind != SpanKind::host) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = settle(call, *span);
    check_idle(*span, "free");
    memory.free(*span);
    return r;
}

SOFTCU cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* p, unsigned flags) {
    SOFTGPU_CALL(kContext);
    if (!address || flags) return CUDA_ERROR_INVALID_VALUE;
    const Span* span = driver().memory.find(reinterpret_cast<std::uint64_t>(p));
    if (!span || !span->on_host()) return CUDA_ERROR_INVALID_VALUE;
    *address = reinterpret_cast<std::uint64_t>(p);
    return CUDA_SUCCESS;
}

SOFTCU cuMemHostGetFlags(unsigned* flags, void* p) {
    SOFTGPU_CALL(kContext);
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    const Span* span = driver().memory.find(reinterpret_cast<std::uint64_t>(p));
    if (!span || span->kind != SpanKind::host) return CUDA_ERROR_INVALID_VALUE;
    *flags = span->flags | CU_MEMHOSTALLOC_DEVICEMAP;  // always mapped with unified addressing
    return CUDA_SUCCESS;
}

SOFTCU cuMemHostRegister_v2(void* p, size_t bytes, unsigned flags) {
    SOFTGPU_CALL(kContext | kUnsafe);
    return register_host(call, p, bytes, flags);
}

SOFTCU cuMemHostUnregister(void* p) {
    SOFTGPU_CALL(kContext | kUnsafe);
    Memory& memory = driver().memory;
    const auto address = reinterpret_cast<std::uint64_t>(p);
    Span* span = memory.find(address);
    if (!p || !span || span->kind != SpanKind::registered || span->begin != address)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    const CUresult r = settle(call, *span);
    check_idle(*span, "unregistering");
    memory.give_back_host(span->bytes());
    memory.remove(*span);
    return r;
}

// ---- managed memory ----

SOFTCU cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
    SOFTGPU_CALL(kContext | kUnsafe | kCreateCost);
    if (!address || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t at = driver().memory.allocate_host(call.context(), bytes, SpanKind::managed, flags);
    if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
    driver().memory.find(at)->born = driver().next_op;
    *address = at;
    return CUDA_SUCCESS;
}

namespace {

CUresult check_managed(CUdeviceptr address, std::size_t bytes) {
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    bool managed = true;
    const bool covered = driver().memory.cover(
        address, bytes,
        [&](const Span& s, std::uint64_t, std::uint64_t) { managed &= s.kind == SpanKind::managed; });
    return covered && managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

SOFTCU cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation, unsigned flags,
                             CUstream stream) {
    SOFTGPU_CALL(kContext);
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = check_managed(address, bytes); r != CUDA_SUCCESS) return r;
    return submit(call, resolve_stream(stream), EmptyWork{});
}

#undef cuMemPrefetchAsync
SOFTCU cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
    SOFTGPU_CALL(kContext);
    if (device != CU_DEVICE_CPU && (device < 0 || device >= options().devices))
        return CUDA_ERROR_INVALID_DEVICE;
    if (const CUresult r = check_managed(address, bytes); r != CUDA_SUCCESS) return r;
    return submit(call, resolve_stream(stream), EmptyWork{});
}

SOFTCU cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise, CUmemLocation) {
    SOFTGPU_CALL(kContext);
    return check_managed(address, bytes);
}

#undef cuMemAdvise
SOFTCU cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise, CUdevice) {
    SOFTGPU_CALL(kContext);
    return check_managed(address, bytes);
}

SOFTCU cuMemRangeGetAttribute(void* data, size_t size, CUmem_range_attribute which, CUdeviceptr address,
                              size_t bytes) {
    SOFTGPU_CALL(kContext);
    if (!data || size < 4) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = check_managed(address, bytes); r != CUDA_SUCCESS) return r;
    std::memset(data, 0, size);
    if (which == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ||
        which == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION) {
        const int none = CU_DEVICE_INVALID;
        std::memcpy(data, &none, sizeof none);
    }
    return CUDA_SUCCESS;
}

// ---- what is known about an address ----

SOFTCU cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr address) {
    SOFTGPU_CALL(kFree | kContext);
    return pointer_attribute(data, which, address);
}

SOFTCU cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** data, CUdeviceptr address) {
    SOFTGPU_CALL(kFree | kContext);
    if (!which || !data) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
        // Unknown addresses are no error here: every answer is "nothing".
        if (pointer_attribute(data[i], which[i], address) == CUDA_SUCCESS) continue;
        if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
        std::memset(data[i], 0, attribute_size(which[i]));
        if (which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int*>(data[i]) = CU_DEVICE_INVALID;
    }
    return CUDA_SUCCESS;
}

SOFTCU cuPointerSetAttribute(const void* value, CUpointer_attribute which, CUdeviceptr address) {
    SOFTGPU_CALL(kContext);
    Span* span = driver().memory.find(address);
    if (!value || !span || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    span->sync_memops = *static_cast<const unsigned*>(value) != 0;
    return CUDA_SUCCESS;
}

SOFTCU cuMemRangeGetAttributes(void** data, size_t* sizes, CUmem_range_attribute* which, size_t count,
                               CUdeviceptr address, size_t bytes) {
    SOFTGPU_CALL(kContext);
    if (!data || !sizes || !which || count == 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = check_managed(address, bytes); r != CUDA_SUCCESS) return r;
    for (size_t i = 0; i < count; ++i) {
        if (!data[i] || sizes[i] < 4) return CUDA_ERROR_INVALID_VALUE;
        std::memset(data[i], 0, sizes[i]);
        const bool place = which[i] == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ||
                           which[i] == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
        if (place) *static_cast<int*>(data[i]) = CU_DEVICE_INVALID;
    }
    return CUDA_SUCCESS;
}

namespace {

CUresult managed_batch(Call& call, const CUdeviceptr* addresses, const size_t* sizes, size_t count,
                       unsigned long long flags, CUstream handle) {
    if (!addresses || !sizes || count == 0 || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!handle || handle == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i)
        if (const CUresult r = check_managed(addresses[i], sizes[i]); r != CUDA_SUCCESS) return r;
    return submit(call, resolve_stream(handle), EmptyWork{});
}

}  // namespace

SOFTCU cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count, CUmemLocation* places,
                               size_t* indices, size_t places_count, unsigned long long flags,
                               CUstream stream) {
    SOFTGPU_CALL(kContext);
    if (!places || !indices || places_count == 0 || places_count > count) return CUDA_ERROR_INVALID_VALUE;
    return managed_batch(call, addresses, sizes, count, flags, stream);
}

SOFTCU cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count, unsigned long long flags,
                              CUstream stream) {
    SOFTGPU_CALL(kContext);
    return managed_batch(call, addresses, sizes, count, flags, stream);  // keeping the contents is allowed
}

SOFTCU cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                         CUmemLocation* places, size_t* indices, size_t places_count,
                                         unsigned long long flags, CUstream stream) {
    SOFTGPU_CALL(kContext);
    if (!places || !indices || places_count == 0 || places_count > count) return CUDA_ERROR_INVALID_VALUE;
    return managed_batch(call, addresses, sizes, count, flags, stream);
}
