// Hashes that say "the same work" across iterations without naming the buffers themselves.
#pragma once

#include <cstdint>

#include "recorder/op.h"

namespace swapadvisor {

/// 64-bit finaliser (a bijection with full avalanche); `a` and `b` are both absorbed.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = a * 0x9E3779B97F4A7C15ull + b;
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9ull;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

/// What a match key needs to know of a buffer.
struct BufferShape {
    std::int64_t bytes = 0;
    bool small = false;  ///< arena buffers do not take part: they are always resident, and often irregular
};

/// Match key of an op: kind, function, geometry, and the sizes of the large buffers in the order of its
/// arguments. Neither addresses, buffer ids nor the stream take part, so the key of one place in the loop is
/// the same in every iteration. `shape_of(BufferId) -> BufferShape`.
template <class ShapeOf>
std::uint64_t match_key(const OpView& op, ShapeOf&& shape_of) {
    std::uint64_t key = mix(static_cast<std::uint64_t>(op.kind) + 1, op.function);
    for (int i = 0; i < 6; i += 2)
        key = mix(key, static_cast<std::uint64_t>(op.geometry[i]) << 32 | op.geometry[i + 1]);
    for (std::uint32_t i = 0; i < op.touch_count; ++i) {
        const BufferShape shape = shape_of(op.touches[i].buffer);
        if (!shape.small) key = mix(key, static_cast<std::uint64_t>(shape.bytes));
    }
    return key;
}

}  // namespace swapadvisor
