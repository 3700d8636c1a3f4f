// Memory pools and stream-ordered allocation.
#pragma once

#include "tests/softgpu/driver/core.h"

struct CUmemPoolHandle_st {
    int device = 0;
    bool built_in = false;  ///< a device's default pool
    CUmemPoolProps props{};
    std::uint64_t release_threshold = 0;
    int reuse[3] = {1, 1, 1};
    std::uint64_t used = 0, used_peak = 0;
    /// As a figure only: the device has freed memory back at once.
    std::uint64_t reserved = 0, reserved_peak = 0;
    static std::uint64_t whole_pages(std::uint64_t bytes) {
        return (bytes + softgpu::kPage - 1) / softgpu::kPage * softgpu::kPage;
    }
    /// At most so much stays reserved beyond what is in use.
    void keep(std::uint64_t bytes) { reserved = std::max(whole_pages(used), std::min(reserved, bytes)); }
    std::map<int, std::uint8_t> access;  ///< of other devices
};

namespace softgpu {

/// Frees stream-ordered memory at once.
void free_pool_memory(Span& span);
CUmemPoolHandle_st* default_pool(int device);

}  // namespace softgpu
