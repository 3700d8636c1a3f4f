// Launchers of normalize.cu: normalisation by the mean and variance of groups of elements, and its gradients.
#pragma once
#include "launch.h"

namespace ops {

// A dense tensor seen as (n, c, s). Statistics of one group are over: layer - a row (n: rows, c: 1); group - `group` channels of one
// sample; batch - one channel of all samples. `Math` is float (double for double): mean and deviation are always of that type.
struct Normalized {
    uint32_t n, c, s, group;
    double eps;
    Type type, weight_type;  // of data; of weight and bias
    int32_t batch;           // 1: batch normalisation
};
// Mean and 1 / sqrt(variance + eps) of each group; `unbiased`, if not null, gets the variance that running statistics take.
void launch_statistics(const Normalized& shape, const void* x, void* mean, void* deviation, void* unbiased,
                       cudaStream_t stream);
// y = (x - mean) * deviation * weight + bias; weight and bias may be null.
void launch_normalize(const Normalized& shape, const void* x, const void* mean, const void* deviation,
                      const void* weight, const void* bias, void* y, cudaStream_t stream);
// Gradient of x. `evaluation`: mean and deviation were given, not computed from x.
void launch_normalize_backward(const Normalized& shape, const void* dy, const void* x, const void* mean,
                               const void* deviation, const void* weight, bool evaluation, void* dx,
                               cudaStream_t stream);
// Gradients of weight and bias of channel c (layer: of position s).
void launch_normalize_weights(const Normalized& shape, const void* dy, const void* x, const void* mean,
                              const void* deviation, void* dweight, void* dbias, cudaStream_t stream);

}  // namespace ops
