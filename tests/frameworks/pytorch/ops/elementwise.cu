// Elementwise kernels: one general kernel for each number of inputs and kind of arithmetic (any types, strides, broadcasting), and
// kernels of one operation on dense float tensors for what training runs most.
#include "device_types.cuh"
#include "elementwise.h"
#include "elementwise_math.cuh"

namespace ops {
namespace {

template <class T, int N>
__global__ void elementwise(const __grid_constant__ Iteration it, int op, const __grid_constant__ Numbers n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= it.count) return;
    uint32_t offset[N + 1];
    if (it.contiguous) {
#pragma unroll
        for (int k = 0; k <= N; ++k) offset[k] = i * it.operand[k].size;
    } else {
#pragma unroll
        for (int k = 0; k <= N; ++k) offset[k] = 0;
        uint32_t rest = i;
        for (int d = 0; d < it.dims; ++d) {
            const uint32_t extent = it.extent[d], next = rest / extent, at = rest - next * extent;
            rest = next;
#pragma unroll
            for (int k = 0; k <= N; ++k) offset[k] += at * it.stride[k][d];
        }
    }
    T in[N + 1];
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const Operand& o = it.operand[k + 1];
        if (o.size)
            in[k] = load<T>(o.data + offset[k + 1], o.type);
        else if constexpr (std::is_integral_v<T>)
            in[k] = o.whole;
        else
            in[k] = T(o.real);
    }
    T out;
    if constexpr (N == 0) out = apply0<T>(op, i, n);
    if constexpr (N == 1) out = apply1<T>(op, in[0], n);
    if constexpr (N == 2) out = apply2<T>(op, in[0], in[1], n);
    if constexpr (N == 3) out = apply3<T>(op, in[0], in[1], in[2], n);
    store<T>(it.operand[0].data + offset[0], it.operand[0].type, out);
}

// Moves elements of one size, whatever they mean.
template <class W>
__global__ void move_elements(const __grid_constant__ Iteration it) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= it.count) return;
    uint32_t to = 0, from = 0, rest = i;
    for (int d = 0; d < it.dims; ++d) {
        const uint32_t extent = it.extent[d], next = rest / extent, at = rest - next * extent;
        rest = next;
        to += at * it.stride[0][d];
        from += at * it.stride[1][d];
    }
    *reinterpret_cast<W*>(it.operand[0].data + static_cast<int>(to)) =
        *reinterpret_cast<const W*>(it.operand[1].data + static_cast<int>(from));
}

constexpr int kPerThread = 4;
template <int OP, int N>
__global__ void dense_float(float* out, const float* a, const float* b, const float* c, uint32_t count,
                            const __grid_constant__ Numbers n) {
    uint32_t i = blockIdx.x * (kBlock * kPerThread) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < kPerThread; ++k, i += kBlock) {
        if (i >= count) return;
        if constexpr (N == 0) out[i] = apply0<float>(OP, i, n);
        if constexpr (N == 1) out[i] = apply1<float>(OP, a[i], n);
        if constexpr (N == 2) out[i] = apply2<float>(OP, a[i], b[i], n);
        if constexpr (N == 3) out[i] = apply3<float>(OP, a[i], b[i], c[i], n);
    }
}

bool dense(const Iteration& it) {
    if (!it.contiguous) return false;
    for (int k = 0; k < it.operands; ++k)
        if (it.operand[k].type != Type::f32 || !it.operand[k].size) return false;
    return true;
}

template <int OP, int N>
void run_dense(const Iteration& it, const Numbers& n, cudaStream_t stream) {
    auto in = [&](int k) {
        return reinterpret_cast<const float*>(k < it.operands ? it.operand[k].data : nullptr);
    };
    dense_float<OP, N><<<blocks_for(it.count, kBlock * kPerThread), kBlock, 0, stream>>>(
        reinterpret_cast<float*>(it.operand[0].data), in(1), in(2), in(3), it.count, n);
}

#define DENSE_OPS(X)                                                                                       \
    X(op_fill, 0)                                                                                          \
    X(op_copy, 1) X(op_neg, 1) X(op_exp, 1) X(op_log, 1) X(op_sqrt, 1) X(op_tanh, 1) X(op_sigmoid, 1)      \
        X(op_clamp_min_number, 1) X(op_gelu, 1) X(op_gelu_tanh, 1) X(op_silu, 1) X(op_add, 2) X(op_sub, 2) \
            X(op_mul, 2) X(op_div, 2) X(op_threshold, 2) X(op_sigmoid_backward, 2) X(op_tanh_backward, 2)  \
                X(op_gelu_backward, 2) X(op_gelu_tanh_backward, 2) X(op_silu_backward, 2) X(op_mse, 2)     \
                    X(op_lerp_number, 2) X(op_addcmul, 3) X(op_addcdiv, 3) X(op_mse_backward, 3)

bool run_dense_op(int op, const Iteration& it, const Numbers& n, cudaStream_t stream) {
    switch (op) {
#define X(OP, N)                         \
    case OP:                             \
        run_dense<OP, N>(it, n, stream); \
        return true;
        DENSE_OPS(X)
#undef X
        default:
            return false;
    }
}

template <class T>
void run_general(int op, const Iteration& it, const Numbers& n, cudaStream_t stream) {
    const unsigned blocks = blocks_for(it.count, kBlock);
    switch (it.operands) {
        case 1:
            elementwise<T, 0><<<blocks, kBlock, 0, stream>>>(it, op, n);
            break;
        case 2:
            elementwise<T, 1><<<blocks, kBlock, 0, stream>>>(it, op, n);
            break;
        case 3:
            elementwise<T, 2><<<blocks, kBlock, 0, stream>>>(it, op, n);
            break;
        case 4:
            elementwise<T, 3><<<blocks, kBlock, 0, stream>>>(it, op, n);
            break;
        default:
            break;
    }
}

}  // namespace

void launch_elementwise(int op, Compute compute, const Iteration& it, const Numbers& n, cudaStream_t stream) {
    if (!it.count) return;
    if (compute == Compute::f32 && dense(it) && run_dense_op(op, it, n, stream)) return;
    switch (compute) {
        case Compute::f32:
            run_general<float>(op, it, n, stream);
            break;
        case Compute::f64:
            run_general<double>(op, it, n, stream);
            break;
        case Compute::i64:
            run_general<long long>(op, it, n, stream);
            break;
    }
}

void launch_move(const Iteration& it, cudaStream_t stream) {
    if (!it.count) return;
    const unsigned blocks = blocks_for(it.count, kBlock);
    switch (it.operand[0].size) {
        case 1:
            move_elements<uint8_t><<<blocks, kBlock, 0, stream>>>(it);
            break;
        case 2:
            move_elements<uint16_t><<<blocks, kBlock, 0, stream>>>(it);
            break;
        case 4:
            move_elements<uint32_t><<<blocks, kBlock, 0, stream>>>(it);
            break;
        default:
            move_elements<uint64_t><<<blocks, kBlock, 0, stream>>>(it);
            break;
    }
}

}  // namespace ops
