#include "device_types.cuh"
#include "normalize.h"

namespace ops {
namespace {

// Where element i of group g is, and which weight it has.
struct Place {
    const Normalized& p;

    __device__ uint32_t elements() const { return p.batch ? p.n * p.s : p.group * p.s; }
    __device__ long long at(uint32_t g, uint32_t i) const {
        if (!p.batch) return static_cast<long long>(g) * p.group * p.s + i;
        const uint32_t sample = i / p.s;
        return (static_cast<long long>(sample) * p.c + g) * p.s + (i - sample * p.s);
    }
    __device__ uint32_t weight(uint32_t g, uint32_t i) const {
        if (p.batch) return g;
        if (p.c == 1) return i;  // layer normalisation: one weight a position
        return g % (p.c / p.group) * p.group + i / p.s;
    }
};

template <class S, class M = typename Storage<S>::Math>
__global__ void statistics(const __grid_constant__ Normalized p, const S* x, M* mean, M* deviation,
                           M* unbiased) {
    const Place place{p};
    const uint32_t count = place.elements();
    M sum = 0;
    for (uint32_t i = threadIdx.x; i < count; i += kBlock) sum += Storage<S>::get(x, place.at(blockIdx.x, i));
    const M middle = block_sum(sum) / M(count);
    sum = 0;
    for (uint32_t i = threadIdx.x; i < count; i += kBlock) {
        const M d = Storage<S>::get(x, place.at(blockIdx.x, i)) - middle;
        sum += d * d;
    }
    sum = block_sum(sum);
    if (threadIdx.x) return;
    mean[blockIdx.x] = middle;
    deviation[blockIdx.x] = M(1) / sqrt(sum / M(count) + M(p.eps));
    if (unbiased) unbiased[blockIdx.x] = sum / M(count > 1 ? count - 1 : 1);
}

template <class M>
__device__ __forceinline__ M weight_at(const char* weight, Type type, uint32_t i, M missing) {
    return weight ? load<M>(weight + static_cast<size_t>(i) * size_of(type), type) : missing;
}

template <class S, class M = typename Storage<S>::Math>
__global__ void normalize(const __grid_constant__ Normalized p, const S* x, const M* mean, const M* deviation,
                          const char* weight, const char* bias, S* y) {
    const Place place{p};
    const M middle = mean[blockIdx.x], scale = deviation[blockIdx.x];
    for (uint32_t i = threadIdx.x; i < place.elements(); i += kBlock) {
        const long long at = place.at(blockIdx.x, i);
        const uint32_t w = place.weight(blockIdx.x, i);
        Storage<S>::put(
            y, at,
            (Storage<S>::get(x, at) - middle) * scale * weight_at(weight, p.weight_type, w, M(1)) +
                weight_at(bias, p.weight_type, w, M(0)));
    }
}

template <class S, class M = typename Storage<S>::Math>
__global__ void normalize_backward(const __grid_constant__ Normalized p, const S* dy, const S* x,
                                   const M* mean, const M* deviation, const char* weight, bool evaluation,
                                   S* dx) {
    const Place place{p};
    const uint32_t count = place.elements();
    const M middle = mean[blockIdx.x], scale = deviation[blockIdx.x];
    M sum = 0, product = 0;
    if (!evaluation) {
        for (uint32_t i = threadIdx.x; i < count; i += kBlock) {
            const long long at = place.at(blockIdx.x, i);
            const M g =
                Storage<S>::get(dy, at) * weight_at(weight, p.weight_type, place.weight(blockIdx.x, i), M(1));
            sum += g;
            product += g * ((Storage<S>::get(x, at) - middle) * scale);
        }
        sum = block_sum(sum) / M(count);
        product = block_sum(product) / M(count);
    }
    for (uint32_t i = threadIdx.x; i < count; i += kBlock) {
        const long long at = place.at(blockIdx.x, i);
        const M g =
            Storage<S>::get(dy, at) * weight_at(weight, p.weight_type, place.weight(blockIdx.x, i), M(1));
        Storage<S>::put(dx, at, scale * (g - sum - (Storage<S>::get(x, at) - middle) * scale * product));
    }
}

// One thread for each position of layer normalisation: neighbours read neighbours.
template <class S, class M = typename Storage<S>::Math>
__global__ void layer_weights(const __grid_constant__ Normalized p, const S* dy, const S* x, const M* mean,
                              const M* deviation, char* dweight, char* dbias) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= p.s) return;
    M weight = 0, bias = 0;
    for (uint32_t row = 0; row < p.n; ++row) {
        const long long at = static_cast<long long>(row) * p.s + i;
        const M g = Storage<S>::get(dy, at);
        weight += g * (Storage<S>::get(x, at) - mean[row]) * deviation[row];
        bias += g;
    }
    if (dweight) store(dweight + i * size_of(p.weight_type), p.weight_type, weight);
    if (dbias) store(dbias + i * size_of(p.weight_type), p.weight_type, bias);
}

