// From PyTorch's tensors and iterators to what the kernels take. Included by the host side of every group of operations.
#pragma once
#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAGuard.h>

#include "launch.h"

namespace ops {

inline Type type_of(at::ScalarType type) {
    switch (type) {
        case at::kFloat:
            return Type::f32;
        case at::kDouble:
            return Type::f64;
        case at::kHalf:
            return Type::f16;
        case at::kBFloat16:
            return Type::bf16;
        case at::kLong:
            return Type::i64;
        case at::kInt:
            return Type::i32;
        case at::kShort:
            return Type::i16;
        case at::kChar:
            return Type::i8;
        case at::kByte:
            return Type::u8;
        case at::kBool:
            return Type::boolean;
        default:
            TORCH_CHECK(false, "op pack: no kernels for ", type);
    }
}
inline Type type_of(const at::TensorBase& tensor) {
    return type_of(tensor.scalar_type());
}

inline Compute compute_of(at::ScalarType type) {
    if (type == at::kDouble) return Compute::f64;
    return at::isFloatingType(type) ? Compute::f32 : Compute::i64;
}

inline cudaStream_t stream() {
    return c10::cuda::getCurrentCUDAStream();
}

inline void set_number(Numbers& numbers, int at, const at::Scalar& value) {
    if (value.isFloatingPoint()) {
        numbers.real[at] = value.toDouble();
        const double limit = 9.2e18;  // what does not fit a whole number is never read as one
        numbers.whole[at] = std::abs(numbers.real[at]) < limit ? static_cast<long long>(numbers.real[at]) : 0;
    } else {
        numbers.whole[at] = value.toLong();
        numbers.real[at] = static_cast<double>(numbers.whole[at]);
    }
}
inline Numbers numbers_of(std::initializer_list<at::Scalar> values) {
    Numbers numbers{};
    int at = 0;
    for (const at::Scalar& value : values) set_number(numbers, at++, value);
    return numbers;
}

// Of an iterator that 32 bits can index.
Iteration iteration_of(at::TensorIteratorBase& iterator);

// Runs an elementwise operation over an iterator of any size.
void run_elementwise(int op, at::ScalarType compute, at::TensorIteratorBase& iterator,
                     const Numbers& numbers = {});
inline void run_elementwise(int op, at::TensorIteratorBase& iterator, const Numbers& numbers = {}) {
    run_elementwise(op, iterator.common_dtype(), iterator, numbers);
}

// Takes `increment` numbers of each thread from the generator (the device's default if none is given).
RandomState take_random(const std::optional<at::Generator>& generator, uint64_t increment);

}  // namespace ops
