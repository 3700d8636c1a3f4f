// Memory pools and stream-ordered allocation.
#pragma once

#include "tests/softgpu/driver/core.h"

struct CUmemPoolHandle_st {
    int device = 0;
    bool built_in = false;  ///< a device's default pool
    CUmemPoolProps props{};
    std::uint64_t release_threshold = 0;
    int reuse[3] = {1, 1, 1};
    std::uint64_t used = 0, used_peak = 0, reserved_peak = 0;
    std::map<int, std::uint8_t> access;  ///< of other devices
};

namespace softgpu {

/// Frees stream-ordered memory at once.
void free_pool_memory(Span& span);
CUmemPoolHandle_st* default_pool(int device);

}  // namespace softgpu
