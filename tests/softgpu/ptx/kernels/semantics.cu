#include "semantics.h"

// All functions in one kernel with the choice at run time: lanes of a warp diverge into all of them.
extern "C" __global__ void mixed(const semantics::Input* in, unsigned long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * semantics::kFunctions)
        out[i] = semantics::call(i % semantics::kFunctions, in[i / semantics::kFunctions]);
}
