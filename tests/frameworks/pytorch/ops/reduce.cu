// Reductions. The order of additions depends on the shape alone.
#include "device_types.cuh"
#include "reduce.h"

namespace ops {
namespace {

template <class T>
__device__ __forceinline__ T start_of(Reduce op) {
    constexpr bool whole = T(0.5) == T(0);
    switch (op) {
        case Reduce::product:
        case Reduce::all:
            return T(1);
        case Reduce::minimum:
            return whole ? T(0x7fffffffffffffffll) : T(__int_as_float(0x7f800000));
        case Reduce::maximum:
            return whole ? T(-0x7fffffffffffffffll - 1) : T(__int_as_float(0xff800000));
        default:
            return T(0);
    }
}
template <class T>
__device__ __forceinline__ T prepared(Reduce op, T x, const ReduceNumbers& n) {
    switch (op) {
        case Reduce::nansum:
            return x != x ? T(0) : x;
        case Reduce::all:
        case Reduce::any:
        case Reduce::norm_zero:
            return x != T(0);
        case Reduce::norm1:
        case Reduce::norm_inf:
            return x < T(0) ? -x : x;
        case Reduce::norm2:
            return x * x;
        case Reduce::norm_p:
            return T(pow(fabs(double(x)), n.power));
        default:
            return x;
    }
}
template <class T>
__device__ __forceinline__ T combined(Reduce op, T a, T b) {
    switch (op) {
        case Reduce::product:
            return a * b;
        case Reduce::minimum:
            return a != a ? a : b != b ? b : b < a ? b : a;
        case Reduce::maximum:
        case Reduce::norm_inf:
            return a != a ? a : b != b ? b : b > a ? b : a;
        case Reduce::all:
            return a != T(0) && b != T(0);
        case Reduce::any:
            return a != T(0) || b != T(0);
        default:
            return a + b;
    }
}
template <class T>
__device__ __forceinline__ T finished(Reduce op, T x, const ReduceNumbers& n) {
    if (op == Reduce::norm2) return T(sqrt(double(x)));
    if (op == Reduce::norm_p) return T(pow(double(x), 1 / n.power));
    return n.scale != 1 ? T(x * T(n.scale)) : x;
}

__device__ __forceinline__ uint32_t element_at(const Reduction& r, uint32_t i) {
    if (r.element_dims == 1) return i * r.element_in[0];
    uint32_t offset = 0;
    for (int d = 0; d < r.element_dims; ++d) {
        const uint32_t next = i / r.element_extent[d];
        offset += (i - next * r.element_extent[d]) * r.element_in[d];
        i = next;
    }
    return offset;
}
__device__ __forceinline__ void result_at(const Reduction& r, uint32_t i, uint32_t& in, uint32_t& out) {
    in = out = 0;
    for (int d = 0; d < r.result_dims; ++d) {
        const uint32_t next = i / r.result_extent[d], at = i - next * r.result_extent[d];
        in += at * r.result_in[d];
        out += at * r.result_out[d];
        i = next;
    }
}

// One block for each result.
template <class T>
__global__ void reduce_block(const __grid_constant__ Reduction r, Reduce op,
                             const __grid_constant__ ReduceNumbers n) {
    uint32_t in, out;
    result_at(r, blockIdx.x, in, out);
    __shared__ T part[kBlock];
    T sum = start_of<T>(op);
    for (uint32_t i = threadIdx.x; i < r.elements; i += kBlock)
        sum = combined(op, sum, prepared(op, load<T>(r.in + in + element_at(r, i), r.in_type), n));
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = kBlock / 2; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = combined(op, part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    if (!threadIdx.x) store(r.out + out, r.out_type, finished(op, part[0], n));
}

// One thread for each result: few elements, or many results side by side.
template <class T>
__global__ void reduce_thread(const __grid_constant__ Reduction r, Reduce op,
                              const __grid_constant__ ReduceNumbers n) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= r.results) return;
    uint32_t in, out;
    result_at(r, i, in, out);
    T sum = start_of<T>(op);
    for (uint32_t e = 0; e < r.elements; ++e)
        sum = combined(op, sum, prepared(op, load<T>(r.in + in + element_at(r, e), r.in_type), n));
    store(r.out + out, r.out_type, finished(op, sum, n));
}

template <class T>
__global__ void variance(const __grid_constant__ Reduction r, const __grid_constant__ ReduceNumbers n) {
    uint32_t in, out;
    result_at(r, blockIdx.x, in, out);
    T sum = 0;
    for (uint32_t i = threadIdx.x; i < r.elements; i += kBlock)
        sum += load<T>(r.in + in + element_at(r, i), r.in_type);
    const T mean = block_sum(sum) / T(r.elements);
    sum = 0;
    for (uint32_t i = threadIdx.x; i < r.elements; i += kBlock) {
        const T d = load<T>(r.in + in + element_at(r, i), r.in_type) - mean;
        sum += d * d;
    }
    const double rest = double(r.elements) - n.correction;
    const T value = block_sum(sum) / T(rest > 0 ? rest : 0);
    if (!threadIdx.x) store(r.out + out, r.out_type, n.root ? sqrt(value) : value);
}

template <class T>
__global__ void position_of_extreme(const __grid_constant__ Reduction r, bool largest) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= r.results) return;
    uint32_t in, out;
    result_at(r, i, in, out);
    T best = load<T>(r.in + in + element_at(r, 0), r.in_type);
    long long at = 0;
    for (uint32_t e = 1; e < r.elements; ++e) {
        const T x = load<T>(r.in + in + element_at(r, e), r.in_type);
        if (best == best && (x != x || (largest ? x > best : x < best))) best = x, at = e;
    }
    *reinterpret_cast<long long*>(r.out + out) = at;
}

