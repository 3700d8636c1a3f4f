// Pooling and resizing of images.
#include "image.h"

#include <torch/library.h>

#include "host.h"

namespace ops {
namespace {
using at::IntArrayRef;
using at::Tensor;
uint32_t u(int64_t v) {
    return static_cast<uint32_t>(v);
}
int32_t at_dim(IntArrayRef v, size_t d, int64_t missing) {
    return static_cast<int32_t>(v.empty() ? missing : v.size() == 1 ? v[0] : v[d]);
}

Window window_of(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                 IntArrayRef dilation, bool ceil_mode) {
    Window p{};
    const int64_t d = x.dim();
    p.h = u(x.size(d - 2)), p.w = u(x.size(d - 1));
    p.planes = p.h && p.w ? u(x.numel() / p.h / p.w) : 0;
    p.kh = at_dim(kernel, 0, 1), p.kw = at_dim(kernel, 1, 1);
    p.stride_h = at_dim(stride, 0, p.kh), p.stride_w = at_dim(stride, 1, p.kw);
    p.pad_h = at_dim(padding, 0, 0), p.pad_w = at_dim(padding, 1, 0);
    p.dilation_h = at_dim(dilation, 0, 1), p.dilation_w = at_dim(dilation, 1, 1);
    auto extent = [&](int32_t in, int32_t k, int32_t s, int32_t pad, int32_t dil) {
        int32_t out = (in + 2 * pad - dil * (k - 1) - 1 + (ceil_mode ? s - 1 : 0)) / s + 1;
        if (ceil_mode && (out - 1) * s >= in + pad) --out;
        return u(out);
    };
    p.oh = extent(int(p.h), p.kh, p.stride_h, p.pad_h, p.dilation_h);
    p.ow = extent(int(p.w), p.kw, p.stride_w, p.pad_w, p.dilation_w);
    return p;
}
Tensor shaped(const Tensor& x, int64_t oh, int64_t ow, at::ScalarType type) {
    auto shape = x.sizes().vec();
    shape[shape.size() - 2] = oh;
    shape[shape.size() - 1] = ow;
    return at::empty(shape, x.options().dtype(type));
}

std::tuple<Tensor, Tensor> max_pool(const Tensor& input, IntArrayRef kernel, IntArrayRef stride,
                                    IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const Tensor x = input.contiguous();
    const Window p = window_of(x, kernel, stride, padding, dilation, ceil_mode);
    Tensor y = shaped(x, p.oh, p.ow, x.scalar_type()), positions = shaped(x, p.oh, p.ow, at::kLong);
    launch_max_pool(type_of(x), p, x.const_data_ptr(), y.mutable_data_ptr(),
                    reinterpret_cast<long long*>(positions.mutable_data_ptr()), stream());
    return {y, positions};
}
Tensor max_pool_backward(const Tensor& gradient, const Tensor& input, IntArrayRef kernel, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& positions) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const Tensor dy = gradient.contiguous(), at = positions.contiguous();
    Tensor dx = at::empty(input.sizes(), dy.options());
    launch_max_pool_backward(type_of(dy), window_of(input, kernel, stride, padding, dilation, ceil_mode),
                             dy.const_data_ptr(), reinterpret_cast<const long long*>(at.const_data_ptr()),
                             dx.mutable_data_ptr(), stream());
    return dx;
}
Window average_window(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                      bool ceil_mode, bool count_padding, std::optional<int64_t> divisor) {
    Window p = window_of(x, kernel, stride, padding, {}, ceil_mode);
    p.count_padding = count_padding;
    p.divisor = divisor ? static_cast<int32_t>(*divisor) : 0;
    return p;
}
Tensor avg_pool(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                bool ceil_mode, bool count_padding, std::optional<int64_t> divisor) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const Tensor x = input.contiguous();
    const Window p = average_window(x, kernel, stride, padding, ceil_mode, count_padding, divisor);
    Tensor y = shaped(x, p.oh, p.ow, x.scalar_type());
    launch_average_pool(type_of(x), p, x.const_data_ptr(), y.mutable_data_ptr(), stream());
    return y;
}
Tensor avg_pool_backward(const Tensor& gradient, const Tensor& input, IntArrayRef kernel, IntArrayRef stride,
                         IntArrayRef padding, bool ceil_mode, bool count_padding,
                         std::optional<int64_t> divisor) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const Tensor dy = gradient.contiguous();
    Tensor dx = at::empty(input.sizes(), dy.options());
    launch_average_pool_backward(
        type_of(dy), average_window(input, kernel, stride, padding, ceil_mode, count_padding, divisor),
        dy.const_data_ptr(), dx.mutable_data_ptr(), stream());
    return dx;
}
Window adaptive_window(const Tensor& x, int64_t oh, int64_t ow) {
    Window p{};
    const int64_t d = x.dim();
    p.h = u(x.size(d - 2)), p.w = u(x.size(d - 1)), p.oh = u(oh), p.ow = u(ow);
    p.planes = p.h && p.w ? u(x.numel() / p.h / p.w) : 0;
    return p;
}
Tensor adaptive_pool(const Tensor& input, c10::SymIntArrayRef size) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const Tensor x = input.contiguous();
    const Window p = adaptive_window(x, size[0].expect_int(), size[1].expect_int());
    Tensor y = shaped(x, p.oh, p.ow, x.scalar_type());
    launch_adaptive_pool(type_of(x), p, x.const_data_ptr(), y.mutable_data_ptr(), stream());
    return y;
}
Tensor adaptive_pool_backward(const Tensor& gradient, const Tensor& input) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const Tensor dy = gradient.contiguous();
    Tensor dx = at::empty(input.sizes(), dy.options());
    launch_adaptive_pool_backward(type_of(dy), adaptive_window(input, dy.size(-2), dy.size(-1)),
                                  dy.const_data_ptr(), dx.mutable_data_ptr(), stream());
    return dx;
}

