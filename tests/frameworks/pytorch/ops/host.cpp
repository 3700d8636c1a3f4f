#include "host.h"

#include <ATen/cuda/CUDAGraphsUtils.cuh>

#include "elementwise.h"

namespace ops {

Iteration iteration_of(at::TensorIteratorBase& iterator) {
    Iteration out{};
    TORCH_CHECK(iterator.ntensors() <= kMaxOperands && iterator.ndim() <= kMaxDims,
                "op pack: too many dimensions or operands");
    out.count = static_cast<uint32_t>(iterator.numel());
    out.dims = iterator.ndim();
    out.operands = iterator.ntensors();
    out.contiguous = iterator.is_contiguous();
    for (int d = 0; d < out.dims; ++d) out.extent[d] = static_cast<uint32_t>(iterator.shape()[d]);
    for (int k = 0; k < out.operands; ++k) {
        Operand& operand = out.operand[k];
        operand.type = type_of(iterator.dtype(k));
        if (iterator.is_cpu_scalar(k)) {
            const at::Scalar value = iterator.tensor(k).item();
            Numbers n = numbers_of({value});
            operand.real = n.real[0];
            operand.whole = n.whole[0];
            continue;
        }
        operand.data = static_cast<char*>(iterator.data_ptr(k));
        operand.size = static_cast<int32_t>(iterator.element_size(k));
        for (int d = 0; d < out.dims; ++d) out.stride[k][d] = static_cast<uint32_t>(iterator.strides(k)[d]);
    }
    return out;
}

void run_elementwise(int op, at::ScalarType compute, at::TensorIteratorBase& iterator,
                     const Numbers& numbers) {
    if (!iterator.numel()) return;
    if (!iterator.can_use_32bit_indexing()) {
        for (auto& part : iterator.with_32bit_indexing()) run_elementwise(op, compute, part, numbers);
        return;
    }
    const c10::cuda::OptionalCUDAGuard guard(iterator.device(0));
    launch_elementwise(op, compute_of(compute), iteration_of(iterator), numbers, stream());
    C10_CUDA_CHECK(cudaGetLastError());
}

RandomState take_random(const std::optional<at::Generator>& generator, uint64_t increment) {
    auto* source = at::get_generator_or_default<at::CUDAGeneratorImpl>(
        generator, at::cuda::detail::getDefaultCUDAGenerator());
    std::lock_guard<std::mutex> lock(source->mutex_);
    const at::PhiloxCudaState state = source->philox_cuda_state(increment);
    RandomState out{};
    if (state.captured_) {
        out.seed_at = reinterpret_cast<const uint64_t*>(state.seed_.ptr);
        out.offset_at = reinterpret_cast<const uint64_t*>(state.offset_.ptr);
        out.offset = state.offset_intragraph_;
    } else {
        out.seed = state.seed_.val;
        out.offset = state.offset_.val;
    }
    return out;
}

}  // namespace ops
