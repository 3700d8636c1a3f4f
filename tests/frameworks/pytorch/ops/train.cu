#include "device_types.cuh"
#include "elementwise_math.cuh"
#include "train.h"

namespace ops {
namespace {

template <class S, class M = typename Storage<S>::Math>
__global__ void nll(uint32_t outer, uint32_t classes, uint32_t inner, long long ignore, const S* x,
                    const long long* target, const S* weight, S* loss, S* weights) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= outer * inner) return;
    const long long t = target[i];
    M l = 0, w = 0;
    if (t != ignore) {
        if (t < 0 || t >= classes) __trap();
        w = weight ? Storage<S>::get(weight, t) : M(1);
        l = -w * Storage<S>::get(x, (static_cast<long long>(i / inner) * classes + t) * inner + i % inner);
    }
    Storage<S>::put(loss, i, l);
    Storage<S>::put(weights, i, w);
}

template <class S, class M = typename Storage<S>::Math>
__global__ void nll_backward(uint32_t outer, uint32_t classes, uint32_t inner, long long ignore,
                             const long long* target, const S* weight, const S* gradient, bool each,
                             const S* total, S* dx) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= outer * inner) return;
    const long long t = target[i];
    if (t == ignore) return;
    M g = -(weight ? Storage<S>::get(weight, t) : M(1)) * Storage<S>::get(gradient, each ? i : 0);
    if (total) g /= Storage<S>::get(total, 0);
    Storage<S>::put(dx, (static_cast<long long>(i / inner) * classes + t) * inner + i % inner, g);
}

template <class S, class M = typename Storage<S>::Math>
__global__ void lstm_cell(uint32_t n, uint32_t hidden, const S* gi, const S* gh, const S* bi, const S* bh,
                          const S* cx, S* hy, S* cy, S* workspace) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= n * hidden) return;
    const uint32_t row = i / hidden, column = i % hidden;
    M gate[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const uint32_t at = row * 4 * hidden + k * hidden + column;
        gate[k] = Storage<S>::get(gi, at) + Storage<S>::get(gh, at);
        if (bi)
            gate[k] += Storage<S>::get(bi, k * hidden + column) + Storage<S>::get(bh, k * hidden + column);
        gate[k] = k == 2 ? tanh(gate[k]) : sigmoid(gate[k]);
        Storage<S>::put(workspace, at, gate[k]);
    }
    const M c = gate[1] * Storage<S>::get(cx, i) + gate[0] * gate[2];
    Storage<S>::put(cy, i, c);
    Storage<S>::put(hy, i, gate[3] * tanh(c));
}

template <class S, class M = typename Storage<S>::Math>
__global__ void lstm_cell_backward(uint32_t n, uint32_t hidden, const S* dhy, const S* dcy, const S* cx,
                                   const S* cy, const S* workspace, S* dgates, S* dcx) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= n * hidden) return;
    const uint32_t start = i / hidden * 4 * hidden + i % hidden;
    M gate[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) gate[k] = Storage<S>::get(workspace, start + k * hidden);
    const M dh = dhy ? Storage<S>::get(dhy, i) : M(0), t = tanh(Storage<S>::get(cy, i));
    const M dc = (dcy ? Storage<S>::get(dcy, i) : M(0)) + dh * gate[3] * (M(1) - t * t);
    Storage<S>::put(dgates, start, dc * gate[2] * gate[0] * (M(1) - gate[0]));
    Storage<S>::put(dgates, start + hidden, dc * Storage<S>::get(cx, i) * gate[1] * (M(1) - gate[1]));
    Storage<S>::put(dgates, start + 2 * hidden, dc * gate[0] * (M(1) - gate[2] * gate[2]));
    Storage<S>::put(dgates, start + 3 * hidden, dh * t * gate[3] * (M(1) - gate[3]));
    Storage<S>::put(dcx, i, dc * gate[1]);
}

// Block b works at chunk[b] of tensor[b].
#define EACH_OF_MANY(I)                                                   \
    const uint32_t which = many.tensor[blockIdx.x];                       \
    const uint32_t first = many.chunk[blockIdx.x] * uint32_t(kChunkSize); \
    const uint32_t last = min(many.count[which], first + kChunkSize);     \
    for (uint32_t I = first + threadIdx.x; I < last; I += kBlock)

