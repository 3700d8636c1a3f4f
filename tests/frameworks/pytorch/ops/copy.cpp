// Copies on the device. Those to and from the host, and between devices, stay PyTorch's.
#include <ATen/native/Copy.h>

#include "elementwise.h"
#include "host.h"

namespace ops {
namespace {
at::native::copy_fn pytorchs_copy;

void copy(at::TensorIterator& it, bool non_blocking) {
    if (!it.numel()) return;
    const auto to = it.device(0), from = it.device(1);
    if (!to.is_cuda() || to != from || at::isComplexType(it.dtype(0)) || at::isComplexType(it.dtype(1)))
        return pytorchs_copy(it, non_blocking);
    const c10::cuda::CUDAGuard guard(to);
    if (it.dtype(0) == it.dtype(1)) {
        if (it.is_contiguous()) {
            if (it.data_ptr(0) != it.data_ptr(1))
                C10_CUDA_CHECK(cudaMemcpyAsync(it.data_ptr(0), it.data_ptr(1),
                                               it.numel() * it.element_size(0), cudaMemcpyDeviceToDevice,
                                               stream()));
            return;
        }
        if (!it.can_use_32bit_indexing()) {
            for (auto& part : it.with_32bit_indexing()) launch_move(iteration_of(part), stream());
        } else {
            launch_move(iteration_of(it), stream());
        }
        C10_CUDA_CHECK(cudaGetLastError());
        return;
    }
    const bool whole = at::isIntegralType(it.dtype(0), true) && at::isIntegralType(it.dtype(1), true);
    const bool exact = at::isIntegralType(it.dtype(0), true) != at::isIntegralType(it.dtype(1), true);
    run_elementwise(op_copy,
                    whole   ? at::kLong
                    : exact ? at::kDouble
                            : at::promoteTypes(it.dtype(0), it.dtype(1)),
                    it);
}
}  // namespace

void register_copy() {
    // The stub's first member holds what is registered for each kind of device.
    pytorchs_copy = reinterpret_cast<at::native::copy_fn>(
        reinterpret_cast<at::native::DispatchStubImpl*>(&at::native::copy_stub)->cuda_dispatch_ptr);
    at::native::copy_stub.set_cuda_dispatch_ptr(copy);
}
}  // namespace ops
