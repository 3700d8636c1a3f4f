// Copies described the runtime's way, turned into the driver's descriptors (also used by graph nodes).
#pragma once

#include "registry.h"

namespace cudart {

cudaError_t driver_copy(const cudaMemcpy3DParms& in, CUDA_MEMCPY3D* out);
void runtime_copy(const CUDA_MEMCPY3D& in, cudaMemcpy3DParms* out);
/// A linear copy as a one-row descriptor.
cudaError_t linear_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, CUDA_MEMCPY3D* out);
/// The part of a symbol that a copy touches, bounds checked.
cudaError_t symbol_part(const void* symbol, size_t offset, size_t bytes, void** address);

}  // namespace cudart
