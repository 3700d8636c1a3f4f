// Launchers of reduce.cu: reductions of any strided layout, and work along the middle of dense (outer, n, inner) tensors.
#pragma once
#include "launch.h"

namespace ops {
enum class Reduce : int32_t {
    sum,
    nansum,
    product,
    minimum,
    maximum,
    all,
    any,
    norm1,
    norm2,
    norm_inf,
    norm_zero,
    norm_p,
    variance,
    argmin,
    argmax
};

// `scale` multiplies the result (mean); norm_p takes `power`; variance divides by elements - correction and may take the root.
struct ReduceNumbers {
    double scale, power, correction;
    int32_t root;
};
void launch_reduce(Reduce op, Compute compute, const Reduction& reduction, const ReduceNumbers& numbers,
                   cudaStream_t stream);

struct Line {
    uint32_t outer, n, inner;
};
// Softmax or its logarithm, and their gradients from gradient and result.
void launch_softmax(bool logarithm, Line line, void* out, const void* in, Type out_type, Type in_type,
                    cudaStream_t stream);
void launch_softmax_backward(bool logarithm, Line line, void* out, const void* gradient, const void* result,
                             Type out_type, Type in_type, cudaStream_t stream);
enum class Scan : int32_t { sum, product };
void launch_scan(Scan op, Line line, void* out, const void* in, Type out_type, Type in_type,
                 cudaStream_t stream);
// Largest or smallest with its (first) position.
void launch_extreme(bool largest, Line line, void* values, long long* positions, const void* in, Type type,
                    cudaStream_t stream);
// Stable sort of each line; positions count from 0. The first `keep` of each line are written.
void launch_sort(bool descending, Line line, uint32_t keep, void* values, long long* positions,
                 const void* in, Type type, cudaStream_t stream);
}  // namespace ops
