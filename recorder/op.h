// What one call of the program does to device memory: the unit that is recorded, matched and planned for.
#pragma once

#include <array>
#include <cstdint>

namespace swapadvisor {

/// A live allocation of the program. Never reused within a process.
using BufferId = std::uint64_t;
constexpr BufferId kNoBuffer = 0;

enum class OpKind : std::uint8_t { kernel, memcpy_h2d, memcpy_d2h, memcpy_d2d, memset, graph };

enum class Access : std::uint8_t { read = 1, write = 2, read_write = 3 };

struct Touch {
    BufferId buffer = kNoBuffer;
    Access access = Access::read_write;
};

/// Small fixed capacity inline, so that building an op never allocates; more touches spill to a per-thread
/// vector.
struct OpView {
    OpKind kind = OpKind::kernel;
    std::uint64_t function = 0;               ///< interned function identity (0 for copies and memsets)
    std::array<std::uint32_t, 6> geometry{};  ///< grid, block; bytes in [0], [1] for copies and memsets
    void* stream = nullptr;                   ///< CUstream as the program named it
    const Touch* touches = nullptr;
    std::uint32_t touch_count = 0;
};

}  // namespace swapadvisor
