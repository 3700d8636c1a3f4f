// Random numbers and dropout.
#include "random.h"

#include <ATen/native/UnaryOps.h>
#include <torch/library.h>

#include "host.h"

namespace ops {
namespace {
using at::Tensor;
using at::TensorIteratorBase;
using Generator = std::optional<at::Generator>;

void fill(const Tensor& self, Random kind, const Generator& generator, double a, double b,
          const Tensor& p = {}, unsigned long long range = 0, int64_t base = 0) {
    if (!self.numel()) return;
    const c10::cuda::OptionalCUDAGuard guard(self.device());
    Tensor dense =
        self.is_non_overlapping_and_dense() ? self : at::empty_like(self, at::MemoryFormat::Contiguous);
    launch_random(kind, static_cast<uint32_t>(self.numel()), dense.mutable_data_ptr(), type_of(self),
                  take_random(generator, 4), a, b, p.defined() ? p.const_data_ptr() : nullptr,
                  p.defined() ? type_of(p) : Type::f32, range, base, stream());
    C10_CUDA_CHECK(cudaGetLastError());
    if (!dense.is_same(self)) self.copy_(dense);
}
Tensor target(TensorIteratorBase& it) {
    return it.output(0);
}

void uniform(TensorIteratorBase& it, double a, double b, Generator g) {
    fill(target(it), Random::uniform, g, a, b);
}
void log_normal(TensorIteratorBase& it, double a, double b, Generator g) {
    fill(target(it), Random::log_normal, g, a, b);
}
void exponential(TensorIteratorBase& it, double a, Generator g) {
    fill(target(it), Random::exponential, g, a, 0);
}
void geometric(TensorIteratorBase& it, double a, Generator g) {
    fill(target(it), Random::geometric, g, a, 0);
}
void normal(const at::TensorBase& self, double a, double b, Generator g) {
    fill(Tensor(self), Random::normal, g, a, b);
}
void bernoulli_scalar(const at::TensorBase& self, double a, Generator g) {
    fill(Tensor(self), Random::bernoulli, g, a, 0);
}
void bernoulli_tensor(const at::TensorBase& self, const at::TensorBase& p, Generator g) {
    fill(Tensor(self), Random::bernoulli, g, 0, 0,
         Tensor(p).to(self.device()).expand(self.sizes()).contiguous());
}
void random_from_to(TensorIteratorBase& it, uint64_t range, int64_t base, Generator g) {
    fill(target(it), Random::whole, g, 0, 0, {}, range, base);
}
void random_full(TensorIteratorBase& it, Generator g) {
    fill(target(it), Random::whole, g, 0, 0);
}
void random_default(TensorIteratorBase& it, Generator g) {
    const auto type = it.dtype(0);
    const unsigned long long range = type == at::kBool       ? 2
                                     : type == at::kByte     ? 256
                                     : type == at::kChar     ? 128
                                     : type == at::kShort    ? 1ull << 15
                                     : type == at::kInt      ? 1ull << 31
                                     : type == at::kLong     ? 1ull << 63
                                     : type == at::kHalf     ? (1ull << 11) + 1
                                     : type == at::kBFloat16 ? (1ull << 8) + 1
                                     : type == at::kFloat    ? (1ull << 24) + 1
                                                             : (1ull << 53) + 1;
    fill(target(it), Random::whole, g, 0, 0, {}, range, 0);
}

std::tuple<Tensor, Tensor> dropout(const Tensor& input, double p, std::optional<bool> train) {
    const c10::cuda::OptionalCUDAGuard guard(input.device());
    if (train && !*train) return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
    const Tensor x = input.contiguous();
    Tensor mask = at::empty_like(x, x.options().dtype(at::kBool));
    if (p == 1) return {at::zeros_like(x), mask.zero_()};
    Tensor y = at::empty_like(x);
    launch_dropout(type_of(x), static_cast<uint32_t>(x.numel()), x.const_data_ptr(), y.mutable_data_ptr(),
                   static_cast<unsigned char*>(mask.mutable_data_ptr()), 1 - p, take_random(std::nullopt, 4),
                   stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return {y, mask};
}
Tensor dropout_backward(const Tensor& gradient, const Tensor& mask, double scale) {
    return gradient * mask * scale;
}

// Keys drawn on the device, sorted by the host.
Tensor& randperm_out(int64_t n, std::optional<at::Generator> generator, Tensor& result) {
    Tensor keys = at::empty({n}, result.options().dtype(at::kLong));
    fill(keys, Random::whole, generator, 0, 0);
    result.resize_({n});
    return result.copy_(keys.cpu().argsort(true, 0, false));
}

}  // namespace

void register_random() {
    namespace native = at::native;
    native::uniform_stub.set_cuda_dispatch_ptr(uniform);
    native::log_normal_stub.set_cuda_dispatch_ptr(log_normal);
    native::exponential_stub.set_cuda_dispatch_ptr(exponential);
    native::geometric_stub.set_cuda_dispatch_ptr(geometric);
    native::normal_stub.set_cuda_dispatch_ptr(normal);
    native::bernoulli_scalar_stub.set_cuda_dispatch_ptr(bernoulli_scalar);
    native::bernoulli_tensor_stub.set_cuda_dispatch_ptr(bernoulli_tensor);
    native::random_from_to_stub.set_cuda_dispatch_ptr(random_from_to);
    native::random_full_64_bits_range_stub.set_cuda_dispatch_ptr(random_full);
    native::random_stub.set_cuda_dispatch_ptr(random_default);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
    m.impl("native_dropout", dropout);
    m.impl("native_dropout_backward", dropout_backward);
    m.impl("randperm.generator_out", randperm_out);
}

}  // namespace ops
