// Operations on lists of tensors, fused optimizers and gradient scaling.
#include <torch/library.h>

#include <functional>

#include "elementwise.h"
#include "host.h"
#include "train.h"

namespace ops {
namespace {
using at::Scalar;
using at::Tensor;
using at::TensorList;

// Calls `launch` with as many tensors and chunks at a time as one launch takes; `began` tells which tensor got which place.
void in_launches(at::ArrayRef<TensorList> lists, at::ArrayRef<double> numbers,
                 const std::function<void(ManyTensors&)>& launch,
                 const std::function<void(int place, size_t tensor)>& began = {}) {
    ManyTensors many{};
    int tensors = 0;
    auto flush = [&] {
        if (many.chunks) launch(many);
        many.chunks = tensors = 0;
    };
    for (size_t t = 0; t < lists[0].size(); ++t) {
        const int64_t count = lists[0][t].numel();
        if (!count) continue;
        const int chunks = static_cast<int>((count + kChunkSize - 1) / kChunkSize);
        for (int c = 0, place = -1; c < chunks; ++c) {
            if (place < 0) {
                if (tensors == kTensors) flush();
                place = tensors++;
                for (size_t k = 0; k < lists.size(); ++k) many.data[k][place] = lists[k][t].data_ptr();
                many.count[place] = static_cast<uint32_t>(count);
                many.number[place] = numbers.empty() ? 0 : numbers[t];
                if (began) began(place, t);
            }
            many.tensor[many.chunks] = static_cast<uint8_t>(place);
            many.chunk[many.chunks] = static_cast<uint16_t>(c);
            if (++many.chunks == kChunks) {
                flush();
                place = -1;
            }
        }
    }
    flush();
    C10_CUDA_CHECK(cudaGetLastError());
}

// Same type and layout in all lists: what one launch can take.
bool alike(at::ArrayRef<TensorList> lists) {
    const auto& model = lists[0][0];
    for (const TensorList list : lists) {
        if (list.size() != lists[0].size()) return false;
        for (size_t t = 0; t < list.size(); ++t)
            if (list[t].scalar_type() != model.scalar_type() || list[t].device() != model.device() ||
                !list[t].is_non_overlapping_and_dense() || list[t].sizes() != lists[0][t].sizes() ||
                list[t].strides() != lists[0][t].strides())
                return false;
    }
    return true;
}

std::vector<Tensor> many_like(TensorList list) {
    std::vector<Tensor> out;
    for (const Tensor& t : list) out.push_back(at::empty_like(t));
    return out;
}

using OneByOne = std::function<Tensor(size_t)>;
void run(int op, TensorList out, at::ArrayRef<TensorList> inputs, const Numbers& numbers,
         at::ArrayRef<double> each, const OneByOne& one) {
    if (out.empty()) return;
    std::vector<TensorList> lists{out};
    lists.insert(lists.end(), inputs.begin(), inputs.end());
    const bool arithmetic = at::isFloatingType(out[0].scalar_type());
    if (!alike(lists) || !arithmetic) {
        for (size_t t = 0; t < out.size(); ++t) out[t].copy_(one(t));
        return;
    }
    const c10::cuda::OptionalCUDAGuard guard(out[0].device());
    const Type type = type_of(out[0]);
    in_launches(lists, each, [&](ManyTensors& many) {
        launch_many(op, static_cast<int>(inputs.size()), type, many, !each.empty(), numbers, stream());
    });
}
std::vector<double> reals(at::ArrayRef<Scalar> scalars) {
    std::vector<double> out;
    for (const Scalar& s : scalars) out.push_back(s.to<double>());
    return out;
}

// Each operation as a new list and in place.
#define UNARY(NAME)                                                                 \
    std::vector<Tensor> NAME(TensorList a) {                                        \
        auto out = many_like(a);                                                    \
        run(op_##NAME, out, {a}, {}, {}, [&](size_t t) { return at::NAME(a[t]); }); \
        return out;                                                                 \
    }                                                                               \
    void NAME##_in_place(TensorList a) {                                            \
        run(op_##NAME, a, {a}, {}, {}, [&](size_t t) { return at::NAME(a[t]); });   \
    }
UNARY(sqrt)
UNARY(rsqrt) UNARY(neg) UNARY(exp) UNARY(log) UNARY(abs) UNARY(reciprocal) UNARY(sign)

    // With a number for all, or one for each.
    void number_to(int op, TensorList out, TensorList a, const Scalar& value, const OneByOne& one) {
    run(op, out, {a}, numbers_of({value}), {}, one);
}
#define NUMBER(NAME, OP, EXPRESSION)                                                \
    std::vector<Tensor> NAME##_scalar(TensorList a, const Scalar& value) {          \
        auto out = many_like(a);                                                    \
        number_to(OP, out, a, value, [&](size_t t) { return EXPRESSION; });         \
        return out;                                                                 \
    }                                                                               \
    void NAME##_scalar_in_place(TensorList a, const Scalar& value) {                \
        number_to(OP, a, a, value, [&](size_t t) { return EXPRESSION; });           \
    }                                                                               \
    std::vector<Tensor> NAME##_scalars(TensorList a, at::ArrayRef<Scalar> values) { \
        auto out = many_like(a);                                                    \
        run(OP, out, {a}, {}, reals(values), [&](size_t t) {                        \
            const Scalar& value = values[t];                                        \
            return EXPRESSION;                                                      \
        });                                                                         \
        return out;                                                                 \
    }                                                                               \
    void NAME##_scalars_in_place(TensorList a, at::ArrayRef<Scalar> values) {       \
        run(OP, a, {a}, {}, reals(values), [&](size_t t) {                          \
            const Scalar& value = values[t];                                        \
            return EXPRESSION;                                                      \
        });                                                                         \
    }
