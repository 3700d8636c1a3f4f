// Kernel launches and occupancy.
#include <cstring>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/launch.h"

using namespace softgpu;

namespace softgpu {

CUresult pack_params(const CUfunc_st* f, void** params, void** extra, std::vector<std::byte>* block) {
    const ptx::FunctionInfo& info = f->function->info();
    block->assign(std::max<std::size_t>(info.param_bytes, 1), std::byte{0});
    if (params && extra) return CUDA_ERROR_INVALID_VALUE;
    if (params) {
        for (std::size_t i = 0; i < info.params.size(); ++i) {
            if (!params[i]) return CUDA_ERROR_INVALID_VALUE;
            std::memcpy(block->data() + info.params[i].offset, params[i], info.params[i].size);
        }
        return CUDA_SUCCESS;
    }
    if (info.params.empty()) return CUDA_SUCCESS;
    if (!extra) return CUDA_ERROR_INVALID_VALUE;
    const void* buffer = nullptr;
    const std::size_t* size = nullptr;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = static_cast<const std::size_t*>(extra[1]);
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!buffer || !size) return CUDA_ERROR_INVALID_VALUE;
    // The size may leave out tail padding, but no part of the last parameter.
    const ptx::Param& last = info.params.back();
    if (*size < last.offset + last.size || *size > std::max<std::size_t>(info.param_bytes, 4096))
        return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(block->data(), buffer, std::min<std::size_t>(*size, info.param_bytes));
    return CUDA_SUCCESS;
}

CUresult set_launch_attribute(KernelWork* w, const CUlaunchAttribute& a) {
    if (static_cast<unsigned>(a.id) >= std::size(w->attributes)) return CUDA_ERROR_INVALID_VALUE;
    w->attributes[a.id] = a.value;
    switch (a.id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            w->cooperative = a.value.cooperative != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            if (options().cc_major < 9) return CUDA_ERROR_NOT_SUPPORTED;
            w->cluster[0] = a.value.clusterDim.x;
            w->cluster[1] = a.value.clusterDim.y;
            w->cluster[2] = a.value.clusterDim.z;
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
            return CUDA_ERROR_NOT_SUPPORTED;
        default:
            break;  // hints: a launch without them gives the same results
    }
    return CUDA_SUCCESS;
}

CUresult check_cooperative(const KernelWork& w) {
    int blocks = 0;
    const unsigned threads = w.block[0] * w.block[1] * w.block[2];
    if (const CUresult r = occupancy(w.resolved, static_cast<int>(threads), w.shared_bytes, &blocks);
        r != CUDA_SUCCESS)
        return r;
    const std::uint64_t grid = std::uint64_t{w.grid[0]} * w.grid[1] * w.grid[2];
    return grid <= static_cast<std::uint64_t>(blocks) * 40 ? CUDA_SUCCESS
                                                           : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

CUresult occupancy(const CUfunc_st* f, int threads, std::size_t dynamic_shared, int* blocks) {
    if (threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    const ptx::FunctionInfo& info = f->function->info();
    *blocks = 0;
    if (threads > static_cast<int>(info.max_threads)) return CUDA_SUCCESS;
    const Options& o = options();
    const bool ampere = o.cc_major >= 8;
    const int per_sm = ampere && o.cc_minor != 6 ? 2048 : 1024;
    const int warps = (threads + 31) / 32;
    int n = std::min(ampere ? 32 : 16, per_sm / (warps * 32));
    if (info.registers)
        n = std::min(
            n, static_cast<int>(65536 / ((info.registers + 7) / 8 * 8 * 32 * static_cast<unsigned>(warps))));
    const std::size_t shared = info.static_shared_bytes + dynamic_shared + (ampere ? 1024 : 0);
    if (shared)
        n = std::min<int>(n, static_cast<int>((shared_per_block_optin() + (ampere ? 1024 : 0)) / shared));
    *blocks = n;
    return CUDA_SUCCESS;
}

}  // namespace softgpu

namespace {

CUresult launch(Call& call, CUfunction function, const unsigned grid[3], const unsigned block[3],
                unsigned shared, CUstream handle, void** params, void** extra,
                const CUlaunchAttribute* attributes, unsigned count, bool cooperative) {
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    KernelWork w;
    w.function = function;
    if (const CUresult r = resolve_function(function, stream->context, &w.resolved); r != CUDA_SUCCESS)
        return r;
    std::copy_n(grid, 3, w.grid);
    std::copy_n(block, 3, w.block);
    std::copy_n(w.resolved->function->info().required_cluster.data(), 3, w.cluster);
    for (unsigned& c : w.cluster) c = std::max(1u, c);
    w.shared_bytes = shared;
    w.cooperative = cooperative;
    if (count && !attributes) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i)
        if (const CUresult r = set_launch_attribute(&w, attributes[i]); r != CUDA_SUCCESS) return r;
    if (const CUresult r = pack_params(w.resolved, params, extra, &w.params); r != CUDA_SUCCESS) return r;
    if (w.cooperative) {
        w.attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative = 1;
        if (const CUresult r = validate(stream->context, w); r != CUDA_SUCCESS) return r;
        if (const CUresult r = check_cooperative(w); r != CUDA_SUCCESS) return r;
    }
    return submit(call, stream, std::move(w));
}

}  // namespace

