// Node work from the descriptions of graph entry points, and memory that lives inside graphs.
#include <algorithm>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/capture.h"
#include "tests/softgpu/driver/graph_api.h"
#include "tests/softgpu/driver/launch.h"

namespace softgpu {

CUresult kernel_work(CUctx_st* context, const CUDA_KERNEL_NODE_PARAMS_v2& p, Work* out) {
    KernelWork w;
    w.function = p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
    CUctx_st* home = context;
    if (p.func && driver().kind(p.func) == Kind::function)
        home = p.func->module->context;
    else if (p.ctx)
        home = p.ctx;
    if (const CUresult r = resolve_function(w.function, home, &w.resolved); r != CUDA_SUCCESS) return r;
    const unsigned grid[3] = {p.gridDimX, p.gridDimY, p.gridDimZ},
                   block[3] = {p.blockDimX, p.blockDimY, p.blockDimZ};
    std::copy_n(grid, 3, w.grid);
    std::copy_n(block, 3, w.block);
    for (unsigned i = 0; i < 3; ++i)
        w.cluster[i] = std::max(1u, w.resolved->function->info().required_cluster[i]);
    w.shared_bytes = p.sharedMemBytes;
    if (const CUresult r = pack_params(w.resolved, p.kernelParams, p.extra, &w.params); r != CUDA_SUCCESS)
        return r;
    if (const CUresult r = validate(home, w); r != CUDA_SUCCESS) return r;
    *out = std::move(w);
    return CUDA_SUCCESS;
}

CUresult copy_work(CUctx_st* context, const CUDA_MEMCPY3D* p, Work* out) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    CopyWork w;
    if (const CUresult r = copy_from_3d(*p, &w); r != CUDA_SUCCESS) return r;
    if (const CUresult r = validate(context, w); r != CUDA_SUCCESS) return r;
    w.sides = {on_device(w.from.address), on_device(w.to.address)};
    *out = std::move(w);
    return CUDA_SUCCESS;
}

CUresult memset_work(CUctx_st* context, const CUDA_MEMSET_NODE_PARAMS_v1* p, Work* out) {
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    MemsetWork w{p->dst, p->pitch, p->value, p->elementSize, p->width, p->height};
    if (const CUresult r = validate(context, w); r != CUDA_SUCCESS) return r;
    *out = w;
    return CUDA_SUCCESS;
}

CUresult event_work(CUevent handle, bool record, Work* out) {
    const EventRef event = resolve_event(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (record)
        *out = RecordWork{event};
    else
        *out = WaitWork{event};
    return CUDA_SUCCESS;
}

CUresult batch_work(unsigned count, const CUstreamBatchMemOpParams* list, Work* out) {
    if (!list || count == 0) return CUDA_ERROR_INVALID_VALUE;
    BatchWork w{{list, list + count}};
    if (const CUresult r = validate(nullptr, w); r != CUDA_SUCCESS) return r;
    *out = std::move(w);
    return CUDA_SUCCESS;
}

CUresult generic_work(CUctx_st* context, CUgraphNodeParams* p, Work* out) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            const CUDA_KERNEL_NODE_PARAMS_v3& k = p->kernel;
            return kernel_work(context,
                               {k.func, k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY,
                                k.blockDimZ, k.sharedMemBytes, k.kernelParams, k.extra, k.kern, k.ctx},
                               out);
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return copy_work(context, &p->memcpy.copyParams, out);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const CUDA_MEMSET_NODE_PARAMS_v1 m{p->memset.dst,         p->memset.pitch, p->memset.value,
                                               p->memset.elementSize, p->memset.width, p->memset.height};
            return memset_work(context, &m, out);
        }
        case CU_GRAPH_NODE_TYPE_HOST:
            if (!p->host.fn) return CUDA_ERROR_INVALID_VALUE;
            *out = HostWork{p->host.fn, nullptr, nullptr, p->host.userData};
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_GRAPH:
            if (!valid_graph(p->graph.graph)) return CUDA_ERROR_INVALID_VALUE;
            *out = ChildWork{p->graph.graph->graph->clone()};
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_EMPTY:
            *out = EmptyWork{};
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            return event_work(p->eventWait.event, false, out);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return event_work(p->eventRecord.event, true, out);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
            CUDA_MEM_ALLOC_NODE_PARAMS_v1 a{p->alloc.poolProps, p->alloc.accessDescs,
                                            p->alloc.accessDescCount, p->alloc.bytesize, 0};
            const CUresult r = allocation_work(context->device, &a, out);
            p->alloc.dptr = a.dptr;
            return r;
        }
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
            *out = FreeWork{p->free.dptr};
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
            return batch_work(p->memOp.count, p->memOp.paramArray, out);
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult replace_work(CUgraphNode_st* node, Work work) {
    if (node->work.index() != work.index()) return CUDA_ERROR_INVALID_VALUE;
    if (auto* fresh = std::get_if<KernelWork>(&work)) {
        const auto& old = std::get<KernelWork>(node->work);
        std::copy(std::begin(old.attributes), std::end(old.attributes), std::begin(fresh->attributes));
        fresh->cooperative = old.cooperative;
    }
    node->work = std::move(work);
    return CUDA_SUCCESS;
}

