// Allocation families, and how much memory there is.
#include <algorithm>
#include <limits>

#include "interpose/left_to_driver.h"
#include "interpose/op_call.h"
#include "interpose/pools.h"

namespace swapadvisor {

CUresult hook_cuMemAlloc_v2(Entry entry, Fn_cuMemAlloc_v2 real, CUdeviceptr* out, size_t bytes) {
    return answer_or_forward(
        entry,
        [&](Runtime& runtime) -> std::optional<CUresult> {
            if (allocation_stays(bytes)) return std::nullopt;
            return runtime.mem_alloc(out, bytes);
        },
        [&] { return real(out, bytes); });
}

CUresult hook_cuMemAllocPitch_v2(Entry entry, Fn_cuMemAllocPitch_v2 real, CUdeviceptr* out, size_t* pitch,
                                 size_t width, size_t height, unsigned element_bytes) {
    return answer_or_forward(
        entry,
        [&](Runtime& runtime) -> std::optional<CUresult> {
            if (allocation_stays(width * height)) return std::nullopt;
            return runtime.mem_alloc_pitch(out, pitch, width, height, element_bytes);
        },
        [&] { return real(out, pitch, width, height, element_bytes); });
}

CUresult hook_cuMemFree_v2(Entry entry, Fn_cuMemFree_v2 real, CUdeviceptr address) {
    return answer_or_forward(
        entry,
        [&](Runtime& runtime) { return free_piece(address, [&] { return runtime.mem_free(address); }); },
        [&] { return real(address); });
}

/// Moves by itself, page by page: only the report hears of it.
CUresult hook_cuMemAllocManaged(Entry entry, Fn_cuMemAllocManaged real, CUdeviceptr* out, size_t bytes,
                                unsigned flags) {
    const CUresult result = real(out, bytes, flags);
    if (result == CUDA_SUCCESS && out) {
        if (Runtime* runtime = runtime_for(entry)) runtime->left_to_driver(*out, bytes, "managed memory");
    }
    return result;
}

CUresult hook_cuMemGetInfo_v2(Entry entry, Fn_cuMemGetInfo_v2 real, size_t* free_bytes, size_t* total_bytes) {
    return answer_or_forward(
        entry, [&](Runtime& runtime) { return runtime.mem_get_info(free_bytes, total_bytes); },
        [&] { return real(free_bytes, total_bytes); });
}

/// The 32-bit form of old programs: saturates.
CUresult hook_cuMemGetInfo(Entry entry, Fn_cuMemGetInfo real, unsigned* free_bytes, unsigned* total_bytes) {
    return answer_or_forward(
        entry,
        [&](Runtime& runtime) -> std::optional<CUresult> {
            if (!free_bytes || !total_bytes) return std::nullopt;
            size_t wide_free = 0, wide_total = 0;
            const auto answer = runtime.mem_get_info(&wide_free, &wide_total);
            if (answer == CUDA_SUCCESS) {
                constexpr size_t most = std::numeric_limits<unsigned>::max();
                *free_bytes = static_cast<unsigned>(std::min(wide_free, most));
                *total_bytes = static_cast<unsigned>(std::min(wide_total, most));
            }
            return answer;
        },
        [&] { return real(free_bytes, total_bytes); });
}

CUresult hook_cuMemGetAddressRange_v2(Entry entry, Fn_cuMemGetAddressRange_v2 real, CUdeviceptr* base,
                                      size_t* bytes, CUdeviceptr address) {
    return answer_or_forward(
        entry, [&](Runtime& runtime) { return runtime.mem_get_address_range(base, bytes, address); },
        [&] { return real(base, bytes, address); });
}

}  // namespace swapadvisor