__device__ __forceinline__ unsigned long long line_start(const Line& line, uint32_t i) {
    const uint32_t outer = i / line.inner;
    return static_cast<unsigned long long>(outer) * line.n * line.inner + (i - outer * line.inner);
}

// One block for each line.
template <class T>
__global__ void softmax(bool logarithm, Line line, char* out, const char* in, Type out_type, Type in_type) {
    const int out_size = size_of(out_type), in_size = size_of(in_type);
    const unsigned long long start = line_start(line, blockIdx.x);
    __shared__ T part[kBlock];
    T top = T(__int_as_float(0xff800000));
    for (uint32_t i = threadIdx.x; i < line.n; i += kBlock) {
        const T x =
            load<T>(in + (start + static_cast<unsigned long long>(i) * line.inner) * in_size, in_type);
        top = x > top ? x : top;
    }
    part[threadIdx.x] = top;
    __syncthreads();
    for (int half = kBlock / 2; half; half /= 2) {
        if (threadIdx.x < half && part[threadIdx.x + half] > part[threadIdx.x])
            part[threadIdx.x] = part[threadIdx.x + half];
        __syncthreads();
    }
    top = part[0];
    T sum = 0;
    for (uint32_t i = threadIdx.x; i < line.n; i += kBlock)
        sum += exp(
            load<T>(in + (start + static_cast<unsigned long long>(i) * line.inner) * in_size, in_type) - top);
    sum = block_sum(sum);
    const T log_sum = log(sum);
    for (uint32_t i = threadIdx.x; i < line.n; i += kBlock) {
        const unsigned long long at = start + static_cast<unsigned long long>(i) * line.inner;
        const T x = load<T>(in + at * in_size, in_type) - top;
        store(out + at * out_size, out_type, logarithm ? x - log_sum : exp(x) / sum);
    }
}

template <class T>
__global__ void softmax_backward(bool logarithm, Line line, char* out, const char* gradient,
                                 const char* result, Type out_type, Type in_type) {
    const int out_size = size_of(out_type), in_size = size_of(in_type);
    const unsigned long long start = line_start(line, blockIdx.x);
    T sum = 0;
    for (uint32_t i = threadIdx.x; i < line.n; i += kBlock) {
        const unsigned long long at = (start + static_cast<unsigned long long>(i) * line.inner) * in_size;
        const T g = load<T>(gradient + at, in_type);
        sum += logarithm ? g : g * load<T>(result + at, in_type);
    }
    sum = block_sum(sum);
    for (uint32_t i = threadIdx.x; i < line.n; i += kBlock) {
        const unsigned long long at = start + static_cast<unsigned long long>(i) * line.inner;
        const T g = load<T>(gradient + at * in_size, in_type), y = load<T>(result + at * in_size, in_type);
        store(out + at * out_size, out_type, logarithm ? g - exp(y) * sum : y * (g - sum));
    }
}

template <class T>
__global__ void scan(Scan op, Line line, char* out, const char* in, Type out_type, Type in_type) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= line.outer * line.inner) return;
    unsigned long long at = line_start(line, i);
    T value = op == Scan::product;
    for (uint32_t e = 0; e < line.n; ++e, at += line.inner) {
        const T x = load<T>(in + at * size_of(in_type), in_type);
        value = op == Scan::product ? value * x : value + x;
        store(out + at * size_of(out_type), out_type, value);
    }
}

template <class T>
__global__ void extreme(bool largest, Line line, char* values, long long* positions, const char* in,
                        Type type) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= line.outer * line.inner) return;
    unsigned long long at = line_start(line, i);
    T best = load<T>(in + at * size_of(type), type);
    long long position = 0;
    for (uint32_t e = 1; e < line.n; ++e) {
        at += line.inner;
        const T x = load<T>(in + at * size_of(type), type);
        if (best == best && (x != x || (largest ? x > best : x < best))) best = x, position = e;
    }
    store(values + static_cast<unsigned long long>(i) * size_of(type), type, best);
    positions[i] = position;
}

