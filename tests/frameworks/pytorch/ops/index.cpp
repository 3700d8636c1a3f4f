// Indexing, gather and scatter, embedding, concatenation.
#include "index.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/ReductionType.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorAdvancedIndexing.h>
#include <torch/library.h>

#include "elementwise.h"
#include "host.h"

namespace ops {
namespace {
using at::Scalar;
using at::Tensor;
using at::TensorIterator;
using at::TensorIteratorBase;
namespace native = at::native;

uint32_t u(int64_t v) {
    return static_cast<uint32_t>(v);
}

void index_by(TensorIteratorBase& it, at::IntArrayRef extents, at::IntArrayRef strides, bool writing) {
    TORCH_CHECK(it.ntensors() <= kMaxOperands && extents.size() <= 3 && it.can_use_32bit_indexing(),
                "op pack: at most three index tensors");
    if (!it.numel()) return;
    const c10::cuda::OptionalCUDAGuard guard(it.device(0));
    Indexed x{};
    x.iteration = iteration_of(it);
    x.count = static_cast<int>(extents.size());
    for (int k = 0; k < x.count; ++k) x.extent[k] = extents[k], x.stride[k] = strides[k];
    launch_index(x, writing, stream());
    C10_CUDA_CHECK(cudaGetLastError());
}
void index(TensorIteratorBase& it, at::IntArrayRef extents, at::IntArrayRef strides) {
    index_by(it, extents, strides, false);
}
void index_put(TensorIterator& it, at::IntArrayRef extents, at::IntArrayRef strides, bool) {
    index_by(it, extents, strides, true);
}

void flip(TensorIterator& it, bool) {
    if (it.numel()) launch_move(iteration_of(it), stream());
}

void add_rows(const Tensor& table, const Tensor& index, const Tensor& values, bool add, int64_t skip = -1,
              double factor = 1) {
    const int64_t count = index.numel(), rows = table.size(0);
    if (!count || !table.numel()) return;
    const Tensor work = at::empty({2 * count}, index.options().dtype(at::kInt));
    launch_add_rows(type_of(table), u(rows), u(table.numel() / rows), table.mutable_data_ptr(),
                    values.const_data_ptr(), index.const_data_ptr(), type_of(index), u(count), add, skip,
                    factor, static_cast<uint32_t*>(work.mutable_data_ptr()), stream());
    C10_CUDA_CHECK(cudaGetLastError());
}

// Several positions may be the same: they are taken in order.
void index_put_in_order(Tensor& self, const c10::List<std::optional<Tensor>>& original, const Tensor& value,
                        bool accumulate, bool) {
    auto indices = native::expandTensors(self, original);
    indices = at::expand_outplace(indices);
    while (static_cast<int64_t>(indices.size()) < self.dim()) indices.emplace_back();
    std::vector<int64_t> indexed, others;
    for (int64_t d = 0; d < self.dim(); ++d) (indices[d].defined() ? indexed : others).push_back(d);
    if (indexed.empty() || !value.numel()) return;
    const bool together = indexed.back() - indexed.front() + 1 == static_cast<int64_t>(indexed.size());
    const auto index_shape = indices[indexed[0]].sizes();
    // Shape of the value: the index's where the indexed dimensions are together, else in front.
    const int64_t front = together ? indexed.front() : 0;
    std::vector<int64_t> shape, order(indexed), value_order;
    for (int64_t k = 0; k < front; ++k) shape.push_back(self.size(others[k]));
    shape.insert(shape.end(), index_shape.begin(), index_shape.end());
    for (size_t k = front; k < others.size(); ++k) shape.push_back(self.size(others[k]));
    for (size_t k = 0; k < index_shape.size(); ++k) value_order.push_back(front + static_cast<int64_t>(k));
    for (int64_t k = 0; k < static_cast<int64_t>(shape.size()); ++k)
        if (k < front || k >= front + static_cast<int64_t>(index_shape.size())) value_order.push_back(k);
    order.insert(order.end(), others.begin(), others.end());

    Tensor linear;
    int64_t rows = 1;
    for (const int64_t d : indexed) {
        const Tensor positive = at::where(indices[d] < 0, indices[d] + self.size(d), indices[d]);
        linear = linear.defined() ? linear * self.size(d) + positive : positive;
        rows *= self.size(d);
    }
    const Tensor view = self.permute(order);
    Tensor table = view.contiguous();
    const Tensor values = value.to(self.scalar_type()).expand(shape).permute(value_order).contiguous();
    add_rows(table.view({rows, -1}), linear.contiguous(), values, accumulate);
    if (!view.is_contiguous()) view.copy_(table);
}

Along along_of(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& other) {
    Along x{};
    TORCH_CHECK(self.dim() <= kMaxDims, "op pack: too many dimensions");
    dim = at::maybe_wrap_dim(dim, self.dim());
    x.count = u(index.numel());
    x.dims = u(std::max<int64_t>(self.dim(), 1));
    x.dim = u(dim);
    for (int64_t d = 0; d < x.dims; ++d) {
        const bool scalar = !self.dim();
        x.extent[d] = scalar || !index.dim() ? 1 : u(index.size(d));
        x.index_stride[d] = scalar || !index.dim() ? 1 : index.stride(d);
        x.self_stride[d] = scalar ? 1 : self.stride(d);
        x.other_stride[d] = !other.defined() || !other.dim() ? 0 : other.stride(d);
    }
    x.index = static_cast<const long long*>(index.const_data_ptr());
    x.self = self.data_ptr();
    x.other = other.defined() ? other.data_ptr() : nullptr;
    x.type = type_of(self);
    x.limit = self.dim() ? self.size(dim) : 1;
    return x;
}
void gather(const Tensor& result, const Tensor& self, int64_t dim, const Tensor& index) {
    launch_gather(along_of(self, dim, index, result), stream());
}
void run_scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, int operation,
                 double value = 0) {
    Along x = along_of(self, dim, index, source);
    x.operation = operation;
    x.value = value;
    launch_scatter(x, stream());
}
void scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
    run_scatter(self, dim, index, source, 0);
}
void scatter_fill(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
    run_scatter(self, dim, index, {}, 0, value.to<double>());
}
void scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
    run_scatter(self, dim, index, source, 1);
}
int operation_of(native::ReductionType type) {
    switch (type) {
        case native::ReductionType::SUM:
            return 1;
        case native::ReductionType::MEAN:
            return 1;  // the caller divides
        case native::ReductionType::PROD:
            return 2;
        case native::ReductionType::MAX:
            return 3;
        default:
            return 4;
    }
}
void scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    const native::ReductionType& type) {
    run_scatter(self, dim, index, source, operation_of(type));
}

