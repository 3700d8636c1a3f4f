#include "device_types.cuh"
#include "index.h"

namespace ops {
namespace {

template <class W>
__global__ void index_elements(const __grid_constant__ Indexed x, bool writing) {
    const Iteration& it = x.iteration;
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= it.count) return;
    uint32_t offset[kMaxOperands] = {}, rest = i;
    for (int d = 0; d < it.dims; ++d) {
        const uint32_t next = rest / it.extent[d], at = rest - next * it.extent[d];
        rest = next;
#pragma unroll
        for (int k = 0; k < kMaxOperands; ++k) offset[k] += at * it.stride[k][d];
    }
    long long shift = 0;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        if (k >= x.count) break;
        long long at = *reinterpret_cast<const long long*>(it.operand[2 + k].data + offset[2 + k]);
        if (at < 0) at += x.extent[k];
        if (at < 0 || at >= x.extent[k]) __trap();
        shift += at * x.stride[k];
    }
    const char* from = it.operand[1].data + offset[1] + (writing ? 0 : shift);
    char* to = it.operand[0].data + offset[0] + (writing ? shift : 0);
    *reinterpret_cast<W*>(to) = *reinterpret_cast<const W*>(from);
}

template <class T>
__global__ void gather(const __grid_constant__ Along x) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= x.count) return;
    long long from = 0, index = 0, to = 0;
    uint32_t rest = i;
    for (int d = int(x.dims) - 1; d >= 0; --d) {
        const uint32_t next = rest / x.extent[d], at = rest - next * x.extent[d];
        rest = next;
        index += at * x.index_stride[d];
        to += at * x.other_stride[d];
        if (d != int(x.dim)) from += at * x.self_stride[d];
    }
    const long long at = x.index[index];
    if (at < 0 || at >= x.limit) __trap();
    const int size = size_of(x.type);
    store(static_cast<char*>(x.other) + to * size, x.type,
          load<T>(static_cast<char*>(x.self) + (from + at * x.self_stride[x.dim]) * size, x.type));
}

template <class T>
__global__ void scatter(const __grid_constant__ Along x) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    const uint32_t length = x.extent[x.dim];
    if (i >= x.count / length) return;
    long long to = 0, index = 0, from = 0;
    uint32_t rest = i;
    for (int d = int(x.dims) - 1; d >= 0; --d) {
        if (d == int(x.dim)) continue;
        const uint32_t next = rest / x.extent[d], at = rest - next * x.extent[d];
        rest = next;
        index += at * x.index_stride[d];
        to += at * x.self_stride[d];
        from += at * x.other_stride[d];
    }
    const int size = size_of(x.type);
    for (uint32_t e = 0; e < length; ++e) {
        const long long at = x.index[index + e * x.index_stride[x.dim]];
        if (at < 0 || at >= x.limit) __trap();
        char* place = static_cast<char*>(x.self) + (to + at * x.self_stride[x.dim]) * size;
        const T value =
            x.other ? load<T>(static_cast<char*>(x.other) + (from + e * x.other_stride[x.dim]) * size, x.type)
                    : T(x.value);
        if (!x.operation) {
            store(place, x.type, value);
            continue;
        }
        const T old = load<T>(place, x.type);
        store(place, x.type,
              x.operation == 1   ? old + value
              : x.operation == 2 ? old * value
              : x.operation == 3 ? (value > old ? value : old)
                                 : (value < old ? value : old));
    }
}

template <class W>
__global__ void select_lines(uint32_t outer, uint32_t extent, uint32_t inner, W* out, const W* in,
                             const char* index, Type index_type, uint32_t count) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= outer * count * inner) return;
    const uint32_t lane = i % inner, rest = i / inner, which = rest % count, block = rest / count;
    const long long at =
        load<long long>(index + static_cast<size_t>(which) * size_of(index_type), index_type);
    if (at < 0 || at >= extent) __trap();
    out[i] = in[(static_cast<long long>(block) * extent + at) * inner + lane];
}

// For each i: whether it is the first with its index, and the next that has the same.
__global__ void chain_same(const char* index, Type type, uint32_t count, uint32_t* first, uint32_t* next) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const int size = size_of(type);
    const long long mine = load<long long>(index + static_cast<size_t>(i) * size, type);
    uint32_t before = 0, after = count;
    for (uint32_t k = 0; k < count; ++k) {
        const bool same = load<long long>(index + static_cast<size_t>(k) * size, type) == mine;
        before += same && k < i;
        if (same && k > i && k < after) after = k;
    }
    first[i] = !before;
    next[i] = after;
}