// Each element finds its place by counting what comes before it.
template <class T>
__global__ void sort_line(bool descending, Line line, uint32_t keep, char* values, long long* positions,
                          const char* in, Type type) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= line.outer * line.inner * line.n) return;
    const uint32_t lane = i % line.inner, e = i / line.inner % line.n, outer = i / line.inner / line.n;
    const unsigned long long start = static_cast<unsigned long long>(outer) * line.n * line.inner + lane;
    const T x = load<T>(in + static_cast<unsigned long long>(i) * size_of(type), type);
    uint32_t place = 0;
    for (uint32_t k = 0; k < line.n; ++k) {
        const T y =
            load<T>(in + (start + static_cast<unsigned long long>(k) * line.inner) * size_of(type), type);
        const bool same = y == x || (x != x && y != y);
        const bool before = descending ? (y > x || (y != y && x == x)) : (y < x || (x != x && y == y));
        place += before || (same && k < e);
    }
    if (place >= keep) return;
    const unsigned long long to = (static_cast<unsigned long long>(outer) * keep + place) * line.inner + lane;
    store(values + to * size_of(type), type, x);
    positions[to] = e;
}

template <class F>
void with_compute(Type type, F f) {
    if (type == Type::f64)
        f(double{});
    else if (type == Type::f32 || type == Type::f16 || type == Type::bf16)
        f(float{});
    else
        f(0ll);
}

}  // namespace

void launch_reduce(Reduce op, Compute compute, const Reduction& r, const ReduceNumbers& n,
                   cudaStream_t stream) {
    if (!r.results) return;
    auto run = [&](auto zero) {
        using T = decltype(zero);
        if (op == Reduce::argmax || op == Reduce::argmin)
            position_of_extreme<T>
                <<<blocks_for(r.results, kBlock), kBlock, 0, stream>>>(r, op == Reduce::argmax);
        else if (r.elements < 64 || (r.results >= 1024 && r.elements <= 1024 && r.element_in[0] > 8))
            reduce_thread<T><<<blocks_for(r.results, kBlock), kBlock, 0, stream>>>(r, op, n);
        else
            reduce_block<T><<<r.results, kBlock, 0, stream>>>(r, op, n);
    };
    if (op == Reduce::variance) {
        if (compute == Compute::f64)
            variance<double><<<r.results, kBlock, 0, stream>>>(r, n);
        else
            variance<float><<<r.results, kBlock, 0, stream>>>(r, n);
        return;
    }
    switch (compute) {
        case Compute::f32:
            run(float{});
            break;
        case Compute::f64:
            run(double{});
            break;
        case Compute::i64:
            run(0ll);
            break;
    }
}

void launch_softmax(bool logarithm, Line line, void* out, const void* in, Type out_type, Type in_type,
                    cudaStream_t stream) {
    const unsigned lines = line.outer * line.inner;
    if (!lines || !line.n) return;
    auto* to = static_cast<char*>(out);
    auto* from = static_cast<const char*>(in);
    if (in_type == Type::f64)
        softmax<double><<<lines, kBlock, 0, stream>>>(logarithm, line, to, from, out_type, in_type);
    else
        softmax<float><<<lines, kBlock, 0, stream>>>(logarithm, line, to, from, out_type, in_type);
}

void launch_softmax_backward(bool logarithm, Line line, void* out, const void* gradient, const void* result,
                             Type out_type, Type in_type, cudaStream_t stream) {
    const unsigned lines = line.outer * line.inner;
    if (!lines || !line.n) return;
    auto* to = static_cast<char*>(out);
    auto *g = static_cast<const char*>(gradient), *y = static_cast<const char*>(result);
    if (in_type == Type::f64)
        softmax_backward<double><<<lines, kBlock, 0, stream>>>(logarithm, line, to, g, y, out_type, in_type);
    else
        softmax_backward<float><<<lines, kBlock, 0, stream>>>(logarithm, line, to, g, y, out_type, in_type);
}

void launch_scan(Scan op, Line line, void* out, const void* in, Type out_type, Type in_type,
                 cudaStream_t stream) {
    const unsigned lines = line.outer * line.inner;
    if (!lines || !line.n) return;
    with_compute(out_type, [&](auto zero) {
        scan<decltype(zero)><<<blocks_for(lines, kBlock), kBlock, 0, stream>>>(
            op, line, static_cast<char*>(out), static_cast<const char*>(in), out_type, in_type);
    });
}

void launch_extreme(bool largest, Line line, void* values, long long* positions, const void* in, Type type,
                    cudaStream_t stream) {
    const unsigned lines = line.outer * line.inner;
    if (!lines || !line.n) return;
    with_compute(type, [&](auto zero) {
        extreme<decltype(zero)><<<blocks_for(lines, kBlock), kBlock, 0, stream>>>(
            largest, line, static_cast<char*>(values), positions, static_cast<const char*>(in), type);
    });
}

void launch_sort(bool descending, Line line, uint32_t keep, void* values, long long* positions,
                 const void* in, Type type, cudaStream_t stream) {
    const unsigned count = line.outer * line.inner * line.n;
    if (!count) return;
    with_compute(type, [&](auto zero) {
        sort_line<decltype(zero)><<<blocks_for(count, kBlock), kBlock, 0, stream>>>(
            descending, line, keep, static_cast<char*>(values), positions, static_cast<const char*>(in),
            type);
    });
}

}  // namespace ops
