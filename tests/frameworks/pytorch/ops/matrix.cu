// One tiled product of two matrices, whose elements come from strided tensors or from the patches of images. Each result is summed
// over k in rising order, with one rounding a step.
#include "device_types.cuh"
#include "matrix.h"

namespace ops {
namespace {

constexpr int kTileM = 64, kTileK = 16, kThreads = 256;

// Source::a(m, k), Source::b(k, n) give elements inside the bounds; Source::put(m, n, value) takes a result. A thread computes
// 4 rows x (TILE_N / 16) columns.
template <int TILE_N, class Source, class Math = typename Source::Math>
__device__ __forceinline__ void tiled_product(const Source& source, uint32_t rows, uint32_t columns,
                                              uint32_t depth) {
    constexpr int kColumns = TILE_N / 16;
    __shared__ Math a[kTileK][kTileM + 4];
    __shared__ Math b[kTileK][TILE_N + 4];
    const uint32_t m0 = blockIdx.y * kTileM, n0 = blockIdx.x * TILE_N;
    const uint32_t row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * kColumns;
    Math sum[4][kColumns] = {};
    for (uint32_t k0 = 0; k0 < depth; k0 += kTileK) {
        // Neighbouring threads read neighbours in memory: along k for a, along n for b.
        for (uint32_t i = threadIdx.x; i < kTileM * kTileK; i += kThreads) {
            const uint32_t k = i % kTileK, m = i / kTileK;
            a[k][m] = m0 + m < rows && k0 + k < depth ? source.a(m0 + m, k0 + k) : Math(0);
        }
        for (uint32_t i = threadIdx.x; i < TILE_N * kTileK; i += kThreads) {
            const uint32_t n = i % TILE_N, k = i / TILE_N;
            b[k][n] = n0 + n < columns && k0 + k < depth ? source.b(k0 + k, n0 + n) : Math(0);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kTileK; ++k) {
            Math left[4], right[kColumns];
#pragma unroll
            for (int i = 0; i < 4; ++i) left[i] = a[k][row + i];
#pragma unroll
            for (int j = 0; j < kColumns; ++j) right[j] = b[k][column + j];
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < kColumns; ++j) sum[i][j] = fma(left[i], right[j], sum[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
            if (m0 + row + i < rows && n0 + column + j < columns)
                source.put(m0 + row + i, n0 + column + j, sum[i][j]);
}

template <class S>
struct ProductSource {
    using Math = typename Storage<S>::Math;
    const Product& p;
    const S *a_data, *b_data, *add_data;
    S* out_data;
    __device__ Math a(uint32_t m, uint32_t k) const {
        return Storage<S>::get(a_data, m * p.a_stride[1] + k * p.a_stride[2]);
    }
    __device__ Math b(uint32_t k, uint32_t n) const {
        return Storage<S>::get(b_data, k * p.b_stride[1] + n * p.b_stride[2]);
    }
    __device__ void put(uint32_t m, uint32_t n, Math value) const {
        value = Math(p.alpha) * value;
        if (add_data)
            value += Math(p.beta) * Storage<S>::get(add_data, m * p.add_stride[1] + n * p.add_stride[2]);
        Storage<S>::put(out_data, static_cast<long long>(m) * p.n + n, value);
    }
};

template <class S, int TILE_N>
__global__ void matrix_product(const __grid_constant__ Product p) {
    const long long batch = blockIdx.z;
    const ProductSource<S> source{p, static_cast<const S*>(p.a) + batch * p.a_stride[0],
                                  static_cast<const S*>(p.b) + batch * p.b_stride[0],
                                  p.add ? static_cast<const S*>(p.add) + batch * p.add_stride[0] : nullptr,
                                  static_cast<S*>(p.out) + batch * p.m * p.n};
    tiled_product<TILE_N>(source, p.m, p.n, p.k);
}

// Position in the image that output (oy, ox) sees through filter element (fy, fx); false outside.
__device__ __forceinline__ bool seen(const Convolution& c, uint32_t oy, uint32_t ox, uint32_t fy, uint32_t fx,
                                     uint32_t& y, uint32_t& x) {
    y = oy * c.stride_h + fy * c.dilation_h - c.pad_h;
    x = ox * c.stride_w + fx * c.dilation_w - c.pad_w;
    return y < c.h && x < c.w;  // unsigned: what is left of 0 is large
}

// y: rows are filters, columns (image, oy, ox), depth (channel, fy, fx).
template <class S>
struct ForwardSource {
    using Math = typename Storage<S>::Math;
    const Convolution& c;
    uint32_t group;
    __device__ Math a(uint32_t m, uint32_t k) const {
        return Storage<S>::get(static_cast<const S*>(c.weight),
                               static_cast<long long>(group * c.k + m) * c.c * c.kh * c.kw + k);
    }
    __device__ Math b(uint32_t k, uint32_t n) const {
        const uint32_t fx = k % c.kw, rest = k / c.kw, fy = rest % c.kh, channel = rest / c.kh;
        const uint32_t ox = n % c.ow, rest2 = n / c.ow, oy = rest2 % c.oh, image = rest2 / c.oh;
        uint32_t y, x;
        if (!seen(c, oy, ox, fy, fx, y, x)) return Math(0);
        return Storage<S>::get(
            static_cast<const S*>(c.x),
            ((static_cast<long long>(image) * c.groups + group) * c.c + channel) * c.h * c.w + y * c.w + x);
    }
    __device__ void put(uint32_t m, uint32_t n, Math value) const {
        const uint32_t spot = n % (c.oh * c.ow), image = n / (c.oh * c.ow), filter = group * c.k + m;
        if (c.bias) value += Storage<S>::get(static_cast<const S*>(c.bias), filter);
        Storage<S>::put(static_cast<S*>(c.out),
                        (static_cast<long long>(image) * c.groups * c.k + filter) * c.oh * c.ow + spot,
                        value);
    }
};

// Gradient of x: rows are channels, columns (image, y, x), depth (filter, fy, fx).
template <class S>
struct InputGradientSource {
    using Math = typename Storage<S>::Math;
    const Convolution& c;
    uint32_t group;
    __device__ Math a(uint32_t m, uint32_t k) const {
        const uint32_t tap = k % (c.kh * c.kw), filter = k / (c.kh * c.kw);
        return Storage<S>::get(static_cast<const S*>(c.weight),
                               (static_cast<long long>(group * c.k + filter) * c.c + m) * c.kh * c.kw + tap);
    }
    __device__ Math b(uint32_t k, uint32_t n) const {
        const uint32_t fx = k % c.kw, rest = k / c.kw, fy = rest % c.kh, filter = rest / c.kh;
        const uint32_t x = n % c.w, rest2 = n / c.w, y = rest2 % c.h, image = rest2 / c.h;
        const uint32_t down = y + c.pad_h - fy * c.dilation_h, right = x + c.pad_w - fx * c.dilation_w;
        if (down % c.stride_h || right % c.stride_w) return Math(0);
        const uint32_t oy = down / c.stride_h, ox = right / c.stride_w;
        // Left of 0 wraps to a large number, which may divide: only the real range counts.
        if (static_cast<int>(down) < 0 || static_cast<int>(right) < 0 || oy >= c.oh || ox >= c.ow)
            return Math(0);
        return Storage<S>::get(
            static_cast<const S*>(c.y),
            ((static_cast<long long>(image) * c.groups + group) * c.k + filter) * c.oh * c.ow + oy * c.ow +
                ox);
    }
    __device__ void put(uint32_t m, uint32_t n, Math value) const {
        const uint32_t spot = n % (c.h * c.w), image = n / (c.h * c.w);
        if (c.bias) value += Storage<S>::get(static_cast<const S*>(c.bias), group * c.c + m);
        Storage<S>::put(static_cast<S*>(c.out),
                        (static_cast<long long>(image) * c.groups * c.c + group * c.c + m) * c.h * c.w + spot,
                        value);
    }
};

// Gradient of the filters: rows are filters, columns (channel, fy, fx), depth (image, oy, ox).
template <class S>
struct WeightGradientSource {
    using Math = typename Storage<S>::Math;
    const Convolution& c;
    uint32_t group;
    __device__ Math a(uint32_t m, uint32_t k) const {
        const uint32_t spot = k % (c.oh * c.ow), image = k / (c.oh * c.ow);
        return Storage<S>::get(
            static_cast<const S*>(c.y),
            ((static_cast<long long>(image) * c.groups + group) * c.k + m) * c.oh * c.ow + spot);
    }
    __device__ Math b(uint32_t k, uint32_t n) const {
        const uint32_t ox = k % c.ow, rest = k / c.ow, oy = rest % c.oh, image = rest / c.oh;
        const uint32_t fx = n % c.kw, rest2 = n / c.kw, fy = rest2 % c.kh, channel = rest2 / c.kh;
        uint32_t y, x;
        if (!seen(c, oy, ox, fy, fx, y, x)) return Math(0);
        return Storage<S>::get(
            static_cast<const S*>(c.x),
            ((static_cast<long long>(image) * c.groups + group) * c.c + channel) * c.h * c.w + y * c.w + x);
    }
    __device__ void put(uint32_t m, uint32_t n, Math value) const {
        Storage<S>::put(static_cast<S*>(c.out),
                        static_cast<long long>(group * c.k + m) * c.c * c.kh * c.kw + n, value);
    }
};

template <class S, int TILE_N>
__global__ void convolution_forward(const __grid_constant__ Convolution c) {
    tiled_product<TILE_N>(ForwardSource<S>{c, blockIdx.z}, c.k, c.n * c.oh * c.ow, c.c * c.kh * c.kw);
}
template <class S, int TILE_N>
__global__ void convolution_input_gradient(const __grid_constant__ Convolution c) {
    tiled_product<TILE_N>(InputGradientSource<S>{c, blockIdx.z}, c.c, c.n * c.h * c.w, c.k * c.kh * c.kw);
}
template <class S, int TILE_N>
__global__ void convolution_weight_gradient(const __grid_constant__ Convolution c) {
    tiled_product<TILE_N>(WeightGradientSource<S>{c, blockIdx.z}, c.k, c.c * c.kh * c.kw, c.n * c.oh * c.ow);
}

dim3 grid_of(uint32_t m, uint32_t n, uint32_t tile_n, uint32_t z) {
    return {blocks_for(n, tile_n), blocks_for(m, kTileM), z};
}

}  // namespace

void launch_product(Type type, const Product& p, cudaStream_t stream) {
    if (!p.batch || !p.m || !p.n) return;
    with_storage(type, [&](auto* null) {
        using S = std::remove_pointer_t<decltype(null)>;
        if (p.n <= 16)
            matrix_product<S, 16><<<grid_of(p.m, p.n, 16, p.batch), kThreads, 0, stream>>>(p);
        else
            matrix_product<S, 64><<<grid_of(p.m, p.n, 64, p.batch), kThreads, 0, stream>>>(p);
    });
}

void launch_convolution(Type type, const Convolution& c, cudaStream_t stream) {
    with_storage(type, [&](auto* null) {
        using S = std::remove_pointer_t<decltype(null)>;
        convolution_forward<S, 64><<<grid_of(c.k, c.n * c.oh * c.ow, 64, c.groups), kThreads, 0, stream>>>(c);
    });
}
void launch_convolution_input_gradient(Type type, const Convolution& c, cudaStream_t stream) {
    with_storage(type, [&](auto* null) {
        using S = std::remove_pointer_t<decltype(null)>;
        convolution_input_gradient<S, 64>
            <<<grid_of(c.c, c.n * c.h * c.w, 64, c.groups), kThreads, 0, stream>>>(c);
    });
}
void launch_convolution_weight_gradient(Type type, const Convolution& c, cudaStream_t stream) {
    with_storage(type, [&](auto* null) {
        using S = std::remove_pointer_t<decltype(null)>;
        convolution_weight_gradient<S, 64>
            <<<grid_of(c.k, c.c * c.kh * c.kw, 64, c.groups), kThreads, 0, stream>>>(c);
    });
}

}  // namespace ops