Tensor select_lines(const Tensor& self, int64_t dim, const Tensor& index) {
    const c10::cuda::OptionalCUDAGuard guard(self.device());
    const Tensor in = self.contiguous(), at_rows = index.contiguous();
    dim = at::maybe_wrap_dim(dim, self.dim());
    auto shape = in.sizes().vec();
    uint32_t outer = 1, inner = 1;
    for (int64_t d = 0; d < in.dim(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : u(in.size(d));
    const uint32_t extent = in.dim() ? u(in.size(dim)) : 1;
    if (in.dim()) shape[dim] = index.numel();
    Tensor out = at::empty(shape, in.options());
    launch_select(outer, extent, inner, static_cast<int>(in.element_size()), out.mutable_data_ptr(),
                  in.const_data_ptr(), at_rows.const_data_ptr(), type_of(at_rows), u(index.numel()),
                  stream());
    C10_CUDA_CHECK(cudaGetLastError());
    return out;
}
Tensor& index_select_out(const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
    return out.copy_(select_lines(self, dim, index));
}

Tensor embedding_backward(const Tensor& gradient, const Tensor& index, c10::SymInt count, c10::SymInt padding,
                          bool by_frequency) {
    TORCH_CHECK(!by_frequency, "op pack: embedding gradients are not scaled by frequency");
    const c10::cuda::OptionalCUDAGuard guard(gradient.device());
    const Tensor g = gradient.contiguous();
    Tensor out = at::zeros({count.expect_int(), g.size(-1)}, g.options());
    add_rows(out, index.contiguous(), g, true, padding.expect_int());
    return out;
}

void add_at(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
    const Tensor view = self.dim() ? self.transpose(0, dim) : self.unsqueeze(0);
    Tensor table = view.contiguous();
    add_rows(table, index.contiguous(), (source.dim() ? source.transpose(0, dim) : source).contiguous(), true,
             -1, alpha.to<double>());
    if (!view.is_contiguous()) view.copy_(table);
}
Tensor& index_add_in_place(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                           const Scalar& alpha) {
    add_at(self, dim, index, source, alpha);
    return self;
}
Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                 const Scalar& alpha) {
    Tensor out = self.clone();
    add_at(out, dim, index, source, alpha);
    return out;
}

Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
    const auto list = tensors.materialize();
    std::vector<Tensor> parts;
    at::ScalarType type = at::ScalarType::Undefined;
    for (const Tensor& t : list) {
        type = type == at::ScalarType::Undefined ? t.scalar_type() : at::promoteTypes(type, t.scalar_type());
        if (t.dim() != 1 || t.numel()) parts.push_back(t);  // empty vectors fit everything
    }
    if (parts.empty()) return out;
    dim = at::maybe_wrap_dim(dim, parts[0].dim());
    auto shape = parts[0].sizes().vec();
    int64_t total = 0;
    for (const Tensor& t : parts) {
        for (int64_t d = 0; d < t.dim(); ++d)
            TORCH_CHECK(t.dim() == parts[0].dim() && (d == dim || t.size(d) == shape[d]),
                        "Sizes of tensors must match except in dimension ", dim);
        total += t.size(dim);
    }
    shape[dim] = total;
    if (!out.defined())
        out = at::empty(shape, parts[0].options().dtype(type), parts[0].suggest_memory_format());
    else
        native::resize_output(out, shape);
    int64_t at = 0;
    for (const Tensor& t : parts) {
        out.narrow(dim, at, t.size(dim)).copy_(t);
        at += t.size(dim);
    }
    return out;
}
Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
    Tensor out;
    cat_out(tensors, dim, out);
    return out.defined() ? out : at::empty({0}, tensors.front().options());
}