Resize resize_of(IntArrayRef in, IntArrayRef out, bool linear, bool align, std::optional<double> sh,
                 std::optional<double> sw) {
    auto scale = [&](int64_t from, int64_t to, std::optional<double> given) {
        if (linear && align) return to > 1 ? double(from - 1) / double(to - 1) : 0.0;
        return given && *given > 0 ? 1 / *given : double(from) / double(to);
    };
    return {u(in[0] * in[1]),         u(in[2]), u(in[3]), u(out[0]), u(out[1]), scale(in[2], out[0], sh),
            scale(in[3], out[1], sw), linear,   align};
}
Tensor resized(const Tensor& input, c10::SymIntArrayRef size, bool linear, bool align,
               std::optional<double> sh, std::optional<double> sw) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const Tensor x = input.contiguous();
    const auto out = C10_AS_INTARRAYREF_SLOW(size);
    Tensor y = shaped(x, out[0], out[1], x.scalar_type());
    launch_resize(type_of(x), resize_of(x.sizes(), out, linear, align, sh, sw), x.const_data_ptr(),
                  y.mutable_data_ptr(), stream());
    return y;
}
Tensor resized_backward(const Tensor& gradient, c10::SymIntArrayRef out, c10::SymIntArrayRef in, bool linear,
                        bool align, std::optional<double> sh, std::optional<double> sw) {
    const c10::cuda::OptionalCUDAGuard guard(gradient.device());
    const Tensor dy = gradient.contiguous();
    Tensor dx = at::empty(C10_AS_INTARRAYREF_SLOW(in), dy.options());
    launch_resize_backward(type_of(dy),
                           resize_of(dx.sizes(), C10_AS_INTARRAYREF_SLOW(out), linear, align, sh, sw),
                           dy.const_data_ptr(), dx.mutable_data_ptr(), stream());
    return dx;
}
Tensor nearest(const Tensor& x, c10::SymIntArrayRef size, std::optional<double> sh,
               std::optional<double> sw) {
    return resized(x, size, false, false, sh, sw);
}
Tensor bilinear(const Tensor& x, c10::SymIntArrayRef size, bool align, std::optional<double> sh,
                std::optional<double> sw) {
    return resized(x, size, true, align, sh, sw);
}
Tensor nearest_backward(const Tensor& g, c10::SymIntArrayRef out, c10::SymIntArrayRef in,
                        std::optional<double> sh, std::optional<double> sw) {
    return resized_backward(g, out, in, false, false, sh, sw);
}
Tensor bilinear_backward(const Tensor& g, c10::SymIntArrayRef out, c10::SymIntArrayRef in, bool align,
                         std::optional<double> sh, std::optional<double> sw) {
    return resized_backward(g, out, in, true, align, sh, sw);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
    m.impl("max_pool2d_with_indices", max_pool);
    m.impl("max_pool2d_with_indices_backward", max_pool_backward);
    m.impl("avg_pool2d", avg_pool);
    m.impl("avg_pool2d_backward", avg_pool_backward);
    m.impl("_adaptive_avg_pool2d", adaptive_pool);
    m.impl("_adaptive_avg_pool2d_backward", adaptive_pool_backward);
    m.impl("upsample_nearest2d", nearest);
    m.impl("upsample_nearest2d_backward", nearest_backward);
    m.impl("upsample_bilinear2d", bilinear);
    m.impl("upsample_bilinear2d_backward", bilinear_backward);
}

}  // namespace ops
