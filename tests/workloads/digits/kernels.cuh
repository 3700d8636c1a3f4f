// The kernels of the digits network. Images are [n][channel][8][8] floats; a "plane" is one 8x8 image of one
// channel, 16 float4. All sums run in a fixed order (no atomics), so results are the same bit for bit in
// every run.
#pragma once

#include <cuda_runtime.h>

namespace kernels {

constexpr unsigned kReduceThreads = 128;  // block size of the kernels that sum over images

__device__ inline float& at(float4& v, int i) {
    return (&v.x)[i];
}
__device__ inline float at(const float4& v, int i) {
    return (&v.x)[i];
}

// --- elementwise, four float4 per thread
// -----------------------------------------------------------------------------
struct Relu {
    __device__ float operator()(float x, float) const { return fmaxf(x, 0.0f); }
    static constexpr bool two = false;
};
struct ReluBackward {  // from the gradient and the activation's output
    __device__ float operator()(float dy, float y) const { return y > 0.0f ? dy : 0.0f; }
    static constexpr bool two = true;
};
struct Add {
    __device__ float operator()(float a, float b) const { return a + b; }
    static constexpr bool two = true;
};

template <class F>
__global__ void map4(const float4* a, const float4* b, float4* out, unsigned count) {
    const unsigned first = blockIdx.x * blockDim.x * 4 + threadIdx.x;
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
        const unsigned i = first + k * blockDim.x;
        if (i >= count) return;
        const float4 x = a[i], y = F::two ? b[i] : x;
        const F f;
        out[i] = make_float4(f(x.x, y.x), f(x.y, y.y), f(x.z, y.z), f(x.w, y.w));
    }
}

template <class F>
__global__ void map1(const float* a, const float* b, float* out, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = F()(a[i], F::two ? b[i] : 0.0f);
}

// y = scale[c] * x + shift[c], weights [channel][scale, shift]; a quarter plane per thread. Backward: the
// gradient.
template <bool Backward>
__global__ void affine(const float4* x, const float* w, float4* y, unsigned quarters, unsigned channels) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= quarters) return;
    const unsigned c = (t >> 2) % channels;
    const float s = w[c * 2], b = Backward ? 0.0f : w[c * 2 + 1];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
        const float4 v = x[t * 4 + k];
        y[t * 4 + k] = make_float4(s * v.x + b, s * v.y + b, s * v.z + b, s * v.w + b);
    }
}

// --- sums over images
// ------------------------------------------------------------------------------------------------- Adds up K
// values of each of the block's kReduceThreads threads in a fixed order and stores them.
template <int K>
__device__ void store_block_sums(const float (&mine)[K], float* out) {
    constexpr unsigned segments = 8, rows = kReduceThreads / segments;
    __shared__ float all[kReduceThreads][K];
    __shared__ float part[segments][K];
    for (int k = 0; k < K; ++k) all[threadIdx.x][k] = mine[k];
    __syncthreads();
    const unsigned k = threadIdx.x % K, segment = threadIdx.x / K;
    if (segment < segments) {
        float sum = 0.0f;
        for (unsigned r = 0; r < rows; ++r) sum += all[segment * rows + r][k];
        part[segment][k] = sum;
    }
    __syncthreads();
    if (threadIdx.x < K) {
        float sum = 0.0f;
        for (unsigned s = 0; s < segments; ++s) sum += part[s][threadIdx.x];
        out[threadIdx.x] = sum;
    }
}

// The second step: partials[split][count] -> out[count].
__global__ void sum_partials(const float* partials, float* out, unsigned splits, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float sum = 0.0f;
    for (unsigned s = 0; s < splits; ++s) sum += partials[s * count + i];
    out[i] = sum;
}