// One block for each channel.
template <class S, class M = typename Storage<S>::Math>
__global__ void channel_weights(const __grid_constant__ Normalized p, const S* dy, const S* x, const M* mean,
                                const M* deviation, char* dweight, char* dbias) {
    const uint32_t c = blockIdx.x;
    M weight = 0, bias = 0;
    for (uint32_t i = threadIdx.x; i < p.n * p.s; i += kBlock) {
        const uint32_t sample = i / p.s;
        const long long at = (static_cast<long long>(sample) * p.c + c) * p.s + (i - sample * p.s);
        const uint32_t g = p.batch ? c : sample * (p.c / p.group) + c / p.group;
        const M d = Storage<S>::get(dy, at);
        weight += d * (Storage<S>::get(x, at) - mean[g]) * deviation[g];
        bias += d;
    }
    weight = block_sum(weight);
    bias = block_sum(bias);
    if (threadIdx.x) return;
    if (dweight) store(dweight + c * size_of(p.weight_type), p.weight_type, weight);
    if (dbias) store(dbias + c * size_of(p.weight_type), p.weight_type, bias);
}

unsigned groups_of(const Normalized& p) {
    return p.batch ? p.c : p.n * (p.c / p.group);
}

}  // namespace

void launch_statistics(const Normalized& p, const void* x, void* mean, void* deviation, void* unbiased,
                       cudaStream_t stream) {
    with_storage(p.type, [&](auto* null) {
        using S = std::remove_pointer_t<decltype(null)>;
        using M = typename Storage<S>::Math;
        if (groups_of(p))
            statistics<S>
                <<<groups_of(p), kBlock, 0, stream>>>(p, static_cast<const S*>(x), static_cast<M*>(mean),
                                                      static_cast<M*>(deviation), static_cast<M*>(unbiased));
    });
}
void launch_normalize(const Normalized& p, const void* x, const void* mean, const void* deviation,
                      const void* weight, const void* bias, void* y, cudaStream_t stream) {
    with_storage(p.type, [&](auto* null) {
        using S = std::remove_pointer_t<decltype(null)>;
        using M = typename Storage<S>::Math;
        if (groups_of(p))
            normalize<S><<<groups_of(p), kBlock, 0, stream>>>(
                p, static_cast<const S*>(x), static_cast<const M*>(mean), static_cast<const M*>(deviation),
                static_cast<const char*>(weight), static_cast<const char*>(bias), static_cast<S*>(y));
    });
}
void launch_normalize_backward(const Normalized& p, const void* dy, const void* x, const void* mean,
                               const void* deviation, const void* weight, bool evaluation, void* dx,
                               cudaStream_t stream) {
    with_storage(p.type, [&](auto* null) {
        using S = std::remove_pointer_t<decltype(null)>;
        using M = typename Storage<S>::Math;
        if (groups_of(p))
            normalize_backward<S><<<groups_of(p), kBlock, 0, stream>>>(
                p, static_cast<const S*>(dy), static_cast<const S*>(x), static_cast<const M*>(mean),
                static_cast<const M*>(deviation), static_cast<const char*>(weight), evaluation,
                static_cast<S*>(dx));
    });
}
void launch_normalize_weights(const Normalized& p, const void* dy, const void* x, const void* mean,
                              const void* deviation, void* dweight, void* dbias, cudaStream_t stream) {
    with_storage(p.type, [&](auto* null) {
        using S = std::remove_pointer_t<decltype(null)>;
        using M = typename Storage<S>::Math;
        auto run = [&](auto kernel, unsigned blocks) {
            if (blocks)
                kernel<<<blocks, kBlock, 0, stream>>>(
                    p, static_cast<const S*>(dy), static_cast<const S*>(x), static_cast<const M*>(mean),
                    static_cast<const M*>(deviation), static_cast<char*>(dweight), static_cast<char*>(dbias));
        };
        if (!p.batch && p.c == 1)
            run(layer_weights<S>, blocks_for(p.s, kBlock));
        else
            run(channel_weights<S>, p.c);
    });
}

}  // namespace ops