template <class T>
__global__ void foreach_tensor(const __grid_constant__ ManyTensors many, int op, int inputs, Type type,
                               bool number_each, Numbers n) {
    const int size = size_of(type);
    if (number_each) {
        n.real[0] = many.number[many.tensor[blockIdx.x]];
        n.whole[0] = static_cast<long long>(n.real[0]);
    }
    EACH_OF_MANY(i) {
        auto in = [&](int k) {
            return load<T>(static_cast<char*>(many.data[k][which]) + static_cast<size_t>(i) * size, type);
        };
        const T value = inputs == 1   ? apply1<T>(op, in(1), n)
                        : inputs == 2 ? apply2<T>(op, in(1), in(2), n)
                                      : apply3<T>(op, in(1), in(2), in(3), n);
        store(static_cast<char*>(many.data[0][which]) + static_cast<size_t>(i) * size, type, value);
    }
}

template <class S, class M = typename Storage<S>::Math>
__global__ void fused_adam(const __grid_constant__ ManyTensors many, const __grid_constant__ Adam a) {
    if (a.found_inf && *a.found_inf == 1) return;
    const double step = *a.step[many.tensor[blockIdx.x]], lr = a.lr_at ? *a.lr_at : a.lr;
    const M correction1 = M(1 - pow(a.beta1, step)), root2 = M(sqrt(1 - pow(a.beta2, step)));
    const M step_size = M(lr) / correction1, scale = a.grad_scale ? M(*a.grad_scale) : M(1);
    EACH_OF_MANY(i) {
        S *p = static_cast<S*>(many.data[0][which]), *m = static_cast<S*>(many.data[2][which]),
          *v = static_cast<S*>(many.data[3][which]);
        M value = Storage<S>::get(p, i), g = Storage<S>::get(static_cast<S*>(many.data[1][which]), i);
        if (a.grad_scale) g /= scale, Storage<S>::put(static_cast<S*>(many.data[1][which]), i, g);
        if (a.maximize) g = -g;
        if (a.decoupled)
            value -= M(lr * a.weight_decay) * value;
        else if (a.weight_decay != 0)
            g += value * M(a.weight_decay);
        M first = Storage<S>::get(m, i), second = Storage<S>::get(v, i);
        first = M(a.beta1) * first + M(1 - a.beta1) * g;
        second = M(a.beta2) * second + M(1 - a.beta2) * g * g;
        value -= step_size * first / (sqrt(second) / root2 + M(a.eps));
        Storage<S>::put(p, i, value);
        Storage<S>::put(m, i, first);
        Storage<S>::put(v, i, second);
    }
}

template <class S, class M = typename Storage<S>::Math>
__global__ void fused_sgd(const __grid_constant__ ManyTensors many, const __grid_constant__ Sgd a) {
    if (a.found_inf && *a.found_inf == 1) return;
    const M lr = M(a.lr_at ? *a.lr_at : a.lr);
    EACH_OF_MANY(i) {
        S *p = static_cast<S*>(many.data[0][which]), *d = static_cast<S*>(many.data[1][which]);
        M value = Storage<S>::get(p, i), g = Storage<S>::get(d, i);
        if (a.grad_scale) g /= M(*a.grad_scale), Storage<S>::put(d, i, g);
        if (a.maximize) g = -g;
        if (a.weight_decay != 0) g += M(a.weight_decay) * value;
        if (a.momentum != 0) {
            S* b = static_cast<S*>(many.data[2][which]);
            const M moment = a.first ? g : M(a.momentum) * Storage<S>::get(b, i) + M(1 - a.dampening) * g;
            Storage<S>::put(b, i, moment);
            g = a.nesterov ? g + M(a.momentum) * moment : moment;
        }
        Storage<S>::put(p, i, value - lr * g);
    }
}

template <class S, class M = typename Storage<S>::Math>
__global__ void unscale(uint32_t count, S* values, float* found, const float* inverse) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const M v = Storage<S>::get(values, i);
    if (!isfinite(v)) *found = 1;
    Storage<S>::put(values, i, *inverse == 1 ? v : v * M(*inverse));
}
__global__ void update_scale(float* scale, int* growth, const float* found, double up, double down,
                             int interval) {
    if (*found != 0) {
        *scale = float(*scale * down);
        *growth = 0;
    } else if (*growth + 1 == interval) {
        const float next = float(*scale * up);
        if (isfinite(next)) *scale = next;
        *growth = 0;
    } else {
        *growth += 1;
    }
}

