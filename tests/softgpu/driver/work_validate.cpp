// What is refused when the call is made.
#include "tests/softgpu/driver/modules.h"
#include "tests/softgpu/driver/work.h"

namespace softgpu {
namespace {

CUresult validate_side(CUctx_st* context, const CopySide& side, std::uint64_t bytes, bool write,
                       bool peer = false) {
    if (bytes == 0) return CUDA_SUCCESS;
    Memory& memory = driver().memory;
    if (side.address == 0) return CUDA_ERROR_INVALID_VALUE;
    const Span* span = memory.find(side.address);
    const auto& in_graphs = driver().graph_addresses;
    if (auto it = in_graphs.upper_bound(side.address); !span && it != in_graphs.begin()) {
        --it;  // memory of a graph: mapped when the graph is launched
        if (side.address + bytes <= it->first + it->second) return CUDA_SUCCESS;
    }
    if (!span) {
        const bool must_be_known = side.type == CU_MEMORYTYPE_DEVICE || memory.in_range(side.address);
        return must_be_known ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    bool allowed = true;
    const bool covered = memory.cover(side.address, bytes, [&](const Span& s, std::uint64_t, std::uint64_t) {
        const int device = peer && s.device >= 0 ? s.device : context->device;
        const std::uint8_t access = s.access[static_cast<std::size_t>(device)];
        if (s.kind == SpanKind::mapped && (access == kNoAccess || (write && access != kReadWrite)))
            allowed = false;
        // One allocation: running on into its neighbour is a mistake even where the neighbour happens to be
        // mapped.
        if (s.kind != SpanKind::mapped && &s != span) allowed = false;
    });
    return covered && allowed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult validate_kernel(CUctx_st* context, const KernelWork& w) {
    if (!w.resolved) return CUDA_ERROR_INVALID_HANDLE;
    if (w.resolved->module->context != context) return CUDA_ERROR_INVALID_CONTEXT;
    const ptx::FunctionInfo& info = w.resolved->function->info();
    std::uint64_t threads = 1;
    for (unsigned i = 0; i < 3; ++i) {
        if (w.grid[i] == 0 || w.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
        threads *= w.block[i];
    }
    if (w.grid[0] > 0x7fffffff || w.grid[1] > 65535 || w.grid[2] > 65535) return CUDA_ERROR_INVALID_VALUE;
    if (w.block[0] > 1024 || w.block[1] > 1024 || w.block[2] > 64 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (threads > info.max_threads) return CUDA_ERROR_INVALID_VALUE;
    if (info.registers * threads > 65536) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (w.shared_bytes > dynamic_shared_limit(w.resolved)) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t cluster = 1;
    for (unsigned i = 0; i < 3; ++i) {
        if (w.cluster[i] == 0 || w.grid[i] % w.cluster[i]) return CUDA_ERROR_INVALID_VALUE;
        cluster *= w.cluster[i];
    }
    if (cluster > 1 && options().cc_major < 9) return CUDA_ERROR_INVALID_VALUE;
    if (cluster > 16 || (cluster > 8 && !w.resolved->non_portable_cluster))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    return CUDA_SUCCESS;
}
}  // namespace

bool known_memory(std::uint64_t address, std::uint64_t bytes) {
    return driver().memory.cover(address, bytes, [](const Span&, std::uint64_t, std::uint64_t) {});
}

bool on_device(std::uint64_t address) {
    const Span* span = driver().memory.find(address);
    if (!span) {
        const auto& in_graphs = driver().graph_addresses;
        auto it = in_graphs.upper_bound(address);
        return it != in_graphs.begin() && address < (--it)->first + it->second;
    }
    return span && !span->on_host() && span->kind != SpanKind::managed;
}

CUresult validate(CUctx_st* context, const Work& work) {
    if (const auto* w = std::get_if<KernelWork>(&work)) return validate_kernel(context, *w);
    if (const auto* w = std::get_if<CopyWork>(&work)) {
        if (w->bytes() == 0) return CUDA_SUCCESS;
        if (const CUresult r = w->staged
                                   ? CUDA_SUCCESS
                                   : validate_side(context, w->from, extent(w->from, *w), false, w->peer);
            r)
            return r;
        return validate_side(context, w->to, extent(w->to, *w), true, w->peer);
    }
    if (const auto* w = std::get_if<MemsetWork>(&work)) {
        const std::uint64_t row = w->width * w->element;
        if (row == 0 || w->height == 0) return CUDA_SUCCESS;
        if (w->to % w->element) return CUDA_ERROR_INVALID_VALUE;
        if (w->height > 1 && w->pitch < row) return CUDA_ERROR_INVALID_VALUE;
        return validate_side(context, {w->to, w->pitch, w->height, CU_MEMORYTYPE_DEVICE},
                             (w->height - 1) * w->pitch + row, true);
    }
    if (const auto* w = std::get_if<HostWork>(&work))
        return w->function || w->callback ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (const auto* w = std::get_if<BatchWork>(&work)) {
        for (const CUstreamBatchMemOpParams& p : w->ops) {
            const bool wide = p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                              p.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
            if (p.operation > CU_STREAM_MEM_OP_WRITE_VALUE_64 ||
                p.operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
                continue;
            if (p.waitValue.address % (wide ? 8 : 4) || !known_memory(p.waitValue.address, wide ? 8 : 4))
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

}  // namespace softgpu