template <class T>
__global__ void add_rows(Type type, uint32_t rows, uint32_t width, char* table, const char* values,
                         const char* index, Type index_type, uint32_t count, bool add, long long skip,
                         double factor, const uint32_t* first, const uint32_t* next) {
    if (!first[blockIdx.x]) return;
    const long long at =
        load<long long>(index + static_cast<size_t>(blockIdx.x) * size_of(index_type), index_type);
    if (at == skip) return;
    if (at < 0 || at >= rows) __trap();
    const int size = size_of(type);
    for (uint32_t c = threadIdx.x; c < width; c += kBlock) {
        char* place = table + (at * width + c) * size;
        T sum = add ? load<T>(place, type) : T(0);
        for (uint32_t i = blockIdx.x; i < count; i = next[i]) {
            const T value = load<T>(values + (static_cast<long long>(i) * width + c) * size, type);
            sum = add ? sum + (factor == 1 ? value : T(value * T(factor))) : value;
        }
        store(place, type, sum);
    }
}

template <class W>
__global__ void triangle(bool upper, uint32_t count, uint32_t rows, uint32_t columns, long long diagonal,
                         W* out, const W* in) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const long long column = i % columns, row = i / columns % rows;
    out[i] = (upper ? column - row >= diagonal : column - row <= diagonal) ? in[i] : W(0);
}

template <class F>
void with_size(int size, F f) {
    switch (size) {
        case 1:
            f(uint8_t{});
            break;
        case 2:
            f(uint16_t{});
            break;
        case 4:
            f(uint32_t{});
            break;
        default:
            f(uint64_t{});
            break;
    }
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

void launch_index(const Indexed& x, bool writing, cudaStream_t stream) {
    if (!x.iteration.count) return;
    with_size(x.iteration.operand[0].size, [&](auto w) {
        index_elements<decltype(w)><<<blocks_for(x.iteration.count, kBlock), kBlock, 0, stream>>>(x, writing);
    });
}
void launch_gather(const Along& x, cudaStream_t stream) {
    if (!x.count) return;
    with_compute(x.type,
                 [&](auto t) { gather<decltype(t)><<<blocks_for(x.count, kBlock), kBlock, 0, stream>>>(x); });
}
void launch_scatter(const Along& x, cudaStream_t stream) {
    if (!x.count) return;
    with_compute(x.type, [&](auto t) {
        scatter<decltype(t)><<<blocks_for(x.count / x.extent[x.dim], kBlock), kBlock, 0, stream>>>(x);
    });
}
void launch_select(uint32_t outer, uint32_t extent, uint32_t inner, int size, void* out, const void* in,
                   const void* index, Type index_type, uint32_t count, cudaStream_t stream) {
    if (!outer || !inner || !count) return;
    with_size(size, [&](auto w) {
        using W = decltype(w);
        select_lines<W><<<blocks_for(static_cast<unsigned long long>(outer) * inner * count, kBlock), kBlock,
                          0, stream>>>(outer, extent, inner, static_cast<W*>(out), static_cast<const W*>(in),
                                       static_cast<const char*>(index), index_type, count);
    });
}
void launch_add_rows(Type type, uint32_t rows, uint32_t width, void* table, const void* values,
                     const void* index, Type index_type, uint32_t count, bool add, long long skip,
                     double factor, uint32_t* work, cudaStream_t stream) {
    if (!count || !width) return;
    chain_same<<<blocks_for(count, kBlock), kBlock, 0, stream>>>(static_cast<const char*>(index), index_type,
                                                                 count, work, work + count);
    with_compute(type, [&](auto t) {
        add_rows<decltype(t)><<<count, kBlock, 0, stream>>>(
            type, rows, width, static_cast<char*>(table), static_cast<const char*>(values),
            static_cast<const char*>(index), index_type, count, add, skip, factor, work, work + count);
    });
}
void launch_triangle(bool upper, uint32_t count, uint32_t rows, uint32_t columns, long long diagonal,
                     int size, void* out, const void* in, cudaStream_t stream) {
    if (!count) return;
    with_size(size, [&](auto w) {
        using W = decltype(w);
        triangle<W><<<blocks_for(count, kBlock), kBlock, 0, stream>>>(
            upper, count, rows, columns, diagonal, static_cast<W*>(out), static_cast<const W*>(in));
    });
}

}  // namespace ops