NUMBER(add, op_add_number, at::add(a[t], value))
NUMBER(sub, op_sub_number, at::sub(a[t], value))
NUMBER(mul, op_mul_number, at::mul(a[t], value))
NUMBER(div, op_div_number, at::div(a[t], value))
NUMBER(clamp_min, op_clamp_min_number, at::clamp_min(a[t], value))
NUMBER(clamp_max, op_clamp_max_number, at::clamp_max(a[t], value))
NUMBER(pow, op_pow_number, at::pow(a[t], value))

#define LIST(NAME, OP, EXPRESSION)                                          \
    std::vector<Tensor> NAME##_list(TensorList a, TensorList b) {           \
        auto out = many_like(a);                                            \
        run(OP, out, {a, b}, {}, {}, [&](size_t t) { return EXPRESSION; }); \
        return out;                                                         \
    }                                                                       \
    void NAME##_list_in_place(TensorList a, TensorList b) {                 \
        run(OP, a, {a, b}, {}, {}, [&](size_t t) { return EXPRESSION; });   \
    }
LIST(mul, op_mul, at::mul(a[t], b[t]))
LIST(div, op_div, at::div(a[t], b[t]))
LIST(maximum, op_maximum, at::maximum(a[t], b[t]))
LIST(minimum, op_minimum, at::minimum(a[t], b[t]))

#define LIST_ALPHA(NAME)                                                               \
    std::vector<Tensor> NAME##_list(TensorList a, TensorList b, const Scalar& alpha) { \
        auto out = many_like(a);                                                       \
        run(op_##NAME, out, {a, b}, numbers_of({alpha}), {},                           \
            [&](size_t t) { return at::NAME(a[t], b[t], alpha); });                    \
        return out;                                                                    \
    }                                                                                  \
    void NAME##_list_in_place(TensorList a, TensorList b, const Scalar& alpha) {       \
        run(op_##NAME, a, {a, b}, numbers_of({alpha}), {},                             \
            [&](size_t t) { return at::NAME(a[t], b[t], alpha); });                    \
    }
LIST_ALPHA(add)
LIST_ALPHA(sub)

    // The second operand is one number on the device, the same for all.
    std::vector<Tensor> mul_tensor(TensorList a, const Tensor& b) {
    std::vector<Tensor> out;
    for (const Tensor& t : a) out.push_back(t * b);
    return out;
}
void mul_tensor_in_place(TensorList a, const Tensor& b) {
    for (const Tensor& t : a) t.mul_(b);
}
void div_tensor_in_place(TensorList a, const Tensor& b) {
    for (const Tensor& t : a) t.div_(b);
}
void add_tensor_in_place(TensorList a, const Tensor& b, const Scalar& alpha) {
    for (const Tensor& t : a) t.add_(b, alpha);
}

