// Launchers of random.cu: numbers from PyTorch's generator state (Philox 4x32, 10 rounds): element i is number i of the stream at
// the state's offset.
#pragma once
#include "launch.h"

namespace ops {
enum class Random : int32_t { uniform, normal, bernoulli, exponential, whole, log_normal, geometric };
// Dense output. uniform: a <= x < b; normal: mean a, deviation b; bernoulli: with probability a, or `p` (dense, of type p_type);
// exponential: rate a; whole: base + x % range (range 0: all 64 bits).
void launch_random(Random kind, uint32_t count, void* out, Type type, const RandomState& state, double a,
                   double b, const void* p, Type p_type, unsigned long long range, long long base,
                   cudaStream_t stream);
// y = x * mask / keep, mask = (number < keep).
void launch_dropout(Type type, uint32_t count, const void* x, void* y, unsigned char* mask, double keep,
                    const RandomState& state, cudaStream_t stream);
}  // namespace ops
