// Matrix products and convolutions, registered for the CUDA key.
#include "matrix.h"

#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "host.h"

namespace ops {
namespace {
using at::IntArrayRef;
using at::Scalar;
using at::Tensor;

void strides_of(const Tensor& t, long long (&out)[3]) {
    const int64_t d = t.dim();
    out[0] = d > 2 ? t.stride(0) : 0;
    out[1] = t.stride(d - 2);
    out[2] = t.stride(d - 1);
}

// a (b, m, k) or (m, k), b likewise; `add` of the result's shape (expanded) or undefined.
Tensor product(const Tensor& a, const Tensor& b, const Tensor& add, const Scalar& beta, const Scalar& alpha) {
    TORCH_CHECK(a.dim() == b.dim() && (a.dim() == 2 || a.dim() == 3) && a.size(-1) == b.size(-2) &&
                    a.scalar_type() == b.scalar_type() && (a.dim() == 2 || a.size(0) == b.size(0)),
                "matrix product: shapes ", a.sizes(), " and ", b.sizes(), " or types ", a.scalar_type(),
                " and ", b.scalar_type(), " do not agree");
    const c10::cuda::OptionalCUDAGuard guard(a.device());
    Product p{};
    p.batch = a.dim() == 3 ? static_cast<uint32_t>(a.size(0)) : 1;
    p.m = static_cast<uint32_t>(a.size(-2));
    p.k = static_cast<uint32_t>(a.size(-1));
    p.n = static_cast<uint32_t>(b.size(-1));
    Tensor out =
        at::empty(a.dim() == 3 ? std::vector<int64_t>{a.size(0), p.m, p.n} : std::vector<int64_t>{p.m, p.n},
                  a.options());
    p.a = a.const_data_ptr();
    p.b = b.const_data_ptr();
    p.out = out.mutable_data_ptr();
    strides_of(a, p.a_stride);
    strides_of(b, p.b_stride);
    p.alpha = alpha.to<double>();
    p.beta = beta.to<double>();
    Tensor expanded;
    if (add.defined() && p.beta != 0) {
        expanded = add.expand(out.sizes());
        p.add = expanded.const_data_ptr();
        strides_of(expanded, p.add_stride);
    }
    TORCH_CHECK(at::isFloatingType(a.scalar_type()), "op pack: matrix products of floating-point types only");
    launch_product(type_of(a), p, stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return out;
}

Tensor mm(const Tensor& a, const Tensor& b) {
    return product(a, b, {}, 0, 1);
}
Tensor bmm(const Tensor& a, const Tensor& b) {
    return product(a, b, {}, 0, 1);
}
Tensor addmm(const Tensor& add, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
    return product(a, b, add, beta, alpha);
}
Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) {
    at::native::resize_output(out, {a.size(0), b.size(1)});
    return out.copy_(product(a, b, {}, 0, 1));
}
Tensor& bmm_out(const Tensor& a, const Tensor& b, Tensor& out) {
    at::native::resize_output(out, {a.size(0), a.size(1), b.size(2)});
    return out.copy_(product(a, b, {}, 0, 1));
}
Tensor& addmm_out(const Tensor& add, const Tensor& a, const Tensor& b, const Scalar& beta,
                  const Scalar& alpha, Tensor& out) {
    at::native::resize_output(out, {a.size(0), b.size(1)});
    return out.copy_(product(a, b, add, beta, alpha));
}
Tensor& addmm_in_place(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                       const Scalar& alpha) {
    return self.copy_(product(a, b, self, beta, alpha));
}
Tensor& baddbmm_out(const Tensor& add, const Tensor& a, const Tensor& b, const Scalar& beta,
                    const Scalar& alpha, Tensor& out) {
    at::native::resize_output(out, {a.size(0), a.size(1), b.size(2)});
    return out.copy_(product(a, b, add, beta, alpha));
}
Tensor& baddbmm_in_place(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                         const Scalar& alpha) {
    return self.copy_(product(a, b, self, beta, alpha));
}
Tensor addmm_activation(const Tensor& add, const Tensor& a, const Tensor& b, const Scalar& beta,
                        const Scalar& alpha, bool gelu) {
    const Tensor out = product(a, b, add, beta, alpha);
    return gelu ? at::gelu(out, "tanh") : at::relu(out);
}
Tensor vector_product(const Tensor& add, const Tensor& a, const Tensor& b, const Scalar& beta,
                      const Scalar& alpha) {
    return product(a, b.unsqueeze(1), add.dim() ? add.unsqueeze(1) : add, beta, alpha).squeeze(1);
}
Tensor& addmv_out(const Tensor& add, const Tensor& a, const Tensor& b, const Scalar& beta,
                  const Scalar& alpha, Tensor& out) {
    at::native::resize_output(out, {a.size(0)});
    return out.copy_(vector_product(add, a, b, beta, alpha));
}
Tensor& addmv_in_place(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                       const Scalar& alpha) {
    return self.copy_(vector_product(self, a, b, beta, alpha));
}
Tensor dot(const Tensor& a, const Tensor& b) {
    return product(a.unsqueeze(0), b.unsqueeze(1), {}, 0, 1).squeeze(0).squeeze(0);
}

// ---- Convolutions: 1 or 2 dimensions; a transposed one is the gradient of the input of the plain one.

Tensor flat(const Tensor& t) {
    return (t.dim() == 3 ? t.unsqueeze(2) : t).contiguous();
}

struct Geometry {
    std::vector<int64_t> stride, padding, dilation, output_padding;
    bool line;  // one dimension
};
Geometry geometry_of(const Tensor& input, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                     IntArrayRef output_padding) {
    TORCH_CHECK(input.dim() == 3 || input.dim() == 4, "op pack: convolutions of one or two dimensions only");
    Geometry g{stride.vec(), padding.vec(), dilation.vec(), output_padding.vec(), input.dim() == 3};
    const size_t dims = input.dim() - 2;
    auto widen = [&](std::vector<int64_t>& v, int64_t neutral) {
        if (v.size() == 1 && dims == 2) v.push_back(v[0]);
        if (g.line) v.insert(v.begin(), neutral);
    };
    widen(g.stride, 1);
    widen(g.padding, 0);
    widen(g.dilation, 1);
    widen(g.output_padding, 0);
    return g;
}
// x is what has the channels of the filters' second dimension: the input of a plain convolution.
Convolution convolution_of(const Tensor& x, IntArrayRef y_shape, const Tensor& weight, const Geometry& g,
                           int64_t groups) {
    auto u = [](int64_t v) { return static_cast<uint32_t>(v); };
    return {u(x.size(0)),    u(groups),       u(weight.size(1)), u(weight.size(0) / groups),
            u(x.size(2)),    u(x.size(3)),    u(weight.size(2)), u(weight.size(3)),
            u(y_shape[2]),   u(y_shape[3]),   u(g.stride[0]),    u(g.stride[1]),
            u(g.padding[0]), u(g.padding[1]), u(g.dilation[0]),  u(g.dilation[1]),
            nullptr,         nullptr,         nullptr,           nullptr,
            nullptr};
}

Tensor plain_convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const Geometry& g,
                         int64_t groups) {
    std::vector<int64_t> shape{x.size(0), weight.size(0), 0, 0};
    for (int d = 0; d < 2; ++d)
        shape[2 + d] =
            (x.size(2 + d) + 2 * g.padding[d] - g.dilation[d] * (weight.size(2 + d) - 1) - 1) / g.stride[d] +
            1;
    Tensor out = at::empty(shape, x.options());
    Convolution c = convolution_of(x, shape, weight, g, groups);
    c.x = x.const_data_ptr();
    c.weight = weight.const_data_ptr();
    c.bias = bias.defined() ? bias.const_data_ptr() : nullptr;
    c.out = out.mutable_data_ptr();
    launch_convolution(type_of(x), c, stream());
    return out;
}
Tensor input_gradient(IntArrayRef x_shape, const Tensor& y, const Tensor& weight, const Tensor& bias,
                      const Geometry& g, int64_t groups) {
    Tensor out = at::empty(x_shape, y.options());
    Convolution c = convolution_of(out, y.sizes(), weight, g, groups);
    c.y = y.const_data_ptr();
    c.weight = weight.const_data_ptr();
    c.bias = bias.defined() ? bias.const_data_ptr() : nullptr;
    c.out = out.mutable_data_ptr();
    launch_convolution_input_gradient(type_of(y), c, stream());
    return out;
}
Tensor weight_gradient(const Tensor& x, const Tensor& y, const Tensor& weight, const Geometry& g,
                       int64_t groups) {
    Tensor out = at::empty_like(weight);
    Convolution c = convolution_of(x, y.sizes(), weight, g, groups);
    c.x = x.const_data_ptr();
    c.y = y.const_data_ptr();
    c.out = out.mutable_data_ptr();
    launch_convolution_weight_gradient(type_of(x), c, stream());
    return out;
}

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef output_padding, int64_t groups) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.scalar_type(),
                ") and weight type (", weight.scalar_type(), ") should be the same");
    const Geometry g = geometry_of(input, stride, padding, dilation, output_padding);
    const Tensor x = flat(input), w = flat(weight),
                 b = bias && bias->defined() ? bias->contiguous() : Tensor();
    Tensor out;
    if (transposed) {
        std::vector<int64_t> shape{x.size(0), w.size(1) * groups, 0, 0};
        for (int d = 0; d < 2; ++d)
            shape[2 + d] = (x.size(2 + d) - 1) * g.stride[d] - 2 * g.padding[d] +
                           g.dilation[d] * (w.size(2 + d) - 1) + g.output_padding[d] + 1;
        out = input_gradient(shape, x, w, b, g, groups);
    } else {
        out = plain_convolution(x, w, b, g, groups);
    }
    C10_CUDA_CHECK(cudaGetLastError());
    return g.line ? out.squeeze(2) : out;
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& gradient, const Tensor& input,
                                                        const Tensor& weight, at::OptionalIntArrayRef,
                                                        IntArrayRef stride, IntArrayRef padding,
                                                        IntArrayRef dilation, bool transposed,
                                                        IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> wanted) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const Geometry g = geometry_of(input, stride, padding, dilation, output_padding);
    const Tensor y = flat(gradient), x = flat(input), w = flat(weight);
    Tensor for_input, for_weight, for_bias;
    if (wanted[0])
        for_input = transposed ? plain_convolution(y, w, {}, g, groups)
                               : input_gradient(x.sizes(), y, w, {}, g, groups);
    if (wanted[1])
        for_weight = transposed ? weight_gradient(y, x, w, g, groups) : weight_gradient(x, y, w, g, groups);
    if (wanted[2]) for_bias = y.sum({0, 2, 3});
    C10_CUDA_CHECK(cudaGetLastError());
    if (g.line && for_input.defined()) for_input = for_input.squeeze(2);
    if (g.line && for_weight.defined()) for_weight = for_weight.squeeze(2);
    return {for_input, for_weight, for_bias};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
    m.impl("mm", mm);
    m.impl("mm.out", mm_out);
    m.impl("bmm", bmm);
    m.impl("bmm.out", bmm_out);
    m.impl("addmm", addmm);
    m.impl("addmm.out", addmm_out);
    m.impl("addmm_", addmm_in_place);
    m.impl("baddbmm", addmm);
    m.impl("baddbmm.out", baddbmm_out);
    m.impl("baddbmm_", baddbmm_in_place);
    m.impl("_addmm_activation", addmm_activation);
    m.impl("addmv", vector_product);
    m.impl("addmv.out", addmv_out);
    m.impl("addmv_", addmv_in_place);
    m.impl("dot", dot);
    m.impl("convolution", convolution);
    m.impl("convolution_backward", convolution_backward);
}

}  // namespace ops