// Gradients of scale and shift: grid (channels, splits).
__global__ void affine_weights(const float4* x, const float4* dy, float* partials, unsigned images,
                               unsigned channels) {
    float sums[2] = {0.0f, 0.0f};
    const unsigned c = blockIdx.x;
    for (unsigned j = blockIdx.y * blockDim.x + threadIdx.x; j < images * 4; j += blockDim.x * gridDim.y) {
        const unsigned base = ((j >> 2) * channels + c) * 16 + (j & 3) * 4;
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) {
            const float4 a = x[base + k], d = dy[base + k];
            sums[0] += a.x * d.x + a.y * d.y + a.z * d.z + a.w * d.w;
            sums[1] += (d.x + d.y) + (d.z + d.w);
        }
    }
    store_block_sums(sums, partials + (blockIdx.y * channels + c) * 2);
}

// --- depthwise convolution with three taps along a row or a column
// ------------------------------------------------------ A line is the half plane that one thread handles:
// four rows, or four columns as eight float4.
template <bool Vertical>
__device__ void load_half(const float4* plane, unsigned half, float4 (&v)[8]) {
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) v[i] = plane[Vertical ? i * 2 + half : half * 8 + i];
}

template <bool Vertical>
__device__ float tap(const float4 (&v)[8], int i, int lane, int shift) {
    if (Vertical) {
        const int row = i + shift;
        return row < 0 || row > 7 ? 0.0f : at(v[row], lane);
    }
    const int column = (i & 1) * 4 + lane + shift;
    return column < 0 || column > 7 ? 0.0f : at(v[(i & ~1) + (column >> 2)], column & 3);
}

template <bool Vertical, bool Flip>
__global__ void conv3(const float4* x, const float* w, float4* y, unsigned halves, unsigned channels) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= halves) return;
    const unsigned plane = t >> 1, half = t & 1, c = plane % channels;
    const float left = w[c * 3 + (Flip ? 2 : 0)], mid = w[c * 3 + 1], right = w[c * 3 + (Flip ? 0 : 2)];
    float4 v[8];
    load_half<Vertical>(x + plane * 16, half, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        float4 o;
#pragma unroll
        for (int lane = 0; lane < 4; ++lane)
            at(o, lane) = left * tap<Vertical>(v, i, lane, -1) + mid * at(v[i], lane) +
                          right * tap<Vertical>(v, i, lane, 1);
        y[plane * 16 + (Vertical ? i * 2 + half : half * 8 + i)] = o;
    }
}

// grid (channels, splits)
template <bool Vertical>
__global__ void conv3_weights(const float4* x, const float4* dy, float* partials, unsigned images,
                              unsigned channels) {
    float sums[3] = {0.0f, 0.0f, 0.0f};
    const unsigned c = blockIdx.x;
    for (unsigned j = blockIdx.y * blockDim.x + threadIdx.x; j < images * 2; j += blockDim.x * gridDim.y) {
        const unsigned base = ((j >> 1) * channels + c) * 16;
        float4 v[8], d[8];
        load_half<Vertical>(x + base, j & 1, v);
        load_half<Vertical>(dy + base, j & 1, d);
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int lane = 0; lane < 4; ++lane)
#pragma unroll
                for (int k = 0; k < 3; ++k) sums[k] += at(d[i], lane) * tap<Vertical>(v, i, lane, k - 1);
    }
    store_block_sums(sums, partials + (blockIdx.y * channels + c) * 3);
}

// --- pointwise convolution in groups of four with a channel shuffle
// ---------------------------------------------------- Output channels 4g..4g+3 come from the input channels
// g, g+G, g+2G, g+3G (G groups), so that groups mix from block to block. A thread handles one row of eight
// pixels. Weights are [group][out][in].
template <bool Backward>
__global__ void pointwise(const float4* x, const float* w, float4* y, unsigned rows, unsigned groups) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows) return;
    const unsigned row = t & 7, g = (t >> 3) % groups, image = (t >> 3) / groups;
    const unsigned gathered = (image * groups * 4 + g) * 16 + row * 2,
                   packed = (image * groups + g) * 64 + row * 2;
    const unsigned from = Backward ? packed : gathered, to = Backward ? gathered : packed;
    const unsigned from_step = Backward ? 16 : groups * 16, to_step = Backward ? groups * 16 : 16;
    float4 in[4][2];