// ---- memory of graphs ----

CUresult allocation_work(int device, CUDA_MEM_ALLOC_NODE_PARAMS* p, Work* out) {
    if (!p || p->bytesize == 0 || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (p->poolProps.location.id < 0 || p->poolProps.location.id >= options().devices)
        return CUDA_ERROR_INVALID_DEVICE;
    if (p->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE || (p->accessDescCount && !p->accessDescs))
        return CUDA_ERROR_INVALID_VALUE;
    (void)device;
    AllocWork w;
    w.access.assign(p->accessDescs, p->accessDescs + p->accessDescCount);
    // The address belongs to the node for good; memory comes with each launch.
    p->dptr = driver().memory.reserve(p->bytesize, kPage);
    if (!p->dptr) return CUDA_ERROR_OUT_OF_MEMORY;
    w.params = *p;
    driver().graph_addresses[p->dptr] = p->bytesize;
    *out = std::move(w);
    return CUDA_SUCCESS;
}

bool claim_graph_memory(const AllocWork& w, CUctx_st* context, bool* still_allocated) {
    Driver& d = driver();
    const std::uint64_t address = w.params.dptr, pages = (w.params.bytesize + kPage - 1) / kPage * kPage;
    *still_allocated = false;
    if (Span* span = d.memory.find(address)) {
        *still_allocated = span->graph_claims > span->graph_frees;
        ++span->graph_claims;
        return true;
    }
    const int device = w.params.poolProps.location.id;
    if (!d.memory.take(device, pages)) return false;
    BackingFile& file = d.memory.device_file(device);
    Span span;
    span.begin = address;
    span.end = address + w.params.bytesize;
    span.kind = SpanKind::pool;
    span.device = device;
    span.context = context;
    span.file = &file;
    span.offset = file.allocate(pages);
    span.access[static_cast<std::size_t>(device)] = kReadWrite;
    for (const CUmemAccessDesc& a : w.access)
        if (a.location.id >= 0 && a.location.id < options().devices)
            span.access[static_cast<std::size_t>(a.location.id)] = static_cast<std::uint8_t>(a.flags);
    span.from_graph = true;
    span.graph_claims = 1;
    d.memory.map(address, pages, file, span.offset);
    d.memory.add(std::move(span));
    Device& owner = d.devices[static_cast<std::size_t>(device)];
    owner.graph_memory += pages;
    owner.graph_memory_peak = std::max(owner.graph_memory_peak, owner.graph_memory);
    return true;
}

void release_graph_memory(std::uint64_t address) {
    Driver& d = driver();
    Span* span = d.memory.find(address);
    if (!span || !span->from_graph || --span->graph_claims > 0) return;
    const std::uint64_t pages = (span->bytes() + kPage - 1) / kPage * kPage, offset = span->offset;
    const int device = span->device;
    d.memory.unmap(address, pages);
    d.memory.device_file(device).release(offset, pages);
    d.memory.give_back(device, pages);
    d.memory.remove(*span);
    d.devices[static_cast<std::size_t>(device)].graph_memory -= pages;
}

CUresult capture_allocation(const StreamRef& stream, CUdeviceptr* out, std::size_t bytes,
                            const CUmemPoolProps& props) {
    CUDA_MEM_ALLOC_NODE_PARAMS p{};
    p.poolProps = props;
    p.bytesize = bytes;
    Work work;
    if (const CUresult r = allocation_work(stream->context->device, &p, &work); r != CUDA_SUCCESS) return r;
    if (const CUresult r = capture(stream, std::move(work)); r != CUDA_SUCCESS) return r;
    *out = p.dptr;
    return CUDA_SUCCESS;
}

}  // namespace softgpu
