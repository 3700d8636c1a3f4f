// Elementwise operations: PyTorch's own structured functions do the shapes and types, and end in a dispatch stub; ours is set there.
#include "elementwise.h"

#include <ATen/native/Activation.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Fill.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/Lerp.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/Pow.h>
#include <ATen/native/RangeFactories.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>
#include <torch/library.h>

#include "host.h"

namespace ops {
namespace {
using at::Scalar;
using at::ScalarType;
using at::TensorIterator;
using at::TensorIteratorBase;
namespace native = at::native;

template <int OP, class Iterator = TensorIteratorBase>
void plain(Iterator& it) {
    run_elementwise(OP, it);
}
template <int OP, class Iterator = TensorIteratorBase>
void one_number(Iterator& it, const Scalar& a) {
    run_elementwise(OP, it, numbers_of({a}));
}
template <int OP, class Iterator = TensorIteratorBase>
void two_numbers(Iterator& it, const Scalar& a, const Scalar& b) {
    run_elementwise(OP, it, numbers_of({a, b}));
}
template <int OP, class Iterator = TensorIteratorBase>
void one_real(Iterator& it, double a) {
    run_elementwise(OP, it, numbers_of({a}));
}
template <int OP, class Iterator = TensorIteratorBase>
void number_and_real(Iterator& it, const Scalar& a, double b) {
    run_elementwise(OP, it, numbers_of({a, b}));
}

void masked_fill(TensorIterator& it, const Scalar& value) {
    run_elementwise(op_masked_fill, it.dtype(0), it, numbers_of({value}));
}
void where(TensorIterator& it) {
    run_elementwise(op_where, it.dtype(0), it);
}
void fill(TensorIterator& it, const Scalar& value) {
    run_elementwise(op_fill, it.dtype(0), it, numbers_of({value}));
}
void bitwise_not(TensorIteratorBase& it) {
    run_elementwise(it.common_dtype() == at::kBool ? op_logical_not : op_bitwise_not, it);
}
void logical_not(TensorIteratorBase& it) {
    run_elementwise(op_logical_not, it.dtype(1), it);
}
void elu(TensorIteratorBase& it, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
    run_elementwise(op_elu, it, numbers_of({alpha.to<double>() * scale.to<double>(), scale, input_scale}));
}
void elu_backward(TensorIteratorBase& it, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                  bool is_result) {
    Numbers numbers = numbers_of({alpha.to<double>() * scale.to<double>(), scale, input_scale});
    numbers.whole[0] = is_result;
    run_elementwise(op_elu_backward, it, numbers);
}
void gelu(TensorIteratorBase& it, native::GeluType type) {
    run_elementwise(type == native::GeluType::Tanh ? op_gelu_tanh : op_gelu, it);
}
void gelu_backward(TensorIteratorBase& it, native::GeluType type) {
    run_elementwise(type == native::GeluType::Tanh ? op_gelu_tanh_backward : op_gelu_backward, it);
}
template <int OP>
void clamp_one(TensorIteratorBase& it, Scalar a) {
    run_elementwise(OP, it, numbers_of({a}));
}
// Comparisons are computed in the type of their inputs, not of their boolean result.
template <int OP, class Iterator = TensorIteratorBase>
void logical(Iterator& it) {
    run_elementwise(OP, at::promoteTypes(it.dtype(1), it.dtype(2)), it);
}

// PyTorch generates this one for the device without a stub.
at::Tensor& add_to(at::Tensor& out, const at::Tensor& self, const at::Tensor& other, const Scalar& alpha) {
    native::alpha_check(at::result_type(self, other), alpha);
    auto it = out.defined() ? TensorIterator::binary_op(out, self, other)
                            : at::TensorIteratorConfig()
                                  .set_check_mem_overlap(true)
                                  .add_owned_output(at::Tensor())
                                  .add_const_input(self)
                                  .add_const_input(other)
                                  .allow_cpu_scalars(true)
                                  .promote_inputs_to_common_dtype(true)
                                  .cast_common_dtype_to_outputs(true)
                                  .enforce_safe_casting_to_output(true)
                                  .build();
    run_elementwise(op_add, it, numbers_of({alpha}));
    if (!out.defined()) out = it.output();
    return out;
}
at::Tensor add(const at::Tensor& self, const at::Tensor& other, const Scalar& alpha) {
    at::Tensor out;
    return add_to(out, self, other, alpha);
}
at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const Scalar& alpha, at::Tensor& out) {
    return add_to(out, self, other, alpha);
}
at::Tensor& add_in_place(at::Tensor& self, const at::Tensor& other, const Scalar& alpha) {
    return add_to(self, self, other, alpha);
}

at::Tensor& arange_out(const Scalar& start, const Scalar& end, const Scalar& step, at::Tensor& result) {
    const bool whole = at::isIntegralType(result.scalar_type(), false);
    const double exact = std::ceil((end.to<double>() - start.to<double>()) / step.to<double>());
    const int64_t size =
        whole && start.isIntegral(false) && end.isIntegral(false) && step.isIntegral(false)
            ? (end.toLong() - start.toLong() + step.toLong() - (step.toLong() > 0 ? 1 : -1)) / step.toLong()
            : static_cast<int64_t>(exact);
    TORCH_CHECK(step.to<double>() != 0 && size >= 0, "arange: bounds and step do not agree");
    if (result.numel() != size) result.resize_({size});
    at::Tensor dense = result.is_contiguous() ? result : at::empty_like(result, at::MemoryFormat::Contiguous);
    auto it = TensorIterator::borrowing_nullary_op(dense);
    run_elementwise(op_arange,
                    dense.scalar_type() == at::kHalf || dense.scalar_type() == at::kBFloat16
                        ? at::kFloat
                        : dense.scalar_type(),
                    it, numbers_of({start, step}));
    if (!result.is_contiguous()) result.copy_(dense);
    return result;
}

at::Tensor& linspace_out(const Scalar& start, const Scalar& end, int64_t steps, at::Tensor& result) {
    TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
    if (result.numel() != steps) result.resize_({steps});
    Numbers numbers = numbers_of(
        {start, end, steps > 1 ? (end.to<double>() - start.to<double>()) / double(steps - 1) : 0.0});
    numbers.whole[3] = steps;
    at::Tensor dense = result.is_contiguous() ? result : at::empty_like(result, at::MemoryFormat::Contiguous);
    auto it = TensorIterator::borrowing_nullary_op(dense);
    run_elementwise(op_linspace, dense.scalar_type(), it, numbers);
    if (!result.is_contiguous()) result.copy_(dense);
    return result;
}

at::Tensor loss_reduced(at::Tensor loss, int64_t reduction) {
    return reduction == at::Reduction::Mean  ? loss.mean()
           : reduction == at::Reduction::Sum ? loss.sum()
                                             : loss;
}
at::Tensor binary_cross_entropy(const at::Tensor& self, const at::Tensor& target,
                                const std::optional<at::Tensor>& weight, int64_t reduction) {
    at::Tensor out = at::empty_like(self), w = weight && weight->defined() ? *weight : at::ones_like(self);
    auto it = at::TensorIteratorConfig()
                  .add_output(out)
                  .add_const_input(self)
                  .add_const_input(target)
                  .add_const_input(w)
                  .build();
    run_elementwise(op_bce, self.scalar_type(), it);
    return loss_reduced(out, reduction);
}
at::Tensor binary_cross_entropy_backward(const at::Tensor& grad, const at::Tensor& self,
                                         const at::Tensor& target, const std::optional<at::Tensor>& weight,
                                         int64_t reduction) {
    at::Tensor out = at::empty_like(self), g = grad.expand_as(self);
    auto it = at::TensorIteratorConfig()
                  .add_output(out)
                  .add_const_input(self)
                  .add_const_input(target)
                  .add_const_input(g)
                  .build();
    run_elementwise(op_bce_backward, self.scalar_type(), it);
    if (weight && weight->defined()) out.mul_(*weight);
    if (reduction == at::Reduction::Mean) out.div_(self.numel());
    return out;
}
std::tuple<at::Tensor, at::Tensor> log_sigmoid_forward(const at::Tensor& self) {
    at::Tensor out = at::empty_like(self);
    auto it = TensorIterator::unary_op(out, self);
    run_elementwise(op_log_sigmoid, it);
    return {out, at::empty({0}, self.options())};
}

}  // namespace