#pragma unroll
    for (int j = 0; j < 4; ++j) in[j][0] = x[from + j * from_step], in[j][1] = x[from + j * from_step + 1];
    const float4* weights = reinterpret_cast<const float4*>(w) + g * 4;
    const float4 m[4] = {weights[0], weights[1], weights[2], weights[3]};
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float4 o;
#pragma unroll
            for (int lane = 0; lane < 4; ++lane) {
                float sum = 0.0f;
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    sum += (Backward ? at(m[j], k) : at(m[k], j)) * at(in[j][h], lane);
                at(o, lane) = sum;
            }
            y[to + k * to_step + h] = o;
        }
}

// grid (groups, splits)
__global__ void pointwise_weights(const float4* x, const float4* dy, float* partials, unsigned images,
                                  unsigned groups) {
    float sums[16] = {};
    const unsigned g = blockIdx.x;
    for (unsigned j = blockIdx.y * blockDim.x + threadIdx.x; j < images * 16; j += blockDim.x * gridDim.y) {
        const unsigned image = j >> 4, quad = j & 15;
        float4 in[4], d[4];
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) {
            in[k] = x[(image * groups * 4 + g + k * groups) * 16 + quad];
            d[k] = dy[((image * groups + g) * 4 + k) * 16 + quad];
        }
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                sums[k * 4 + i] += d[k].x * in[i].x + d[k].y * in[i].y + d[k].z * in[i].z + d[k].w * in[i].w;
    }
    store_block_sums(sums, partials + (blockIdx.y * groups + g) * 16);
}

// --- stem: 3x3 convolution from one channel, with bias. Weights [channel][10], the bias last
// --------------------------
__device__ inline void load_rows(const float* image, int row, float (&v)[3][10]) {
#pragma unroll
    for (int r = 0; r < 3; ++r) {
        const int y = row + r - 1;
        const bool inside = y >= 0 && y < 8;
        v[r][0] = v[r][9] = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) v[r][i + 1] = inside ? image[y * 8 + i] : 0.0f;
    }
}

__global__ void stem(const float* x, const float* w, float* y, unsigned rows, unsigned channels) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows) return;
    const unsigned row = t & 7, c = (t >> 3) % channels, image = (t >> 3) / channels;
    float v[3][10], m[10];
    load_rows(x + image * 64, static_cast<int>(row), v);
#pragma unroll
    for (int k = 0; k < 10; ++k) m[k] = w[c * 10 + k];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        float sum = m[9];
#pragma unroll
        for (int k = 0; k < 9; ++k) sum += m[k] * v[k / 3][i + k % 3];
        y[(image * channels + c) * 64 + row * 8 + i] = sum;
    }
}

// grid (channels, splits)
__global__ void stem_weights(const float* x, const float* dy, float* partials, unsigned images,
                             unsigned channels) {
    float sums[10] = {};
    const unsigned c = blockIdx.x;
    for (unsigned j = blockIdx.y * blockDim.x + threadIdx.x; j < images * 8; j += blockDim.x * gridDim.y) {
        float v[3][10];
        load_rows(x + (j >> 3) * 64, static_cast<int>(j & 7), v);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float d = dy[((j >> 3) * channels + c) * 64 + (j & 7) * 8 + i];
#pragma unroll
            for (int k = 0; k < 9; ++k) sums[k] += d * v[k / 3][i + k % 3];
            sums[9] += d;
        }
    }
    store_block_sums(sums, partials + (blockIdx.y * channels + c) * 10);
}