Tensor& triangle_out(const Tensor& self, int64_t diagonal, Tensor& out, bool upper) {
    const Tensor in = self.contiguous();
    Tensor dense = at::empty_like(in);
    launch_triangle(upper, u(in.numel()), u(in.size(-2)), u(in.size(-1)), diagonal,
                    static_cast<int>(in.element_size()), dense.mutable_data_ptr(), in.const_data_ptr(),
                    stream());
    C10_CUDA_CHECK(cudaGetLastError());
    if (!out.defined()) return out = dense;
    native::resize_output(out, in.sizes());
    return out.copy_(dense);
}
template <bool UPPER>
Tensor triangle(const Tensor& self, int64_t diagonal) {
    Tensor out;
    return triangle_out(self, diagonal, out, UPPER);
}
template <bool UPPER>
Tensor& triangle_to(const Tensor& self, int64_t diagonal, Tensor& out) {
    return triangle_out(self, diagonal, out, UPPER);
}
template <bool UPPER>
Tensor& triangle_in_place(Tensor& self, int64_t diagonal) {
    return triangle_out(self, diagonal, self, UPPER);
}
Tensor& eye_out(int64_t rows, int64_t columns, Tensor& out) {
    out.resize_({rows, columns}).zero_();
    out.diagonal().fill_(1);
    return out;
}
Tensor& eye_square_out(int64_t rows, Tensor& out) {
    return eye_out(rows, rows, out);
}

// How many there are decides the shape: the host counts.
Tensor nonzero(const Tensor& self) {
    return self.cpu().nonzero().to(self.device());
}
Tensor masked_select(const Tensor& self, const Tensor& mask) {
    const auto both = at::expand_outplace(mask, self);
    return std::get<1>(both)->index({*std::get<0>(both)});
}
Tensor roll(const Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
    if (dims.empty()) return at::roll(self.reshape(-1), shifts, 0).view(self.sizes());
    Tensor out = self;
    for (size_t k = 0; k < dims.size(); ++k) {
        const int64_t extent = out.size(dims[k]);
        if (!extent) continue;
        const int64_t start = ((-shifts[k]) % extent + extent) % extent;
        out = at::cat({out.narrow(dims[k], start, extent - start), out.narrow(dims[k], 0, start)}, dims[k]);
    }
    return out;
}

}  // namespace

void register_index() {
    native::index_stub.set_cuda_dispatch_ptr(index);
    native::index_put_stub.set_cuda_dispatch_ptr(index_put);
    native::index_put_with_sort_stub.set_cuda_dispatch_ptr(index_put_in_order);
    native::flip_stub.set_cuda_dispatch_ptr(flip);
    native::gather_stub.set_cuda_dispatch_ptr(gather);
    native::scatter_stub.set_cuda_dispatch_ptr(scatter);
    native::scatter_fill_stub.set_cuda_dispatch_ptr(scatter_fill);
    native::scatter_add_stub.set_cuda_dispatch_ptr(scatter_add);
    native::scatter_reduce_stub.set_cuda_dispatch_ptr(scatter_reduce);
    native::scatter_reduce_two_stub.set_cuda_dispatch_ptr(scatter_reduce);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
    m.impl("index_select", select_lines);
    m.impl("index_select.out", index_select_out);
    m.impl("embedding_dense_backward", embedding_backward);
    m.impl("index_add", index_add);
    m.impl("index_add_", index_add_in_place);
    m.impl("cat", cat);
    m.impl("cat.out", cat_out);
    m.impl("tril", triangle<false>);
    m.impl("triu", triangle<true>);
    m.impl("tril.out", triangle_to<false>);
    m.impl("triu.out", triangle_to<true>);
    m.impl("tril_", triangle_in_place<false>);
    m.impl("triu_", triangle_in_place<true>);
    m.impl("eye.out", eye_square_out);
    m.impl("eye.m_out", eye_out);
    m.impl("nonzero", nonzero);
    m.impl("masked_select", masked_select);
    m.impl("roll", roll);
}

}  // namespace ops