#define POINTWISE(NAME)                                                                                   \
    std::vector<Tensor> NAME##_scalar(TensorList a, TensorList b, TensorList c, const Scalar& value) {    \
        auto out = many_like(a);                                                                          \
        run(op_##NAME, out, {a, b, c}, numbers_of({value}), {},                                           \
            [&](size_t t) { return at::NAME(a[t], b[t], c[t], value); });                                 \
        return out;                                                                                       \
    }                                                                                                     \
    void NAME##_scalar_in_place(TensorList a, TensorList b, TensorList c, const Scalar& value) {          \
        run(op_##NAME, a, {a, b, c}, numbers_of({value}), {},                                             \
            [&](size_t t) { return at::NAME(a[t], b[t], c[t], value); });                                 \
    }                                                                                                     \
    void NAME##_scalars_in_place(TensorList a, TensorList b, TensorList c, at::ArrayRef<Scalar> values) { \
        run(op_##NAME, a, {a, b, c}, {}, reals(values),                                                   \
            [&](size_t t) { return at::NAME(a[t], b[t], c[t], values[t]); });                             \
    }
POINTWISE(addcmul)
POINTWISE(addcdiv)

    std::vector<Tensor> lerp_scalar(TensorList a, TensorList b, const Scalar& weight) {
    auto out = many_like(a);
    run(op_lerp_number, out, {a, b}, numbers_of({weight}), {},
        [&](size_t t) { return at::lerp(a[t], b[t], weight); });
    return out;
}
void lerp_scalar_in_place(TensorList a, TensorList b, const Scalar& weight) {
    run(op_lerp_number, a, {a, b}, numbers_of({weight}), {},
        [&](size_t t) { return at::lerp(a[t], b[t], weight); });
}
std::vector<Tensor> norm(TensorList a, const Scalar& order, std::optional<at::ScalarType> type) {
    std::vector<Tensor> out;
    for (const Tensor& t : a) out.push_back(at::linalg_vector_norm(t, order, {}, false, type));
    return out;
}
void zero(TensorList a) {
    for (const Tensor& t : a) t.zero_();
}
void copy(TensorList a, TensorList b, bool non_blocking) {
    for (size_t t = 0; t < a.size(); ++t) a[t].copy_(b[t], non_blocking);
}

const float* at_of(const std::optional<Tensor>& t) {
    return t && t->defined() ? static_cast<const float*>(t->const_data_ptr()) : nullptr;
}

void adam(TensorList p, TensorList g, TensorList m, TensorList v, TensorList steps, Adam a, bool amsgrad) {
    TORCH_CHECK(!amsgrad, "op pack: fused Adam without amsgrad only");
    TORCH_CHECK(alike({p, g, m, v}),
                "op pack: fused Adam needs parameters, gradients and moments of one type and layout");
    const c10::cuda::OptionalCUDAGuard guard(p[0].device());
    in_launches(
        {p, g, m, v}, {}, [&](ManyTensors& many) { launch_adam(type_of(p[0]), many, a, stream()); },
        [&](int place, size_t t) { a.step[place] = static_cast<const float*>(steps[t].const_data_ptr()); });
}
template <bool DECOUPLED>
void fused_adam(TensorList p, TensorList g, TensorList m, TensorList v, TensorList, TensorList steps,
                double lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad,
                bool maximize, const std::optional<Tensor>& scale, const std::optional<Tensor>& found) {
    adam(p, g, m, v, steps,
         {lr, beta1, beta2, weight_decay, eps, DECOUPLED, maximize, nullptr, at_of(scale), at_of(found), {}},
         amsgrad);
}
template <bool DECOUPLED>
void fused_adam_tensor(TensorList p, TensorList g, TensorList m, TensorList v, TensorList, TensorList steps,
                       const Tensor& lr, double beta1, double beta2, double weight_decay, double eps,
                       bool amsgrad, bool maximize, const std::optional<Tensor>& scale,
                       const std::optional<Tensor>& found) {
    const bool host = lr.is_cpu();
    adam(p, g, m, v, steps,
         {host ? lr.item<double>() : 0,
          beta1,
          beta2,
          weight_decay,
          eps,
          DECOUPLED,
          maximize,
          host ? nullptr : at_of(lr),
          at_of(scale),
          at_of(found),
          {}},
         amsgrad);
}
void fused_sgd(TensorList p, TensorList g, TensorList buffers, double weight_decay, double momentum,
               double lr, double dampening, bool nesterov, bool maximize, bool first,
               const std::optional<Tensor>& scale, const std::optional<Tensor>& found) {
    const Sgd a{lr,       momentum, dampening, weight_decay, nesterov,
                maximize, first,    nullptr,   at_of(scale), at_of(found)};
    std::vector<TensorList> lists{p, g};
    if (!buffers.empty()) lists.push_back(buffers);
    TORCH_CHECK(alike(lists),
                "op pack: fused SGD needs parameters, gradients and momentum of one type and layout");
    const c10::cuda::OptionalCUDAGuard guard(p[0].device());
    in_launches(lists, {}, [&](ManyTensors& many) { launch_sgd(type_of(p[0]), many, a, stream()); });
}

