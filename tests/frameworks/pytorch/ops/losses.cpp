// Losses by class and the cells of recurrent networks.
#include <torch/library.h>

#include "host.h"
#include "train.h"

namespace ops {
namespace {
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
uint32_t u(int64_t v) {
    return static_cast<uint32_t>(v);
}
const void* data(const Tensor& t) {
    return t.defined() ? t.const_data_ptr() : nullptr;
}
Tensor dense(const OptionalTensor& t) {
    return t && t->defined() ? t->contiguous() : Tensor();
}

struct Classes {
    uint32_t outer, classes, inner;
};
Classes classes_of(const Tensor& x) {
    if (x.dim() == 1) return {1, u(x.size(0)), 1};
    const int64_t outer = x.size(0), classes = x.size(1);
    return {u(outer), u(classes), u(outer && classes ? x.numel() / outer / classes : 0)};
}

std::tuple<Tensor, Tensor> nll(const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                               int64_t reduction, c10::SymInt ignore) {
    const c10::cuda::OptionalCUDAGuard guard(self.device());
    const Tensor x = self.contiguous(), t = target.to(at::kLong).contiguous(), w = dense(weight);
    const Classes c = classes_of(x);
    Tensor loss = at::empty(t.sizes(), x.options()), weights = at::empty_like(loss);
    launch_nll(type_of(x), c.outer, c.classes, c.inner, ignore.expect_int(), data(x),
               reinterpret_cast<const long long*>(data(t)), data(w), loss.mutable_data_ptr(),
               weights.mutable_data_ptr(), stream());
    C10_CUDA_CHECK(cudaGetLastError());
    if (reduction == at::Reduction::None) return {loss, at::zeros({}, x.options())};
    Tensor total = weights.sum();
    const Tensor sum = loss.sum();
    return {reduction == at::Reduction::Mean ? sum / total : sum, total};
}
Tensor nll_backward(const Tensor& gradient, const Tensor& self, const Tensor& target,
                    const OptionalTensor& weight, int64_t reduction, c10::SymInt ignore,
                    const Tensor& total) {
    const c10::cuda::OptionalCUDAGuard guard(self.device());
    const Tensor g = gradient.contiguous(), t = target.to(at::kLong).contiguous(), w = dense(weight);
    const Classes c = classes_of(self);
    Tensor dx = at::zeros(self.sizes(), self.options());
    launch_nll_backward(
        type_of(self), c.outer, c.classes, c.inner, ignore.expect_int(),
        reinterpret_cast<const long long*>(data(t)), data(w), data(g), reduction == at::Reduction::None,
        reduction == at::Reduction::Mean ? data(total) : nullptr, dx.mutable_data_ptr(), stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return dx;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const OptionalTensor& input_bias,
                                             const OptionalTensor& hidden_bias) {
    const c10::cuda::OptionalCUDAGuard guard(cx.device());
    const Tensor gi = input_gates.contiguous(), gh = hidden_gates.contiguous(), c = cx.contiguous(),
                 bi = dense(input_bias), bh = dense(hidden_bias);
    Tensor hy = at::empty_like(c), cy = at::empty_like(c), workspace = at::empty_like(gi);
    launch_lstm(type_of(c), u(c.size(0)), u(c.size(1)), data(gi), data(gh), data(bi), data(bh), data(c),
                hy.mutable_data_ptr(), cy.mutable_data_ptr(), workspace.mutable_data_ptr(), stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return {hy, cy, workspace};
}
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                      const OptionalTensor& grad_cy, const Tensor& cx,
                                                      const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
    const Tensor dhy = dense(grad_hy), dcy = dense(grad_cy);
    if (!dhy.defined() && !dcy.defined()) return {};
    const c10::cuda::OptionalCUDAGuard guard(cx.device());
    const Tensor before = cx.contiguous(), after = cy.contiguous();
    Tensor dgates = at::empty_like(workspace), dcx = at::empty_like(before);
    launch_lstm_backward(type_of(cx), u(cx.size(0)), u(cx.size(1)), data(dhy), data(dcy), data(before),
                         data(after), data(workspace), dgates.mutable_data_ptr(), dcx.mutable_data_ptr(),
                         stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return {dgates, dcx, has_bias ? dgates.sum(0, false) : Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
    m.impl("nll_loss_forward", nll);
    m.impl("nll_loss_backward", nll_backward);
    m.impl("nll_loss2d_forward", nll);
    m.impl("nll_loss2d_backward", nll_backward);
    m.impl("_thnn_fused_lstm_cell", lstm_cell);
    m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
}

}  // namespace ops
