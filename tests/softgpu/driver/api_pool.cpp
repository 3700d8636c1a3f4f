// Memory pools and stream-ordered allocation. An allocation's addresses are mapped when the call is made;
// using them before the stream has reached the allocation, or after it has passed the free, is reported by
// the strictness checks. Freed memory goes back to the device when the stream reaches the free.
#include <cstring>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/capture.h"
#include "tests/softgpu/driver/graph_api.h"
#include "tests/softgpu/driver/pool.h"

namespace softgpu {

CUmemPoolHandle_st* default_pool(int device) {
    Device& d = driver().devices[static_cast<std::size_t>(device)];
    if (!d.default_pool) {
        auto* pool = new CUmemPoolHandle_st;
        pool->device = device;
        pool->built_in = true;
        pool->props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        pool->props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
        driver().alive[pool] = Kind::pool;
        d.default_pool = pool;
    }
    return d.default_pool;
}

void free_pool_memory(Span& span) {
    if (span.from_graph) return release_graph_memory(span.begin);
    if (span.pool) {
        span.pool->used -= span.bytes();
        span.pool->keep(span.pool->release_threshold);
    }
    driver().memory.free(span);
}

}  // namespace softgpu

using namespace softgpu;

namespace {

using ull = unsigned long long;

CUmemPoolHandle_st* current_pool(int device) {
    Device& d = driver().devices[static_cast<std::size_t>(device)];
    return d.current_pool ? d.current_pool : default_pool(device);
}

CUresult allocate(Call& call, CUdeviceptr* out, std::size_t bytes, CUmemPoolHandle_st* pool,
                  CUstream handle) {
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!pool) pool = current_pool(stream->context->device);
    if (stream->capture) return capture_allocation(stream, out, bytes, pool->props);
    if (const CUresult r = refuse_implicit(stream); r != CUDA_SUCCESS) return r;
    Driver& d = driver();
    if (pool->props.maxSize && pool->used + bytes > pool->props.maxSize) return CUDA_ERROR_OUT_OF_MEMORY;
    std::uint64_t at = d.memory.allocate_device(pool->device, stream->context, bytes, SpanKind::pool);
    if (!at) {  // memory whose free is still queued comes back when the device gets there
        bool pending = false;
        for (const auto& [begin, span] : d.memory.spans()) pending |= span.freeing;
        if (pending) {
            wait_for_context(call.lock(), stream->context);
            at = d.memory.allocate_device(pool->device, stream->context, bytes, SpanKind::pool);
        }
        if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->used += bytes;
    pool->used_peak = std::max(pool->used_peak, pool->used);
    pool->reserved = std::max(pool->reserved, CUmemPoolHandle_st::whole_pages(pool->used));
    pool->reserved_peak = std::max(pool->reserved_peak, pool->reserved);
    OpRef op = new_op(stream, "allocation");
    op->quiet = true;
    enqueue(stream, op);
    Span& span = *d.memory.find(at);
    span.pool = pool;
    span.ordered = true;
    span.born = op->id;
    span.born_slot = op->slot;
    span.born_sequence = op->sequence;
    for (const auto& [device, access] : pool->access) span.access[static_cast<std::size_t>(device)] = access;
    *out = at;
    return CUDA_SUCCESS;
}

CUresult free_async(Call&, CUdeviceptr address, CUstream handle) {
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (address == 0) return CUDA_SUCCESS;
    if (stream->capture) return capture(stream, FreeWork{address});
    if (const CUresult r = refuse_implicit(stream); r != CUDA_SUCCESS) return r;
    Driver& d = driver();
    Span* span = d.memory.find(address);
    if (!span || span->begin != address || span->freeing) return CUDA_ERROR_INVALID_VALUE;
    if (span->kind != SpanKind::pool && span->kind != SpanKind::device) return CUDA_ERROR_INVALID_VALUE;
    OpRef op = new_op(stream, "free");
    op->quiet = true;
    if (span->from_graph) {
        ++span->graph_frees;
        op->on_end = [address](Op&) {
            if (Span* s = driver().memory.find(address)) --s->graph_frees;
            release_graph_memory(address);
        };
        enqueue(stream, op);
        return CUDA_SUCCESS;
    }
    op->on_end = [address, id = span->id](Op&) {
        Span* s = driver().memory.find(address);
        if (s && s->begin == address && s->id == id) free_pool_memory(*s);
    };
    span->freeing = true;
    enqueue(stream, op);
    span->free_clock = op->clock;
    if (options().strict)
        for (const Use& use : span->uses)
            if (!knows(op->clock, use.slot, use.sequence))
                report_strictness(
                    "stream-ordered free of [0x%llx, +%llu) that does not wait for %s (stream slot %u, "
                    "#%llu), which uses it",
                    static_cast<ull>(span->begin), static_cast<ull>(span->bytes()), use.name->c_str(),
                    use.slot, static_cast<ull>(use.sequence));
    return CUDA_SUCCESS;
}

bool valid(CUmemoryPool pool) {
    return driver().kind(pool) == Kind::pool;
}
bool valid_device(CUdevice d) {
    return d >= 0 && d < options().devices;
}

}  // namespace