void unscale(TensorList gradients, Tensor& found, const Tensor& inverse) {
    for (const Tensor& g : gradients)
        launch_unscale(type_of(g), static_cast<uint32_t>(g.numel()), g.mutable_data_ptr(),
                       static_cast<float*>(found.mutable_data_ptr()),
                       static_cast<const float*>(inverse.const_data_ptr()), stream());
}
Tensor& update_scale(Tensor& scale, Tensor& growth, const Tensor& found, double up, double down,
                     int64_t interval) {
    launch_update_scale(
        static_cast<float*>(scale.mutable_data_ptr()), static_cast<int*>(growth.mutable_data_ptr()),
        static_cast<const float*>(found.const_data_ptr()), up, down, static_cast<int>(interval), stream());
    return scale;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
#define BOTH(NAME, OVERLOAD, FUNCTION)           \
    m.impl("_foreach_" NAME OVERLOAD, FUNCTION); \
    m.impl("_foreach_" NAME "_" OVERLOAD, FUNCTION##_in_place);
    BOTH("sqrt", "", sqrt)
    BOTH("rsqrt", "", rsqrt) BOTH("neg", "", neg) BOTH("exp", "", exp) BOTH("log", "", log)
        BOTH("abs", "", abs) BOTH("reciprocal", "", reciprocal) BOTH("sign", "", sign)
#define NUMBERS(NAME, PREFIX) \
    BOTH(NAME, ".Scalar", PREFIX##_scalar) BOTH(NAME, ".ScalarList", PREFIX##_scalars)
            NUMBERS("add", add) NUMBERS("sub", sub) NUMBERS("mul", mul) NUMBERS("div", div)
                NUMBERS("clamp_min", clamp_min) NUMBERS("clamp_max", clamp_max) NUMBERS("maximum", clamp_min)
                    NUMBERS("minimum", clamp_max) NUMBERS("pow", pow) BOTH("add", ".List", add_list)
                        BOTH("sub", ".List", sub_list) BOTH("mul", ".List", mul_list)
                            BOTH("div", ".List", div_list) BOTH("maximum", ".List", maximum_list) BOTH(
                                "minimum", ".List", minimum_list) BOTH("clamp_min", ".List", maximum_list)
                                BOTH("clamp_max", ".List", minimum_list) BOTH("mul", ".Tensor", mul_tensor)
                                    m.impl("_foreach_div_.Tensor", div_tensor_in_place);
    m.impl("_foreach_add_.Tensor", add_tensor_in_place);
    BOTH("addcmul", ".Scalar", addcmul_scalar)
    BOTH("addcdiv", ".Scalar", addcdiv_scalar)
        m.impl("_foreach_addcmul_.ScalarList", addcmul_scalars_in_place);
    m.impl("_foreach_addcdiv_.ScalarList", addcdiv_scalars_in_place);
    BOTH("lerp", ".Scalar", lerp_scalar)
    m.impl("_foreach_norm.Scalar", norm);
    m.impl("_foreach_zero_", zero);
    m.impl("_foreach_copy_", copy);
    m.impl("_fused_adam_", fused_adam<false>);
    m.impl("_fused_adam_.tensor_lr", fused_adam_tensor<false>);
    m.impl("_fused_adamw_", fused_adam<true>);
    m.impl("_fused_adamw_.tensor_lr", fused_adam_tensor<true>);
    m.impl("_fused_sgd_", fused_sgd);
    m.impl("_amp_foreach_non_finite_check_and_unscale_", unscale);
    m.impl("_amp_update_scale_", update_scale);
}

}  // namespace ops
