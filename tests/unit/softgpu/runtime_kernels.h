// What runtime_kernels.cu offers to the tests.
#pragma once

#include <cuda_runtime.h>

void launch_fill(int* out, int value, unsigned count, cudaStream_t stream = nullptr);  // out[i] = value + i
void launch_fill_configured(int* out, dim3 grid, dim3 block);
void launch_scale(const float* in, float* out, unsigned count);  // times the constant table
void launch_bump();                                              // ++counter, shared_value *= 2
void launch_write_to(int* address);
void launch_stop();
void launch_dynamic(int* out, unsigned threads);  // reverses 0..threads-1 through dynamic shared memory

const void* fill_stub();
const void* dynamic_stub();
const void* counter_symbol();
const void* table_symbol();
int read_shared_value();  // by the host
