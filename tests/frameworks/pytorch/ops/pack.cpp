// Loaded into PyTorch (torch.ops.load_library): sets the dispatch stubs; what is registered with the dispatcher registers itself.
#include <ATen/Context.h>

namespace ops {
void register_elementwise();
void register_reduce();
void register_normalize();
void register_index();
void register_random();
void register_copy();

namespace {
const bool registered = [] {
    register_elementwise();
    register_reduce();
    register_normalize();
    register_index();
    register_random();
    register_copy();
    // Closed libraries and fused attention are not here: PyTorch's own switches say so.
    at::globalContext().setUserEnabledCuDNN(false);
    at::globalContext().setSDPUseFlash(false);
    at::globalContext().setSDPUseMemEfficient(false);
    at::globalContext().setSDPUseCuDNN(false);
    return true;
}();
}  // namespace
}  // namespace ops