SOFTCU cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
    SOFTGPU_CALL(kContext);
    return allocate(call, address, bytes, nullptr, stream);
}

SOFTCU cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    SOFTGPU_CALL(kContext);
    if (!valid(pool)) return CUDA_ERROR_INVALID_VALUE;
    return allocate(call, address, bytes, pool, stream);
}

SOFTCU cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    SOFTGPU_CALL(kContext);
    return free_async(call, address, stream);
}

SOFTCU cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = default_pool(device);
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = current_pool(device);
    return CUDA_SUCCESS;
}

SOFTCU cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    SOFTGPU_CALL(kPlain);
    if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!valid(pool) || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
    driver().devices[static_cast<std::size_t>(device)].current_pool = pool;
    return CUDA_SUCCESS;
}

SOFTCU cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* props) {
    SOFTGPU_CALL(kPlain);
    if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (!valid_device(props->location.id)) return CUDA_ERROR_INVALID_DEVICE;
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    (void)default_pool(props->location.id);  // was there before any other: never has the handle of a dead one
    auto* made = new CUmemPoolHandle_st;
    made->device = props->location.id;
    made->props = *props;
    driver().alive[made] = Kind::pool;
    *pool = made;
    return CUDA_SUCCESS;
}

SOFTCU cuMemPoolDestroy(CUmemoryPool pool) {
    SOFTGPU_CALL(kPlain);
    if (!valid(pool) || pool->built_in) return CUDA_ERROR_INVALID_VALUE;
    for (auto& [begin, span] : driver().memory.spans())
        if (span.pool == pool) span.pool = nullptr;  // outstanding memory lives on until it is freed
    Device& d = driver().devices[static_cast<std::size_t>(pool->device)];
    if (d.current_pool == pool) d.current_pool = nullptr;
    driver().alive.erase(pool);
    delete pool;
    return CUDA_SUCCESS;
}

SOFTCU cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    SOFTGPU_CALL(kPlain);
    if (!valid(pool)) return CUDA_ERROR_INVALID_VALUE;
    pool->keep(keep);
    return CUDA_SUCCESS;
}

SOFTCU cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
    SOFTGPU_CALL(kPlain);
    if (!valid(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
    auto* number = static_cast<cuuint64_t*>(value);
    switch (which) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
            *static_cast<int*>(value) = pool->reuse[which - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
            break;
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            *number = pool->release_threshold;
            break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
            *number = pool->reserved;
            break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            *number = pool->reserved_peak;
            break;
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
            *number = pool->used;
            break;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            *number = pool->used_peak;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

SOFTCU cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
    SOFTGPU_CALL(kPlain);
    if (!valid(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
    const auto number = [&] { return *static_cast<const cuuint64_t*>(value); };
    switch (which) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
            pool->reuse[which - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *static_cast<int*>(value);
            break;
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            pool->release_threshold = number();
            break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            if (number()) return CUDA_ERROR_INVALID_VALUE;
            pool->reserved_peak = pool->reserved;
            break;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            if (number()) return CUDA_ERROR_INVALID_VALUE;
            pool->used_peak = pool->used;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

SOFTCU cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
    SOFTGPU_CALL(kPlain);
    if (!valid(pool) || !map) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
        if (!valid_device(map[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
        if (map[i].location.id == pool->device && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; ++i) {
        const auto flags = static_cast<std::uint8_t>(map[i].flags);
        pool->access[map[i].location.id] = flags;
        for (auto& [begin, span] : driver().memory.spans())
            if (span.pool == pool) span.access[static_cast<std::size_t>(map[i].location.id)] = flags;
    }
    return CUDA_SUCCESS;
}

SOFTCU cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
    SOFTGPU_CALL(kPlain);
    if (!flags || !location || !valid(pool) || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->id == pool->device) {
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    }
    const auto it = pool->access.find(location->id);
    *flags =
        it == pool->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : static_cast<CUmemAccess_flags>(it->second);
    return CUDA_SUCCESS;
}
