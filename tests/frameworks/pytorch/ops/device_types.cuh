// Loads and stores of every type, and warp and block sums in a fixed order.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "launch.h"

namespace ops {

template <class T>
__device__ __forceinline__ T load(const char* p, Type type) {
    switch (type) {
        case Type::f32:
            return T(*reinterpret_cast<const float*>(p));
        case Type::f64:
            return T(*reinterpret_cast<const double*>(p));
        case Type::f16:
            return T(__half2float(*reinterpret_cast<const __half*>(p)));
        case Type::bf16:
            return T(__bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(p)));
        case Type::i64:
            return T(*reinterpret_cast<const long long*>(p));
        case Type::i32:
            return T(*reinterpret_cast<const int*>(p));
        case Type::i16:
            return T(*reinterpret_cast<const short*>(p));
        case Type::i8:
            return T(*reinterpret_cast<const signed char*>(p));
        default:
            return T(*reinterpret_cast<const unsigned char*>(p));
    }
}

template <class T>
__device__ __forceinline__ void store(char* p, Type type, T value) {
    switch (type) {
        case Type::f32:
            *reinterpret_cast<float*>(p) = float(value);
            break;
        case Type::f64:
            *reinterpret_cast<double*>(p) = double(value);
            break;
        case Type::f16:
            *reinterpret_cast<__half*>(p) = __float2half_rn(float(value));
            break;
        case Type::bf16:
            *reinterpret_cast<__nv_bfloat16*>(p) = __float2bfloat16_rn(float(value));
            break;
        case Type::i64:
            *reinterpret_cast<long long*>(p) = static_cast<long long>(value);
            break;
        case Type::i32:
            *reinterpret_cast<int*>(p) = static_cast<int>(static_cast<long long>(value));
            break;
        case Type::i16:
            *reinterpret_cast<short*>(p) = static_cast<short>(static_cast<long long>(value));
            break;
        case Type::i8:
            *reinterpret_cast<signed char*>(p) = static_cast<signed char>(static_cast<long long>(value));
            break;
        case Type::u8:
            *reinterpret_cast<unsigned char*>(p) = static_cast<unsigned char>(static_cast<long long>(value));
            break;
        case Type::boolean:
            *reinterpret_cast<unsigned char*>(p) = value != T(0);
            break;
    }
}

__host__ __device__ inline int size_of(Type type) {
    switch (type) {
        case Type::f64:
        case Type::i64:
            return 8;
        case Type::f32:
        case Type::i32:
            return 4;
        case Type::f16:
        case Type::bf16:
        case Type::i16:
            return 2;
        default:
            return 1;
    }
}

// Same kernels for storage in float, double, half and bfloat16: how one element is read and written, and what is computed in.
template <class S>
struct Storage {
    using Math = S;
    static __device__ __forceinline__ S get(const S* p, long long i) { return p[i]; }
    static __device__ __forceinline__ void put(S* p, long long i, S v) { p[i] = v; }
};
template <>
struct Storage<__half> {
    using Math = float;
    static __device__ __forceinline__ float get(const __half* p, long long i) { return __half2float(p[i]); }
    static __device__ __forceinline__ void put(__half* p, long long i, float v) { p[i] = __float2half_rn(v); }
};
template <>
struct Storage<__nv_bfloat16> {
    using Math = float;
    static __device__ __forceinline__ float get(const __nv_bfloat16* p, long long i) {
        return __bfloat162float(p[i]);
    }
    static __device__ __forceinline__ void put(__nv_bfloat16* p, long long i, float v) {
        p[i] = __float2bfloat16_rn(v);
    }
};

// Sum over a block of 128 threads, given to all of them.
constexpr int kBlock = 128;
template <class T>
__device__ __forceinline__ T block_sum(T value) {
    __shared__ T part[kBlock];
    __syncthreads();
    part[threadIdx.x] = value;
    __syncthreads();
    for (int half = kBlock / 2; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

inline unsigned blocks_for(unsigned long long count, unsigned per_block) {
    return static_cast<unsigned>((count + per_block - 1) / per_block);
}

// Calls `f` with a null pointer of the storage type.
template <class F>
void with_storage(Type type, F f) {
    switch (type) {
        case Type::f32:
            f(static_cast<float*>(nullptr));
            break;
        case Type::f64:
            f(static_cast<double*>(nullptr));
            break;
        case Type::f16:
            f(static_cast<__half*>(nullptr));
            break;
        case Type::bf16:
            f(static_cast<__nv_bfloat16*>(nullptr));
            break;
        default:
            break;
    }
}

}  // namespace ops
