// Reductions, softmax, scans, sorting: set as dispatch stubs where PyTorch has them, else registered for the CUDA key.
#include "reduce.h"

#include <ATen/native/ReduceAllOps.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/Sorting.h>
#include <ATen/native/TensorCompare.h>
#include <torch/library.h>

#include "host.h"

namespace ops {
namespace {
using at::Scalar;
using at::Tensor;
using at::TensorIterator;
using at::TensorIteratorBase;
namespace native = at::native;

Reduction reduction_of(TensorIteratorBase& it) {
    Reduction r{};
    r.results = r.elements = 1;
    TORCH_CHECK(it.ndim() <= kMaxDims && it.can_use_32bit_indexing(),
                "op pack: reduction of too large a tensor");
    const int in = it.ntensors() - 1;
    for (int d = 0; d < it.ndim(); ++d) {
        const auto extent = static_cast<uint32_t>(it.shape()[d]);
        if (it.strides(0)[d] == 0 && extent > 1) {
            r.element_extent[r.element_dims] = extent;
            r.element_in[r.element_dims++] = static_cast<uint32_t>(it.strides(in)[d]);
            r.elements *= extent;
        } else {
            r.result_extent[r.result_dims] = extent;
            r.result_out[r.result_dims] = static_cast<uint32_t>(it.strides(0)[d]);
            r.result_in[r.result_dims++] = static_cast<uint32_t>(it.strides(in)[d]);
            r.results *= extent;
        }
    }
    if (!r.element_dims) r.element_extent[0] = 1, r.element_dims = 1;
    r.out = static_cast<char*>(it.data_ptr(0));
    r.in = static_cast<char*>(it.data_ptr(in));
    r.out_type = type_of(it.dtype(0));
    r.in_type = type_of(it.dtype(in));
    return r;
}

void run(Reduce op, TensorIteratorBase& it, ReduceNumbers numbers = {1, 0, 0, 0}) {
    if (!it.output(0).numel()) return;
    const c10::cuda::OptionalCUDAGuard guard(it.device(0));
    const auto in = it.dtype(it.ntensors() - 1);
    const auto wide = op == Reduce::argmax || op == Reduce::argmin ? in : at::promoteTypes(in, it.dtype(0));
    launch_reduce(op, compute_of(wide), reduction_of(it), numbers, stream());
    C10_CUDA_CHECK(cudaGetLastError());
}

template <Reduce OP>
void plain(TensorIterator& it) {
    run(OP, it);
}
void mean(TensorIterator& it) {
    run(Reduce::sum, it, {double(it.num_output_elements()) / double(it.numel()), 0, 0, 0});
}
void norm(TensorIterator& it, const Scalar& power) {
    const double p = power.to<double>();
    run(p == 2          ? Reduce::norm2
        : p == 1        ? Reduce::norm1
        : p == 0        ? Reduce::norm_zero
        : p == INFINITY ? Reduce::norm_inf
                        : Reduce::norm_p,
        it, {1, p, 0, 0});
    TORCH_CHECK(p != -INFINITY, "op pack: no norm of minus infinity");
}
void std_var(TensorIterator& it, double correction, bool root) {
    run(Reduce::variance, it, {1, 0, correction, root});
}

template <Reduce OP>
void over_all(Tensor& result, const Tensor& self) {
    Tensor flat = self.contiguous().view(-1), out = result.view({1});
    auto it = TensorIterator::reduce_op(out, flat);
    run(OP, it);
}

Line line_of(const Tensor& t, int64_t dim) {
    if (!t.dim()) return {1, 1, 1};
    Line line{1, static_cast<uint32_t>(t.size(dim)), 1};
    for (int64_t d = 0; d < t.dim(); ++d)
        (d < dim   ? line.outer
         : d > dim ? line.inner
                   : line.n) *= d == dim ? 1 : static_cast<uint32_t>(t.size(d));
    return line;
}

template <bool LARGEST>
void extreme(const Tensor& values, const Tensor& positions, const Tensor& self, int64_t dim, bool keep) {
    const Tensor in = self.contiguous();
    dim = at::maybe_wrap_dim(dim, self.dim());
    Tensor v = at::empty_like(values, at::MemoryFormat::Contiguous),
           p = at::empty_like(positions, at::MemoryFormat::Contiguous);
    launch_extreme(LARGEST, line_of(in, dim), v.mutable_data_ptr(),
                   reinterpret_cast<long long*>(p.mutable_data_ptr()), in.const_data_ptr(), type_of(in),
                   stream());
    values.copy_(v);
    positions.copy_(p);
    (void)keep;
}

void sort(const at::TensorBase& self, const at::TensorBase& values, const at::TensorBase& positions,
          int64_t dim, bool descending, bool) {
    const Tensor in = Tensor(self).contiguous();
    Tensor v = at::empty_like(in), p = at::empty(in.sizes(), in.options().dtype(at::kLong));
    dim = at::maybe_wrap_dim(dim, self.dim());
    const Line line = line_of(in, dim);
    launch_sort(descending, line, line.n, v.mutable_data_ptr(),
                reinterpret_cast<long long*>(p.mutable_data_ptr()), in.const_data_ptr(), type_of(in),
                stream());
    Tensor(values).copy_(v);
    Tensor(positions).copy_(p);
}

std::tuple<Tensor, Tensor> topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool) {
    const Tensor in = self.contiguous();
    dim = at::maybe_wrap_dim(dim, self.dim());
    auto shape = in.sizes().vec();
    TORCH_CHECK(!self.dim() || k <= shape[dim], "selected index k out of range");
    if (self.dim()) shape[dim] = k;
    Tensor values = at::empty(shape, in.options()),
           positions = at::empty(shape, in.options().dtype(at::kLong));
    launch_sort(largest, line_of(in, dim), static_cast<uint32_t>(k), values.mutable_data_ptr(),
                reinterpret_cast<long long*>(positions.mutable_data_ptr()), in.const_data_ptr(), type_of(in),
                stream());
    return {values, positions};
}

template <bool LOGARITHM>
Tensor softmax(const Tensor& self, int64_t dim, bool half_to_float) {
    const c10::cuda::OptionalCUDAGuard guard(self.device());
    const Tensor in = self.contiguous();
    Tensor out = at::empty_like(in, half_to_float ? in.options().dtype(at::kFloat) : in.options());
    launch_softmax(LOGARITHM, line_of(in, at::maybe_wrap_dim(dim, self.dim())), out.mutable_data_ptr(),
                   in.const_data_ptr(), type_of(out), type_of(in), stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return out;
}
template <bool LOGARITHM>
Tensor softmax_backward(const Tensor& gradient, const Tensor& result, int64_t dim,
                        at::ScalarType input_type) {
    const c10::cuda::OptionalCUDAGuard guard(result.device());
    const Tensor g = gradient.contiguous(), y = result.contiguous();
    Tensor out = at::empty_like(y, y.options().dtype(input_type));
    launch_softmax_backward(LOGARITHM, line_of(y, at::maybe_wrap_dim(dim, y.dim())), out.mutable_data_ptr(),
                            g.const_data_ptr(), y.const_data_ptr(), type_of(out), type_of(y), stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return out;
}
template <bool LOGARITHM>
Tensor& softmax_out(const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
    return out.copy_(softmax<LOGARITHM>(self, dim, half_to_float));
}
template <bool LOGARITHM>
Tensor& softmax_backward_out(const Tensor& gradient, const Tensor& result, int64_t dim, at::ScalarType type,
                             Tensor& out) {
    return out.copy_(softmax_backward<LOGARITHM>(gradient, result, dim, type));
}

template <Scan OP>
Tensor scan(const Tensor& self, int64_t dim, std::optional<at::ScalarType> type) {
    const Tensor in = self.contiguous();
    const auto kind = type                                           ? *type
                      : at::isIntegralType(self.scalar_type(), true) ? at::kLong
                                                                     : self.scalar_type();
    Tensor out = at::empty_like(in, in.options().dtype(kind));
    launch_scan(OP, line_of(in, at::maybe_wrap_dim(dim, self.dim())), out.mutable_data_ptr(),
                in.const_data_ptr(), type_of(out), type_of(in), stream());
    return out;
}
template <Scan OP>
Tensor& scan_out(const Tensor& self, int64_t dim, std::optional<at::ScalarType> type, Tensor& out) {
    return out.copy_(scan<OP>(self, dim, type));
}
Tensor& scan_in_place(Tensor& self, int64_t dim, std::optional<at::ScalarType> type) {
    return self.copy_(scan<Scan::sum>(self, dim, type));
}

std::tuple<Tensor, Tensor> var_mean(const Tensor& self, at::OptionalIntArrayRef dims,
                                    const std::optional<Scalar>& correction, bool keep) {
    return {at::var(self, dims, correction, keep), dims ? self.mean(dims, keep) : self.mean()};
}

}  // namespace

void register_reduce() {
    native::sum_stub.set_cuda_dispatch_ptr(plain<Reduce::sum>);
    native::nansum_stub.set_cuda_dispatch_ptr(plain<Reduce::nansum>);
    native::prod_stub.set_cuda_dispatch_ptr(plain<Reduce::product>);
    native::mean_stub.set_cuda_dispatch_ptr(mean);
    native::and_stub.set_cuda_dispatch_ptr(plain<Reduce::all>);
    native::or_stub.set_cuda_dispatch_ptr(plain<Reduce::any>);
    native::min_values_stub.set_cuda_dispatch_ptr(plain<Reduce::minimum>);
    native::max_values_stub.set_cuda_dispatch_ptr(plain<Reduce::maximum>);
    native::argmax_stub.set_cuda_dispatch_ptr(plain<Reduce::argmax>);
    native::argmin_stub.set_cuda_dispatch_ptr(plain<Reduce::argmin>);
    native::norm_stub.set_cuda_dispatch_ptr(norm);
    native::std_var_stub.set_cuda_dispatch_ptr(std_var);
    native::min_all_stub.set_cuda_dispatch_ptr(over_all<Reduce::minimum>);
    native::max_all_stub.set_cuda_dispatch_ptr(over_all<Reduce::maximum>);
    native::max_stub.set_cuda_dispatch_ptr(extreme<true>);
    native::min_stub.set_cuda_dispatch_ptr(extreme<false>);
    native::sort_stub.set_cuda_dispatch_ptr(sort);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
    m.impl("_softmax", softmax<false>);
    m.impl("_log_softmax", softmax<true>);
    m.impl("_softmax.out", softmax_out<false>);
    m.impl("_log_softmax.out", softmax_out<true>);
    m.impl("_softmax_backward_data", softmax_backward<false>);
    m.impl("_log_softmax_backward_data", softmax_backward<true>);
    m.impl("_softmax_backward_data.out",
           [](const Tensor& g, const Tensor& y, int64_t dim, at::ScalarType type, Tensor& out) -> Tensor& {
               return out.copy_(softmax_backward<false>(g, y, dim, type));
           });
    m.impl("_log_softmax_backward_data.out", softmax_backward_out<true>);
    m.impl("cumsum", scan<Scan::sum>);
    m.impl("cumsum.out", scan_out<Scan::sum>);
    m.impl("cumsum_", scan_in_place);
    m.impl("cumprod", scan<Scan::product>);
    m.impl("cumprod.out", scan_out<Scan::product>);
    m.impl("topk", topk);
    m.impl("var_mean.correction", var_mean);
}

}  // namespace ops
