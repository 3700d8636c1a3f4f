#include "device_types.cuh"
#include "random.h"

namespace ops {
namespace {

struct Four {
    uint32_t v[4];
};
// Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
__device__ __forceinline__ Four philox(uint64_t seed, uint64_t counter, uint64_t offset) {
    uint32_t c0 = uint32_t(offset), c1 = uint32_t(offset >> 32), c2 = uint32_t(counter),
             c3 = uint32_t(counter >> 32);
    uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint32_t h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0, h1 = __umulhi(0xCD9E8D57u, c2),
                       l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0, c1 = l1, c2 = h0 ^ c3 ^ k1, c3 = l0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}
__device__ __forceinline__ Four numbers_at(const RandomState& s, uint32_t i) {
    const uint64_t seed = s.seed_at ? *s.seed_at : s.seed,
                   offset = s.offset_at ? *s.offset_at + s.offset : s.offset;
    return philox(seed, i, offset);
}
// 0 <= x < 1.
__device__ __forceinline__ double fraction(const Four& f, bool twice) {
    return twice ? double(((uint64_t(f.v[1]) << 32) | f.v[0]) >> 11) * 0x1p-53
                 : double(f.v[0] >> 8) * 0x1p-24;
}

__global__ void random_numbers(Random kind, uint32_t count, char* out, Type type,
                               const __grid_constant__ RandomState state, double a, double b, const char* p,
                               Type p_type, unsigned long long range, long long base) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const Four f = numbers_at(state, i);
    char* to = out + static_cast<size_t>(i) * size_of(type);
    const double x = fraction(f, type == Type::f64);
    switch (kind) {
        case Random::uniform:
            store(to, type, type == Type::f64 ? x * (b - a) + a : double(float(x) * float(b - a) + float(a)));
            break;
        case Random::normal:
        case Random::log_normal: {
            const float radius = sqrtf(-2.0f * logf((float(f.v[0] >> 8) + 1.0f) * 0x1p-24f)),
                        angle = 6.2831853f * (float(f.v[1] >> 8) * 0x1p-24f);
            const float z = radius * cosf(angle) * float(b) + float(a);
            store(to, type, kind == Random::normal ? z : expf(z));
            break;
        }
        case Random::bernoulli:
            store(to, type,
                  float(x < (p ? load<double>(p + static_cast<size_t>(i) * size_of(p_type), p_type) : a)));
            break;
        case Random::exponential:
            store(to, type, float(-logf(1.0f - float(x)) / float(a)));
            break;
        case Random::geometric:
            store(to, type, ceilf(logf(1.0f - float(x)) / log1pf(-float(a))));
            break;
        case Random::whole: {
            const unsigned long long whole = (static_cast<unsigned long long>(f.v[1]) << 32) | f.v[0];
            store(to, type, static_cast<long long>(range ? whole % range : whole) + base);
            break;
        }
    }
}

template <class S, class M = typename Storage<S>::Math>
__global__ void dropout(uint32_t count, const S* x, S* y, unsigned char* mask, double keep,
                        const __grid_constant__ RandomState state) {
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x;
    const uint32_t first = i * 4;
    if (first >= count) return;
    const Four f = numbers_at(state, i);
    const M scale = M(1 / keep);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (first + k >= count) return;
        const bool kept = float(f.v[k] >> 8) * 0x1p-24f < float(keep);
        mask[first + k] = kept;
        Storage<S>::put(y, first + k, kept ? Storage<S>::get(x, first + k) * scale : M(0));
    }
}

}  // namespace

void launch_random(Random kind, uint32_t count, void* out, Type type, const RandomState& state, double a,
                   double b, const void* p, Type p_type, unsigned long long range, long long base,
                   cudaStream_t stream) {
    if (count)
        random_numbers<<<blocks_for(count, kBlock), kBlock, 0, stream>>>(
            kind, count, static_cast<char*>(out), type, state, a, b, static_cast<const char*>(p), p_type,
            range, base);
}
void launch_dropout(Type type, uint32_t count, const void* x, void* y, unsigned char* mask, double keep,
                    const RandomState& state, cudaStream_t stream) {
    if (!count) return;
    with_storage(type, [&](auto* null) {
        using S = std::remove_pointer_t<decltype(null)>;
        dropout<<<blocks_for(count, kBlock * 4), kBlock, 0, stream>>>(count, static_cast<const S*>(x),
                                                                      static_cast<S*>(y), mask, keep, state);
    });
}

}  // namespace ops
