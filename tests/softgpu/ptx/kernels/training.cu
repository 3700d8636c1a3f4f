// Kernels as training programs have them; tests/unit/softgpu/ptx_training.cpp compares them with the host.
#include <cstdio>

#define TILE 16

extern "C" __global__ void sgemm(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (k + TILE - 1) / TILE; ++t) {
        int ka = t * TILE + threadIdx.x, kb = t * TILE + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

struct Conv {
    int channels, height, width, filters, size, stride;
};
extern "C" __global__ void conv(const float* in, const float* weight, float* out, Conv p) {
    int oh = (p.height - p.size) / p.stride + 1, ow = (p.width - p.size) / p.stride + 1;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.filters * oh * ow) return;
    int x = i % ow, y = i / ow % oh, f = i / ow / oh;
    float sum = 0;
    for (int c = 0; c < p.channels; ++c)
        for (int dy = 0; dy < p.size; ++dy)
            for (int dx = 0; dx < p.size; ++dx)
                sum += in[(c * p.height + y * p.stride + dy) * p.width + x * p.stride + dx] *
                       weight[((f * p.channels + c) * p.size + dy) * p.size + dx];
    out[i] = sum;
}

__device__ float warp_sum(float v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
    return v;
}
extern "C" __global__ void softmax(const float* in, float* out, int n) {
    extern __shared__ float row[];
    __shared__ float partial[32];
    float most = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        row[i] = in[blockIdx.x * n + i];
        most = fmaxf(most, row[i]);
    }
    for (int o = 16; o > 0; o >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, o));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = most;
    __syncthreads();
    most = partial[0];
    for (int w = 1; w < blockDim.x / 32; ++w) most = fmaxf(most, partial[w]);
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        row[i] = expf(row[i] - most);
        sum += row[i];
    }
    __syncthreads();
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += partial[w];
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = row[i] / sum;
}

extern "C" __global__ void adam(float* w, const float* g, float* m, float* v, int n, float lr, float b1,
                                float b2, float eps, int t) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    float mh = m[i] / (1 - powf(b1, t)), vh = v[i] / (1 - powf(b2, t));
    w[i] -= lr * mh / (sqrtf(vh) + eps);
}

extern "C" __global__ void sum_atomic(const float* in, float* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? in[i] : 0;
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) {
        atomicAdd(out, v);
        atomicAdd(count, 1);
    }
}

extern "C" __global__ void histogram(const int* in, unsigned* out, int n) {
    __shared__ unsigned bins[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[in[i] & 63], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&out[i], bins[i]);
}

__constant__ float table[8] = {1, 2, 3, 5, 7, 11, 13, 17};
__device__ int counter = 40;
__device__ int* counter_pointer = &counter;

struct Point {
    float x;
    int k;
    double d[3];
};
__noinline__ __device__ float mix(float x, Point p, int i) {
    return x * p.x + p.d[i];
}
__noinline__ __device__ int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
typedef float (*Unary)(float);
__device__ float add_one(float x) {
    return x + 1;
}
__device__ float twice(float x) {
    return x * 2;
}
__device__ Unary unaries[2] = {add_one, twice};

extern "C" __global__ void language(float* out, const float4* in, Point p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = in[i];
    float local[8];
    for (int j = 0; j < 8; ++j) local[(j + i) & 7] = v.x * j;
    float r = local[i & 7] + local[(i * 3) & 7];
    r += mix(v.y, p, i % 3);
    r += fibonacci(i & 7);
    r += unaries[i & 1](v.z);
    r += table[i & 7] + *counter_pointer;
    switch (i % 7) {
        case 0:
            r += 1;
            break;
        case 1:
            r *= 2;
            break;
        case 2:
            r -= 3;
            break;
        case 3:
            r = -r;
            break;
        case 4:
            r += v.w;
            break;
        case 5:
            r *= v.w;
            break;
        default:
            r = 0;
    }
    r += (i * 1000) / (p.k + i % 5 + 1) + (i * 77) % (i % 9 + 1);
    out[i] = r;
}

extern "C" __global__ void divergent(int* out, int n) {
    int i = threadIdx.x, r = 0;
    // A loop with different trip counts, inner branches and an early exit; then a full-warp exchange.
    for (int k = 0; k < i; ++k) {
        if (k % 3 == 0) continue;
        if (k * k > n) break;
        r += k % 2 ? k : -k;
    }
    r = __shfl_sync(0xffffffffu, r, (i + 1) & 31) + __popc(__ballot_sync(0xffffffffu, r > 3));
    out[i] = r;
}

extern "C" __global__ void speak(int n) {
    printf("thread %d of %d: %s %.2f %lld\n", threadIdx.x, n, threadIdx.x ? "odd" : "even", n * 0.5,
           1LL << 40);
}

/// Every thread of a warp takes the same lock: only works when waiting lanes let the owner go on.
extern "C" __global__ void spin_lock(int* lock, int* value) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *value += 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

/// A grid-wide barrier made by hand: only works when blocks take turns.
extern "C" __global__ void hand_barrier(volatile int* arrived, int* out) {
    if (threadIdx.x == 0) {
        atomicAdd((int*)arrived, 1);
        while (*arrived < gridDim.x) {
        }
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = *arrived;
}

extern "C" __global__ void out_of_bounds(float* p, int n) {
    p[blockIdx.x * blockDim.x + threadIdx.x] = n;
}
extern "C" __global__ void endless(volatile int* p) {
    while (*p == 0) {
    }
}
