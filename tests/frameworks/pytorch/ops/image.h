// Launchers of image.cu: pooling and resizing of dense (planes, h, w) images. Gradients gather, so that sums have a fixed order.
#pragma once
#include "launch.h"

namespace ops {
struct Window {
    uint32_t planes, h, w, oh, ow;
    int32_t kh, kw, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    int32_t count_padding, divisor;  // of averages
};
void launch_max_pool(Type type, const Window& window, const void* x, void* y, long long* positions,
                     cudaStream_t stream);
void launch_max_pool_backward(Type type, const Window& window, const void* dy, const long long* positions,
                              void* dx, cudaStream_t stream);
void launch_average_pool(Type type, const Window& window, const void* x, void* y, cudaStream_t stream);
void launch_average_pool_backward(Type type, const Window& window, const void* dy, void* dx,
                                  cudaStream_t stream);
// Windows that divide the image into oh x ow parts.
void launch_adaptive_pool(Type type, const Window& window, const void* x, void* y, cudaStream_t stream);
void launch_adaptive_pool_backward(Type type, const Window& window, const void* dy, void* dx,
                                   cudaStream_t stream);
struct Resize {
    uint32_t planes, h, w, oh, ow;
    double scale_h, scale_w;  // source extent per target extent
    int32_t linear, align;
};
void launch_resize(Type type, const Resize& resize, const void* x, void* y, cudaStream_t stream);
void launch_resize_backward(Type type, const Resize& resize, const void* dy, void* dx, cudaStream_t stream);
}  // namespace ops