// --- head: mean over the four 4x4 quadrants, dense layers, softmax
// -----------------------------------------------------
__global__ void pool(const float4* x, float4* y, unsigned planes) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= planes) return;
    float q[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float sum = 0.0f;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const float4 v = x[t * 16 + (k / 2 * 4 + r) * 2 + k % 2];
            sum += (v.x + v.y) + (v.z + v.w);
        }
        q[k] = sum * 0.0625f;
    }
    y[t] = make_float4(q[0], q[1], q[2], q[3]);
}

__global__ void pool_backward(const float4* dy, float4* dx, unsigned planes) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= planes) return;
    const float4 d = dy[t];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const float g = at(d, i / 8 * 2 + i % 2) * 0.0625f;
        dx[t * 16 + i] = make_float4(g, g, g, g);
    }
}

// y[n][out] = bias[out] + sum_i w[out][i] x[n][i]
__global__ void dense(const float* x, const float* w, const float* bias, float* y, unsigned images,
                      unsigned in, unsigned out) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= images * out) return;
    const float *a = x + t / out * in, *m = w + t % out * in;
    float sum = bias[t % out];
    for (unsigned i = 0; i < in; ++i) sum += a[i] * m[i];
    y[t] = sum;
}

__global__ void dense_inputs(const float* dy, const float* w, float* dx, unsigned images, unsigned in,
                             unsigned out) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= images * in) return;
    const float *d = dy + t / in * out, *m = w + t % in;
    float sum = 0.0f;
    for (unsigned o = 0; o < out; ++o) sum += d[o] * m[o * in];
    dx[t] = sum;
}

__global__ void dense_weights(const float* x, const float* dy, float* dw, unsigned images, unsigned in,
                              unsigned out) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= in * out) return;
    const float *a = x + t % in, *d = dy + t / in;
    float sum = 0.0f;
    for (unsigned n = 0; n < images; ++n) sum += d[n * out] * a[n * in];
    dw[t] = sum;
}

__global__ void dense_bias(const float* dy, float* db, unsigned images, unsigned out) {
    const unsigned o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= out) return;
    float sum = 0.0f;
    for (unsigned n = 0; n < images; ++n) sum += dy[n * out + o];
    db[o] = sum;
}

// Loss, hit and gradient (already divided by the number of images) of each image.
__global__ void softmax_loss(const float* logits, const int* labels, float* loss, int* hit, float* gradient,
                             unsigned images) {
    const unsigned n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= images) return;
    const float* z = logits + n * 10;
    int best = 0;
    for (int k = 1; k < 10; ++k)
        if (z[k] > z[best]) best = k;
    const float top = z[best];
    float sum = 0.0f;
    for (int k = 0; k < 10; ++k) sum += expf(z[k] - top);
    const int label = labels[n];
    loss[n] = logf(sum) - (z[label] - top);
    hit[n] = best == label;
    if (!gradient) return;
    const float share = 1.0f / static_cast<float>(images);
    for (int k = 0; k < 10; ++k)
        gradient[n * 10 + k] = (expf(z[k] - top) / sum - (k == label ? 1.0f : 0.0f)) * share;
}

// Running totals of an epoch: {loss, hits, images}. One thread, in image order.
__global__ void tally(const float* loss, const int* hit, double* totals, unsigned images) {
    double sum = 0.0, hits = 0.0;
    for (unsigned n = 0; n < images; ++n) sum += loss[n], hits += hit[n];
    totals[0] += sum;
    totals[1] += hits;
    totals[2] += images;
}

// --- Adam (Kingma and Ba, 2015), with the bias corrections folded into `rate` and `epsilon` by the caller
// ---------------
__global__ void adam(float* w, const float* gradient, float* m, float* v, unsigned count, float rate,
                     float epsilon) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float g = gradient[i];
    const float first = 0.9f * m[i] + 0.1f * g, second = 0.999f * v[i] + 0.001f * g * g;
    m[i] = first;
    v[i] = second;
    w[i] -= rate * first / (sqrtf(second) + epsilon);
}

}  // namespace kernels
