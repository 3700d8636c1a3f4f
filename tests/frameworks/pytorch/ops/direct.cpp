// Elementwise operations for which PyTorch calls its device kernels directly, without a stub.
#include <ATen/native/Gelu.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "elementwise.h"
#include "host.h"

namespace ops {
namespace {
using at::Scalar;
using at::Tensor;

Tensor compute(int op, std::initializer_list<Tensor> inputs, const Numbers& numbers = {}) {
    auto config = at::TensorIteratorConfig();
    config.add_owned_output(Tensor());
    for (const Tensor& t : inputs) config.add_owned_const_input(t);
    config.allow_cpu_scalars(true).promote_inputs_to_common_dtype(true).cast_common_dtype_to_outputs(true);
    auto it = config.build();
    run_elementwise(op, it, numbers);
    return it.output();
}
Tensor& into(Tensor& out, const Tensor& value) {
    at::native::resize_output(out, value.sizes());
    return out.copy_(value);
}
bool by_tanh(std::string_view approximate) {
    return at::native::get_gelutype_enum(approximate) == at::native::GeluType::Tanh;
}

Tensor gelu_of(const Tensor& x, std::string_view approximate) {
    return compute(by_tanh(approximate) ? op_gelu_tanh : op_gelu, {x});
}
Tensor& gelu_out(const Tensor& x, std::string_view approximate, Tensor& out) {
    return into(out, gelu_of(x, approximate));
}
Tensor gelu_backward(const Tensor& g, const Tensor& x, std::string_view approximate) {
    return compute(by_tanh(approximate) ? op_gelu_tanh_backward : op_gelu_backward, {g, x});
}
Tensor lgamma_of(const Tensor& x) {
    return compute(op_lgamma, {at::isFloatingType(x.scalar_type()) ? x : x.to(at::kFloat)});
}
Tensor& lgamma_out(const Tensor& x, Tensor& out) {
    return into(out, lgamma_of(x));
}

Tensor glu_of(const Tensor& x, int64_t dim) {
    const int64_t half = x.size(dim) / 2;
    TORCH_CHECK(x.size(dim) % 2 == 0, "Halving dimension must be even, but dimension ", dim, " is size ",
                x.size(dim));
    return compute(op_glu, {x.narrow(dim, 0, half), x.narrow(dim, half, half)});
}
Tensor glu_backward(const Tensor& g, const Tensor& x, int64_t dim) {
    const int64_t half = x.size(dim) / 2;
    const Tensor a = x.narrow(dim, 0, half), s = at::sigmoid(x.narrow(dim, half, half));
    return at::cat({g * s, g * a * s * (1 - s)}, dim);
}
Tensor prelu_of(const Tensor& x, const Tensor& weight) {
    return compute(op_prelu, {x, weight});
}
std::tuple<Tensor, Tensor> prelu_backward(const Tensor& g, const Tensor& x, const Tensor& weight) {
    const Tensor positive = x > 0;
    return {at::where(positive, g, g * weight), at::where(positive, at::zeros_like(x), g * x)};
}

Tensor& masked_fill_number(Tensor& self, const Tensor& mask, const Scalar& value) {
    auto it = at::TensorIteratorConfig()
                  .set_check_mem_overlap(false)
                  .check_all_same_dtype(false)
                  .resize_outputs(false)
                  .add_output(self)
                  .add_const_input(self)
                  .add_owned_const_input(mask.expand_as(self))
                  .build();
    run_elementwise(op_masked_fill, self.scalar_type(), it, numbers_of({value}));
    return self;
}
Tensor& masked_fill_tensor(Tensor& self, const Tensor& mask, const Tensor& value) {
    TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor");
    return self.copy_(at::where(mask, value.to(self.device(), self.scalar_type()), self));
}

// Windows are added one offset after the other.
Tensor unfold_backward(const Tensor& g, c10::SymIntArrayRef symbolic, int64_t dim, int64_t size,
                       int64_t step) {
    Tensor out = at::zeros(C10_AS_INTARRAYREF_SLOW(symbolic), g.options());
    dim = at::maybe_wrap_dim(dim, out.dim());
    const int64_t windows = g.size(dim);
    for (int64_t k = 0; windows && k < size; ++k)
        out.slice(dim, k, k + (windows - 1) * step + 1, step).add_(g.select(-1, k));
    return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
    m.impl("gelu", gelu_of);
    m.impl("gelu.out", gelu_out);
    m.impl("gelu_backward", gelu_backward);
    m.impl("lgamma", lgamma_of);
    m.impl("lgamma.out", lgamma_out);
    m.impl("glu", glu_of);
    m.impl("glu_backward", glu_backward);
    m.impl("_prelu_kernel", prelu_of);
    m.impl("_prelu_kernel_backward", prelu_backward);
    m.impl("masked_fill_.Scalar", masked_fill_number);
    m.impl("masked_fill_.Tensor", masked_fill_tensor);
    m.impl("unfold_backward", unfold_backward);
}

}  // namespace ops
