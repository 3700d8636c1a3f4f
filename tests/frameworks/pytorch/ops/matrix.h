// Launchers of matrix.cu: products of strided matrices and convolutions as such products (the matrix of patches is never stored).
#pragma once
#include "launch.h"

namespace ops {

// out[b] = alpha * a[b] (m x k) * c[b] (k x n) + beta * add[b]; strides in elements, of (batch, row, column). out is dense.
struct Product {
    uint32_t batch, m, n, k;
    const void *a, *b, *add;
    void* out;
    long long a_stride[3], b_stride[3], add_stride[3];
    double alpha, beta;
};
void launch_product(Type type, const Product& product, cudaStream_t stream);

// All tensors dense: x (n, groups * c, h, w), weight (groups * k, c, kh, kw), y (n, groups * k, oh, ow).
struct Convolution {
    uint32_t n, groups, c, k, h, w, kh, kw, oh, ow, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    const void *x, *weight, *y, *bias;  // of those the one that is computed is `out`; bias may be null
    void* out;
};
void launch_convolution(Type type, const Convolution& convolution, cudaStream_t stream);
void launch_convolution_input_gradient(Type type, const Convolution& convolution, cudaStream_t stream);
void launch_convolution_weight_gradient(Type type, const Convolution& convolution, cudaStream_t stream);

}  // namespace ops
