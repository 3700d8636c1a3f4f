// What nvcc's constructors register: fat binaries, and the host addresses that stand for kernels and
// variables.
#pragma once

#include "api.h"

namespace cudart {

/// The driver's handle of a kernel: from the address of its host stub (loads its image on first use), or a
/// cudaKernel_t/cudaFunction_t passed through.
cudaError_t find_kernel(const void* stub_or_handle, CUkernel* kernel);
/// The same as a function of the current context, for the calls that ask or set attributes.
cudaError_t find_function(const void* stub_or_handle, CUfunction* function);
/// True when `stub` was registered by nvcc's code.
bool is_stub(const void* stub);

struct SymbolSpan {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
};
/// The device memory behind a __device__, __constant__ or __managed__ variable.
cudaError_t find_symbol(const void* symbol, SymbolSpan* span);

}  // namespace cudart
