// Layer, group and batch normalisation.
#include "normalize.h"

#include <ATen/native/group_norm.h>
#include <torch/library.h>

#include "host.h"

namespace ops {
namespace {
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

at::ScalarType statistic_type(at::ScalarType type) {
    return type == at::kDouble ? at::kDouble : at::kFloat;
}
Tensor dense_or_none(const OptionalTensor& t) {
    return t && t->defined() ? t->contiguous() : Tensor();
}
void* data(const Tensor& t) {
    return t.defined() ? t.data_ptr() : nullptr;
}
uint32_t u(int64_t v) {
    return static_cast<uint32_t>(v);
}

Normalized layer_shape(const Tensor& x, at::IntArrayRef shape, const Tensor& weight, double eps) {
    int64_t width = 1;
    for (const int64_t extent : shape) width *= extent;
    return {u(width ? x.numel() / width : 0),
            1,
            u(width),
            1,
            eps,
            type_of(x),
            weight.defined() ? type_of(weight) : type_of(x),
            0};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& input, c10::SymIntArrayRef symbolic,
                                              const OptionalTensor& weight, const OptionalTensor& bias,
                                              double eps) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const auto shape = C10_AS_INTARRAYREF_SLOW(symbolic);
    const Tensor x = input.contiguous(), w = dense_or_none(weight), b = dense_or_none(bias);
    auto sizes = x.sizes().vec();
    for (size_t d = sizes.size() - shape.size(); d < sizes.size(); ++d) sizes[d] = 1;
    Tensor y = at::empty_like(x), mean = at::empty(sizes, x.options().dtype(statistic_type(x.scalar_type()))),
           rstd = at::empty_like(mean);
    const Normalized p = layer_shape(x, shape, w.defined() ? w : b, eps);
    launch_statistics(p, data(x), data(mean), data(rstd), nullptr, stream());
    launch_normalize(p, data(x), data(mean), data(rstd), data(w), data(b), data(y), stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return {y, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& gradient, const Tensor& input,
                                                       c10::SymIntArrayRef symbolic, const Tensor& mean,
                                                       const Tensor& rstd, const OptionalTensor& weight,
                                                       const OptionalTensor& bias,
                                                       std::array<bool, 3> wanted) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const auto shape = C10_AS_INTARRAYREF_SLOW(symbolic);
    const Tensor dy = gradient.contiguous(), x = input.contiguous(), w = dense_or_none(weight),
                 b = dense_or_none(bias);
    const Normalized p = layer_shape(x, shape, w.defined() ? w : b, 0);
    Tensor dx, dw, db;
    if (wanted[0]) {
        dx = at::empty_like(x);
        launch_normalize_backward(p, data(dy), data(x), data(mean), data(rstd), data(w), false, data(dx),
                                  stream());
    }
    if (wanted[1] && w.defined()) dw = at::empty_like(w);
    if (wanted[2] && b.defined()) db = at::empty_like(b);
    if (dw.defined() || db.defined())
        launch_normalize_weights(p, data(dy), data(x), data(mean), data(rstd), data(dw), data(db), stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return {dx, dw, db};
}

void group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t n, int64_t c, int64_t s,
                int64_t groups, double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
    const Normalized p{
        u(n), u(c), u(s), u(c / groups), eps, type_of(x), weight.defined() ? type_of(weight) : type_of(x), 0};
    TORCH_CHECK(c > 1, "op pack: group normalisation of one channel");
    const auto wide = statistic_type(x.scalar_type());
    Tensor m = at::empty({n, groups}, x.options().dtype(wide)), r = at::empty_like(m);
    launch_statistics(p, data(x), data(m), data(r), nullptr, stream());
    launch_normalize(p, data(x), data(m), data(r), data(dense_or_none(weight)), data(dense_or_none(bias)),
                     data(y), stream());
    mean.copy_(m);
    rstd.copy_(r);
}
void group_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                         const Tensor& weight, int64_t n, int64_t c, int64_t s, int64_t groups, Tensor& dx,
                         Tensor& dw, Tensor& db) {
    const Normalized p{
        u(n), u(c), u(s), u(c / groups), 0, type_of(x), weight.defined() ? type_of(weight) : type_of(x), 0};
    const auto wide = statistic_type(x.scalar_type());
    const Tensor m = mean.to(wide), r = rstd.to(wide), g = dy.contiguous();
    if (dx.defined())
        launch_normalize_backward(p, data(g), data(x), data(m), data(r), data(dense_or_none(weight)), false,
                                  data(dx), stream());
    if (dw.defined() || db.defined())
        launch_normalize_weights(p, data(g), data(x), data(m), data(r), data(dw), data(db), stream());
}

Normalized batch_shape(const Tensor& x, const Tensor& weight, double eps) {
    const int64_t n = x.size(0), c = x.size(1);
    return {u(n),
            u(c),
            u(n && c ? x.numel() / n / c : 0),
            1,
            eps,
            type_of(x),
            weight.defined() ? type_of(weight) : type_of(x),
            1};
}

std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& input, const OptionalTensor& weight,
                                              const OptionalTensor& bias, const OptionalTensor& running_mean,
                                              const OptionalTensor& running_var, bool training,
                                              double momentum, double eps) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const Tensor x = input.contiguous(), w = dense_or_none(weight), b = dense_or_none(bias);
    const auto statistic = x.options().dtype(statistic_type(x.scalar_type()));
    const Normalized p = batch_shape(x, w.defined() ? w : b, eps);
    Tensor y = at::empty_like(x), mean, rstd, saved_mean, saved_rstd;
    if (training) {
        mean = at::empty({input.size(1)}, statistic);
        rstd = at::empty_like(mean);
        Tensor unbiased = at::empty_like(mean);
        launch_statistics(p, data(x), data(mean), data(rstd), data(unbiased), stream());
        if (running_mean && running_mean->defined())
            running_mean->lerp_(mean.to(running_mean->scalar_type()), momentum);
        if (running_var && running_var->defined())
            running_var->lerp_(unbiased.to(running_var->scalar_type()), momentum);
        saved_mean = mean;
        saved_rstd = rstd;
    } else {
        mean = running_mean->to(statistic.dtype().toScalarType());
        rstd = at::rsqrt(running_var->to(statistic.dtype().toScalarType()) + eps);
        saved_mean = at::empty({0}, statistic);
        saved_rstd = at::empty({0}, statistic);
    }
    launch_normalize(p, data(x), data(mean), data(rstd), data(w), data(b), data(y), stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return {y, saved_mean, saved_rstd};
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(
    const Tensor& gradient, const Tensor& input, const OptionalTensor& weight,
    const OptionalTensor& running_mean, const OptionalTensor& running_var, const OptionalTensor& saved_mean,
    const OptionalTensor& saved_rstd, bool training, double eps, std::array<bool, 3> wanted) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    const Tensor dy = gradient.contiguous(), x = input.contiguous(), w = dense_or_none(weight);
    const auto wide = statistic_type(x.scalar_type());
    const Tensor mean = training ? *saved_mean : running_mean->to(wide),
                 rstd = training ? *saved_rstd : at::rsqrt(running_var->to(wide) + eps);
    const Normalized p = batch_shape(x, w, eps);
    Tensor dx, dw, db;
    if (wanted[0]) {
        dx = at::empty_like(x);
        launch_normalize_backward(p, data(dy), data(x), data(mean), data(rstd), data(w), !training, data(dx),
                                  stream());
    }
    const auto options = w.defined() ? w.options() : x.options();
    if (wanted[1]) dw = at::empty({input.size(1)}, options);
    if (wanted[2]) db = at::empty({input.size(1)}, options);
    if (wanted[1] || wanted[2])
        launch_normalize_weights(p, data(dy), data(x), data(mean), data(rstd), data(dw), data(db), stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return {dx, dw, db};
}

std::tuple<Tensor, Tensor, Tensor> legit_batch_norm(const Tensor& input, const OptionalTensor& weight,
                                                    const OptionalTensor& bias, Tensor& running_mean,
                                                    Tensor& running_var, bool training, double momentum,
                                                    double eps) {
    return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_with_update(const Tensor& input,
                                                                  const OptionalTensor& weight,
                                                                  const OptionalTensor& bias,
                                                                  Tensor& running_mean, Tensor& running_var,
                                                                  double momentum, double eps) {
    auto [y, mean, rstd] = batch_norm(input, weight, bias, running_mean, running_var, true, momentum, eps);
    return {y, mean, rstd, at::empty({0}, input.options().dtype(at::kByte))};
}

}  // namespace

void register_normalize() {
    at::native::GroupNormKernel.set_cuda_dispatch_ptr(group_norm);
    at::native::GroupNormBackwardKernel.set_cuda_dispatch_ptr(group_norm_backward);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
    m.impl("native_layer_norm", layer_norm);
    m.impl("native_layer_norm_backward", layer_norm_backward);
    m.impl("native_batch_norm", batch_norm);
    m.impl("native_batch_norm_backward", batch_norm_backward);
    m.impl("_native_batch_norm_legit", legit_batch_norm);
    m.impl("_batch_norm_with_update", batch_norm_with_update);
}

}  // namespace ops
