// Kernels and variables for the tests of the software runtime, built by nvcc as any program's.
#include "runtime_kernels.h"

__device__ int counter = 7;
__constant__ float table[4] = {1, 2, 3, 4};
__managed__ int shared_value = 42;

namespace {

__global__ void fill(int* out, int value, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = value + static_cast<int>(i);
}
__global__ void scale_by_table(const float* in, float* out, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i] * table[i % 4];
}
__global__ void bump() {
    counter += 1;
    shared_value *= 2;
}
__global__ void write_to(int* address) {
    *address = 1;
}
__global__ void stop() {
    __trap();
}
__global__ void __launch_bounds__(64) dynamic_shared(int* out) {
    extern __shared__ int buffer[];
    buffer[threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}

}  // namespace

void launch_fill(int* out, int value, unsigned count, cudaStream_t stream) {
    fill<<<(count + 63) / 64, 64, 0, stream>>>(out, value, count);
}
void launch_fill_configured(int* out, dim3 grid, dim3 block) {
    fill<<<grid, block>>>(out, 0, 1);
}
void launch_scale(const float* in, float* out, unsigned count) {
    scale_by_table<<<1, count>>>(in, out, count);
}
void launch_bump() {
    bump<<<1, 1>>>();
}
void launch_write_to(int* address) {
    write_to<<<1, 1>>>(address);
}
void launch_stop() {
    stop<<<1, 1>>>();
}
void launch_dynamic(int* out, unsigned threads) {
    dynamic_shared<<<1, threads, threads * sizeof(int)>>>(out);
}

const void* fill_stub() {
    return reinterpret_cast<const void*>(fill);
}
const void* dynamic_stub() {
    return reinterpret_cast<const void*>(dynamic_shared);
}
const void* counter_symbol() {
    return &counter;
}
const void* table_symbol() {
    return table;
}
int read_shared_value() {
    return shared_value;
}