void register_elementwise() {
#define UNARY(NAME) native::NAME##_stub.set_cuda_dispatch_ptr(plain<op_##NAME>);
    UNARY(neg)
    UNARY(abs) UNARY(sign) UNARY(reciprocal) UNARY(sqrt) UNARY(rsqrt) UNARY(exp) UNARY(exp2) UNARY(expm1)
        UNARY(log) UNARY(log2) UNARY(log10) UNARY(log1p) UNARY(sin) UNARY(cos) UNARY(tan) UNARY(asin)
            UNARY(acos) UNARY(atan) UNARY(sinh) UNARY(cosh) UNARY(tanh) UNARY(asinh) UNARY(acosh) UNARY(atanh)
                UNARY(erf) UNARY(erfc) UNARY(erfinv) UNARY(lgamma) UNARY(sigmoid) UNARY(floor) UNARY(ceil)
                    UNARY(round) UNARY(trunc) UNARY(frac) UNARY(hardsigmoid) UNARY(silu) UNARY(mish)
                        native::sgn_stub.set_cuda_dispatch_ptr(plain<op_sign>);
    native::signbit_stub.set_cuda_dispatch_ptr(
        [](TensorIteratorBase& it) { run_elementwise(op_signbit, it.dtype(1), it); });
    native::isposinf_stub.set_cuda_dispatch_ptr(
        [](TensorIteratorBase& it) { run_elementwise(op_isposinf, it.dtype(1), it); });
    native::isneginf_stub.set_cuda_dispatch_ptr(
        [](TensorIteratorBase& it) { run_elementwise(op_isneginf, it.dtype(1), it); });
    native::bitwise_not_stub.set_cuda_dispatch_ptr(bitwise_not);
    native::logical_not_stub.set_cuda_dispatch_ptr(logical_not);
    native::pow_tensor_scalar_stub.set_cuda_dispatch_ptr(one_number<op_pow_number>);
    native::clamp_scalar_stub.set_cuda_dispatch_ptr(two_numbers<op_clamp_numbers>);
    native::clamp_min_scalar_stub.set_cuda_dispatch_ptr(clamp_one<op_clamp_min_number>);
    native::clamp_max_scalar_stub.set_cuda_dispatch_ptr(clamp_one<op_clamp_max_number>);
    native::GeluKernel.set_cuda_dispatch_ptr(gelu);
    native::GeluBackwardKernel.set_cuda_dispatch_ptr(gelu_backward);
    native::elu_stub.set_cuda_dispatch_ptr(elu);
    native::elu_backward_stub.set_cuda_dispatch_ptr(elu_backward);
    native::softplus_stub.set_cuda_dispatch_ptr(two_numbers<op_softplus>);
    native::softplus_backward_stub.set_cuda_dispatch_ptr(two_numbers<op_softplus_backward>);
    native::threshold_stub.set_cuda_dispatch_ptr(two_numbers<op_threshold>);
    native::hardtanh_backward_stub.set_cuda_dispatch_ptr(two_numbers<op_hardtanh_backward, TensorIterator>);
    native::hardsigmoid_backward_stub.set_cuda_dispatch_ptr(plain<op_hardsigmoid_backward>);
    native::hardswish_stub.set_cuda_dispatch_ptr(plain<op_hardswish, TensorIterator>);
    native::hardswish_backward_stub.set_cuda_dispatch_ptr(plain<op_hardswish_backward, TensorIterator>);
    native::hardshrink_stub.set_cuda_dispatch_ptr(one_number<op_hardshrink>);
    native::softshrink_stub.set_cuda_dispatch_ptr(one_number<op_softshrink>);
    native::shrink_backward_stub.set_cuda_dispatch_ptr(one_number<op_shrink_backward>);
    native::leaky_relu_stub.set_cuda_dispatch_ptr(one_number<op_leaky_relu>);
    native::leaky_relu_backward_stub.set_cuda_dispatch_ptr(one_number<op_leaky_relu_backward>);
    native::log_sigmoid_backward_stub.set_cuda_dispatch_ptr(plain<op_log_sigmoid_backward, TensorIterator>);
    native::silu_backward_stub.set_cuda_dispatch_ptr(plain<op_silu_backward>);
    native::mish_backward_stub.set_cuda_dispatch_ptr(plain<op_mish_backward, TensorIterator>);
    native::glu_stub.set_cuda_dispatch_ptr(plain<op_glu>);
    native::prelu_stub.set_cuda_dispatch_ptr(plain<op_prelu, TensorIterator>);

    native::add_stub.set_cuda_dispatch_ptr(one_number<op_add>);
    native::sub_stub.set_cuda_dispatch_ptr(one_number<op_sub>);
    native::mul_stub.set_cuda_dispatch_ptr(plain<op_mul>);
    native::div_true_stub.set_cuda_dispatch_ptr(plain<op_div>);
    native::div_floor_stub.set_cuda_dispatch_ptr(plain<op_div_floor>);
    native::div_trunc_stub.set_cuda_dispatch_ptr(plain<op_div_trunc>);
    native::remainder_stub.set_cuda_dispatch_ptr(plain<op_remainder>);
    native::fmod_stub.set_cuda_dispatch_ptr(plain<op_fmod>);
    native::pow_tensor_tensor_stub.set_cuda_dispatch_ptr(plain<op_pow>);
    native::atan2_stub.set_cuda_dispatch_ptr(plain<op_atan2>);
    native::hypot_stub.set_cuda_dispatch_ptr(plain<op_hypot>);
    native::copysign_stub.set_cuda_dispatch_ptr(plain<op_copysign>);
    native::maximum_stub.set_cuda_dispatch_ptr(plain<op_maximum>);
    native::minimum_stub.set_cuda_dispatch_ptr(plain<op_minimum>);
    native::fmax_stub.set_cuda_dispatch_ptr(plain<op_fmax>);
    native::fmin_stub.set_cuda_dispatch_ptr(plain<op_fmin>);
    native::bitwise_and_stub.set_cuda_dispatch_ptr(plain<op_and>);
    native::bitwise_or_stub.set_cuda_dispatch_ptr(plain<op_or>);
    native::bitwise_xor_stub.set_cuda_dispatch_ptr(plain<op_xor>);
    native::lshift_stub.set_cuda_dispatch_ptr(plain<op_shift_left>);
    native::rshift_stub.set_cuda_dispatch_ptr(plain<op_shift_right>);
    native::xlogy_stub.set_cuda_dispatch_ptr(plain<op_xlogy>);
    native::logaddexp_stub.set_cuda_dispatch_ptr(plain<op_logaddexp>);
    native::heaviside_stub.set_cuda_dispatch_ptr(plain<op_heaviside>);
    native::logical_and_stub.set_cuda_dispatch_ptr(logical<op_logical_and, TensorIterator>);
    native::logical_or_stub.set_cuda_dispatch_ptr(logical<op_logical_or, TensorIterator>);
    native::logical_xor_stub.set_cuda_dispatch_ptr(logical<op_logical_xor, TensorIterator>);
    native::lt_stub.set_cuda_dispatch_ptr(plain<op_lt>);
    native::le_stub.set_cuda_dispatch_ptr(plain<op_le>);
    native::gt_stub.set_cuda_dispatch_ptr(plain<op_gt>);
    native::ge_stub.set_cuda_dispatch_ptr(plain<op_ge>);
    native::eq_stub.set_cuda_dispatch_ptr(plain<op_eq>);
    native::ne_stub.set_cuda_dispatch_ptr(plain<op_ne>);
    native::sigmoid_backward_stub.set_cuda_dispatch_ptr(plain<op_sigmoid_backward>);
    native::tanh_backward_stub.set_cuda_dispatch_ptr(plain<op_tanh_backward>);
    native::mse_stub.set_cuda_dispatch_ptr(plain<op_mse>);
    native::smooth_l1_stub.set_cuda_dispatch_ptr(one_real<op_smooth_l1>);
    native::huber_stub.set_cuda_dispatch_ptr(one_real<op_huber, TensorIterator>);
    native::lerp_kernel_scalar_weight.set_cuda_dispatch_ptr(one_number<op_lerp_number>);
    native::masked_fill_stub.set_cuda_dispatch_ptr(masked_fill);

    native::lerp_kernel_tensor_weight.set_cuda_dispatch_ptr(plain<op_lerp>);
    native::where_kernel.set_cuda_dispatch_ptr(where);
    native::addcmul_stub.set_cuda_dispatch_ptr(one_number<op_addcmul>);
    native::addcdiv_stub.set_cuda_dispatch_ptr(one_number<op_addcdiv>);
    native::clamp_stub.set_cuda_dispatch_ptr(plain<op_clamp>);
    native::mse_backward_stub.set_cuda_dispatch_ptr(one_number<op_mse_backward, TensorIterator>);
    native::smooth_l1_backward_stub.set_cuda_dispatch_ptr(
        number_and_real<op_smooth_l1_backward, TensorIterator>);
    native::huber_backward_stub.set_cuda_dispatch_ptr(number_and_real<op_huber_backward, TensorIterator>);
    native::fill_stub.set_cuda_dispatch_ptr(fill);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
    m.impl("add.Tensor", add);
    m.impl("add.out", add_out);
    m.impl("add_.Tensor", add_in_place);
    m.impl("arange.start_out", arange_out);
    m.impl("linspace.out", linspace_out);
    m.impl("binary_cross_entropy", binary_cross_entropy);
    m.impl("binary_cross_entropy_backward", binary_cross_entropy_backward);
    m.impl("log_sigmoid_forward", log_sigmoid_forward);
}

}  // namespace ops
