// What the host side (compiled against PyTorch) and the kernels (compiled by nvcc, without PyTorch) agree on.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace ops {

enum class Type : int32_t { f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean };

// Elementwise work on up to four operands, the output first. Offsets are in bytes; dimension 0 changes fastest.
constexpr int kMaxDims = 8;
constexpr int kMaxOperands = 5;
struct Operand {
    char* data;
    Type type;
    int32_t size;  // of one element; 0: the value is in `real` and `whole` (a scalar from the host)
    double real;
    long long whole;
};
struct Iteration {
    uint32_t count;
    int32_t dims;
    int32_t operands;
    int32_t contiguous;
    uint32_t extent[kMaxDims];
    uint32_t stride[kMaxOperands][kMaxDims];
    Operand operand[kMaxOperands];
};

// Numbers of an operation that are no tensors.
struct Numbers {
    double real[4];
    long long whole[4];
};

// What the arithmetic is done in: storage of 16 bits computes in float, all integers in 64 bits.
enum class Compute : int32_t { f32, f64, i64 };

// State of PyTorch's generator for one launch; in a captured graph it is read from device memory.
struct RandomState {
    uint64_t seed, offset;
    const uint64_t *seed_at, *offset_at;
};

// Rows of a reduction: `outer` results, each over `inner` elements.
struct Reduction {
    uint32_t results, elements;
    int32_t result_dims, element_dims;
    uint32_t result_extent[kMaxDims], element_extent[kMaxDims];
    uint32_t result_out[kMaxDims], result_in[kMaxDims], element_in[kMaxDims];
    char *out, *in;
    Type out_type, in_type;
};

}  // namespace ops
