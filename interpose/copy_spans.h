// What the copy descriptors of the driver's structs touch: from the first to past the last byte on each side.
#pragma once

#include <cuda.h>

#include "interpose/runtime.h"

namespace swapadvisor {

/// One side of a pitched copy. `pitch`, `slice_rows` (rows from one slice to the next) may be 0 where they do
/// not matter.
inline CopySpan pitched_span(CUmemorytype type, CUdeviceptr device, const void* host, std::size_t x,
                             std::size_t y, std::size_t z, std::size_t pitch, std::size_t slice_rows,
                             std::size_t width, std::size_t height, std::size_t depth) {
    CopySpan span;
    if (width == 0 || height == 0 || depth == 0 || type == CU_MEMORYTYPE_ARRAY) return span;
    if (pitch == 0) pitch = x + width;
    if (slice_rows == 0) slice_rows = y + height;
    const std::size_t offset = (z * slice_rows + y) * pitch + x;
    span.pitched = (height > 1 && pitch > width) || (depth > 1 && slice_rows > height);
    span.bytes = ((depth - 1) * slice_rows + (height - 1)) * pitch + width;
    span.row_bytes = width;
    span.rows = height;
    span.pitch = pitch;
    span.slices = depth;
    span.slice_pitch = slice_rows * pitch;
    if (type == CU_MEMORYTYPE_HOST) {
        span.host = static_cast<const char*>(host) + offset;
    } else {
        span.address = device + offset;
    }
    return span;
}

inline CopySpan source_of(const CUDA_MEMCPY2D& c) {
    return pitched_span(c.srcMemoryType, c.srcDevice, c.srcHost, c.srcXInBytes, c.srcY, 0, c.srcPitch, 0,
                        c.WidthInBytes, c.Height, 1);
}
inline CopySpan destination_of(const CUDA_MEMCPY2D& c) {
    return pitched_span(c.dstMemoryType, c.dstDevice, c.dstHost, c.dstXInBytes, c.dstY, 0, c.dstPitch, 0,
                        c.WidthInBytes, c.Height, 1);
}

/// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER.
template <class Copy3D>
CopySpan source_of(const Copy3D& c) {
    return pitched_span(c.srcMemoryType, c.srcDevice, c.srcHost, c.srcXInBytes, c.srcY, c.srcZ, c.srcPitch,
                        c.srcHeight, c.WidthInBytes, c.Height, c.Depth);
}
template <class Copy3D>
CopySpan destination_of(const Copy3D& c) {
    return pitched_span(c.dstMemoryType, c.dstDevice, c.dstHost, c.dstXInBytes, c.dstY, c.dstZ, c.dstPitch,
                        c.dstHeight, c.WidthInBytes, c.Height, c.Depth);
}

/// A memset's destination; `width` in elements.
inline CopySpan set_span(CUdeviceptr to, std::size_t pitch, unsigned element_bytes, std::size_t width,
                         std::size_t height) {
    return pitched_span(CU_MEMORYTYPE_DEVICE, to, nullptr, 0, 0, 0, height > 1 ? pitch : 0, 0,
                        width * element_bytes, height, 1);
}

}  // namespace swapadvisor
