// Memory that is not ours goes: nothing of ours may read it any more (interpose/runtime_hidden.cpp).
#include "interpose/op_call.h"

namespace swapadvisor {

CUresult hook_cuMemFreeHost(Entry entry, Fn_cuMemFreeHost real, void* memory) {
    if (Runtime* const runtime = runtime_for(entry))
        runtime->foreign_memory_goes(reinterpret_cast<CUdeviceptr>(memory), 0);
    return real(memory);
}

CUresult hook_cuMemHostUnregister(Entry entry, Fn_cuMemHostUnregister real, void* memory) {
    if (Runtime* const runtime = runtime_for(entry))
        runtime->foreign_memory_goes(reinterpret_cast<CUdeviceptr>(memory), 0);
    return real(memory);
}

CUresult hook_cuMemUnmap(Entry entry, Fn_cuMemUnmap real, CUdeviceptr address, size_t bytes) {
    if (Runtime* const runtime = runtime_for(entry)) runtime->foreign_memory_goes(address, bytes);
    return real(address, bytes);
}

}  // namespace swapadvisor