template <class S>
const S* typed(const void* p) {
    return static_cast<const S*>(p);
}
template <class S>
S* typed(void* p) {
    return static_cast<S*>(p);
}

}  // namespace

#define WITH_STORAGE(...)                                \
    with_storage(type, [&](auto* null) {                 \
        using S = std::remove_pointer_t<decltype(null)>; \
        __VA_ARGS__;                                     \
    })

void launch_nll(Type type, uint32_t outer, uint32_t classes, uint32_t inner, long long ignore, const void* x,
                const long long* target, const void* weight, void* loss, void* weights, cudaStream_t stream) {
    if (!outer || !inner) return;
    WITH_STORAGE(nll<S><<<blocks_for(outer * inner, kBlock), kBlock, 0, stream>>>(
        outer, classes, inner, ignore, typed<S>(x), target, typed<S>(weight), typed<S>(loss),
        typed<S>(weights)));
}
void launch_nll_backward(Type type, uint32_t outer, uint32_t classes, uint32_t inner, long long ignore,
                         const long long* target, const void* weight, const void* gradient, bool each,
                         const void* total, void* dx, cudaStream_t stream) {
    if (!outer || !inner) return;
    WITH_STORAGE(nll_backward<S><<<blocks_for(outer * inner, kBlock), kBlock, 0, stream>>>(
        outer, classes, inner, ignore, target, typed<S>(weight), typed<S>(gradient), each, typed<S>(total),
        typed<S>(dx)));
}
void launch_lstm(Type type, uint32_t n, uint32_t hidden, const void* gi, const void* gh, const void* bi,
                 const void* bh, const void* cx, void* hy, void* cy, void* workspace, cudaStream_t stream) {
    if (!n || !hidden) return;
    WITH_STORAGE(lstm_cell<S><<<blocks_for(n * hidden, kBlock), kBlock, 0, stream>>>(
        n, hidden, typed<S>(gi), typed<S>(gh), typed<S>(bi), typed<S>(bh), typed<S>(cx), typed<S>(hy),
        typed<S>(cy), typed<S>(workspace)));
}
void launch_lstm_backward(Type type, uint32_t n, uint32_t hidden, const void* dhy, const void* dcy,
                          const void* cx, const void* cy, const void* workspace, void* dgates, void* dcx,
                          cudaStream_t stream) {
    if (!n || !hidden) return;
    WITH_STORAGE(lstm_cell_backward<S><<<blocks_for(n * hidden, kBlock), kBlock, 0, stream>>>(
        n, hidden, typed<S>(dhy), typed<S>(dcy), typed<S>(cx), typed<S>(cy), typed<S>(workspace),
        typed<S>(dgates), typed<S>(dcx)));
}
void launch_many(int op, int inputs, Type type, const ManyTensors& many, bool number_each,
                 const Numbers& numbers, cudaStream_t stream) {
    if (type == Type::f64)
        foreach_tensor<double>
            <<<many.chunks, kBlock, 0, stream>>>(many, op, inputs, type, number_each, numbers);
    else if (type == Type::f32 || type == Type::f16 || type == Type::bf16)
        foreach_tensor<float>
            <<<many.chunks, kBlock, 0, stream>>>(many, op, inputs, type, number_each, numbers);
    else
        foreach_tensor<long long>
            <<<many.chunks, kBlock, 0, stream>>>(many, op, inputs, type, number_each, numbers);
}
void launch_adam(Type type, const ManyTensors& many, const Adam& adam, cudaStream_t stream) {
    WITH_STORAGE(fused_adam<S><<<many.chunks, kBlock, 0, stream>>>(many, adam));
}
void launch_sgd(Type type, const ManyTensors& many, const Sgd& sgd, cudaStream_t stream) {
    WITH_STORAGE(fused_sgd<S><<<many.chunks, kBlock, 0, stream>>>(many, sgd));
}
void launch_unscale(Type type, uint32_t count, void* values, float* found, const float* inverse,
                    cudaStream_t stream) {
    if (!count) return;
    WITH_STORAGE(unscale<S>
                 <<<blocks_for(count, kBlock), kBlock, 0, stream>>>(count, typed<S>(values), found, inverse));
}
void launch_update_scale(float* scale, int* growth, const float* found, double up, double down, int interval,
                         cudaStream_t stream) {
    update_scale<<<1, 1, 0, stream>>>(scale, growth, found, up, down, interval);
}

}  // namespace ops