SOFTCU cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared, CUstream stream, void** params, void** extra) {
    SOFTGPU_CALL(kContext);
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    return launch(call, f, grid, block, shared, stream, params, extra, nullptr, 0, false);
}

SOFTCU cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** params, void** extra) {
    SOFTGPU_CALL(kContext);
    if (!c) return CUDA_ERROR_INVALID_VALUE;
    const unsigned grid[3] = {c->gridDimX, c->gridDimY, c->gridDimZ};
    const unsigned block[3] = {c->blockDimX, c->blockDimY, c->blockDimZ};
    return launch(call, f, grid, block, c->sharedMemBytes, c->hStream, params, extra, c->attrs, c->numAttrs,
                  false);
}

SOFTCU cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, CUstream stream, void** params) {
    SOFTGPU_CALL(kContext);
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    return launch(call, f, grid, block, shared, stream, params, nullptr, nullptr, 0, true);
}

// ---- occupancy ----

namespace {

CUresult max_blocks(Call& call, int* blocks, CUfunction f, int threads, size_t shared) {
    if (!blocks) return CUDA_ERROR_INVALID_VALUE;
    CUfunc_st* function = nullptr;
    if (const CUresult r = resolve_function(f, call.context(), &function); r != CUDA_SUCCESS) return r;
    return occupancy(function, threads, shared, blocks);
}

CUresult best_block(Call& call, int* min_grid, int* block, CUfunction f, CUoccupancyB2DSize shared_of,
                    size_t shared, int limit) {
    if (!min_grid || !block) return CUDA_ERROR_INVALID_VALUE;
    CUfunc_st* function = nullptr;
    if (const CUresult r = resolve_function(f, call.context(), &function); r != CUDA_SUCCESS) return r;
    int most = static_cast<int>(function->function->info().max_threads);
    if (limit > 0) most = std::min(most, limit);
    int best_threads = 0, best_size = 0, best_blocks = 0;
    for (int threads = most; threads > 0; threads = threads % 32 ? threads / 32 * 32 : threads - 32) {
        int blocks = 0;
        occupancy(function, threads, shared_of ? shared_of(threads) : shared, &blocks);
        if (blocks * threads > best_threads)
            best_threads = blocks * threads, best_size = threads, best_blocks = blocks;
    }
    *block = best_size;
    *min_grid = best_blocks * 40;
    return CUDA_SUCCESS;
}

}  // namespace

SOFTCU cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f, int threads, size_t shared) {
    SOFTGPU_CALL(kContext);
    return max_blocks(call, blocks, f, threads, shared);
}

SOFTCU cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction f, int threads,
                                                            size_t shared, unsigned flags) {
    SOFTGPU_CALL(kContext);
    if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
    return max_blocks(call, blocks, f, threads, shared);
}

SOFTCU cuOccupancyMaxPotentialBlockSize(int* min_grid, int* block, CUfunction f, CUoccupancyB2DSize shared_of,
                                        size_t shared, int limit) {
    SOFTGPU_CALL(kContext);
    return best_block(call, min_grid, block, f, shared_of, shared, limit);
}

SOFTCU cuOccupancyMaxPotentialBlockSizeWithFlags(int* min_grid, int* block, CUfunction f,
                                                 CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                                 unsigned flags) {
    SOFTGPU_CALL(kContext);
    if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
    return best_block(call, min_grid, block, f, shared_of, shared, limit);
}

SOFTCU cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction f, int blocks, int) {
    SOFTGPU_CALL(kContext);
    if (!bytes || blocks <= 0) return CUDA_ERROR_INVALID_VALUE;
    CUfunc_st* function = nullptr;
    if (const CUresult r = resolve_function(f, call.context(), &function); r != CUDA_SUCCESS) return r;
    const std::size_t share = shared_per_block_optin() / static_cast<unsigned>(blocks);
    const std::size_t fixed = function->function->info().static_shared_bytes;
    *bytes = share > fixed ? share - fixed : 0;
    return CUDA_SUCCESS;
}
