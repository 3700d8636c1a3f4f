// Launchers of elementwise.cu. Operand 0 of an iteration is the output; any operand may be broadcast or strided.
#pragma once
#include "elementwise_ops.h"
#include "launch.h"

namespace ops {
void launch_elementwise(int op, Compute compute, const Iteration& iteration, const Numbers& numbers,
                        cudaStream_t stream);
// Operand 0 gets the elements of operand 1, of the same size, unchanged.
void launch_move(const Iteration& iteration, cudaStream_t stream);
}  // namespace ops
