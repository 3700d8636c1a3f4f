// Memory that is not ours: variables of modules come, and whatever goes may not be read by us any more
// (interpose/runtime_hidden.cpp).
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
    if (Runtime* const runtime = runtime_for(entry)) {
        // As for any memory that did not come from cuMemMap; what is mapped there is ours.
        if (runtime->is_managed(address)) return CUDA_ERROR_INVALID_VALUE;
        runtime->foreign_memory_goes(address, bytes);
    }
    return real(address, bytes);
}

namespace {

template <class Code>
CUresult found(Entry entry, CUdeviceptr* address, std::size_t* bytes, Code code, bool managed,
               CUresult result) {
    if (result != CUDA_SUCCESS || address == nullptr || *bytes == 0) return result;
    if (Runtime* const runtime = runtime_for(entry)) runtime->variable_found(code, *address, *bytes, managed);
    return result;
}

}  // namespace

CUresult hook_cuModuleGetGlobal_v2(Entry entry, Fn_cuModuleGetGlobal_v2 real, CUdeviceptr* address,
                                   size_t* bytes, CUmodule module, const char* name) {
    size_t own = 0;  // a program may ask for the address alone
    size_t* const size = bytes != nullptr ? bytes : &own;
    return found(entry, address, size, module, false, real(address, size, module, name));
}

CUresult hook_cuLibraryGetGlobal(Entry entry, Fn_cuLibraryGetGlobal real, CUdeviceptr* address, size_t* bytes,
                                 CUlibrary library, const char* name) {
    size_t own = 0;
    size_t* const size = bytes != nullptr ? bytes : &own;
    return found(entry, address, size, library, false, real(address, size, library, name));
}

CUresult hook_cuLibraryGetManaged(Entry entry, Fn_cuLibraryGetManaged real, CUdeviceptr* address,
                                  size_t* bytes, CUlibrary library, const char* name) {
    size_t own = 0;
    size_t* const size = bytes != nullptr ? bytes : &own;
    return found(entry, address, size, library, true, real(address, size, library, name));
}

}  // namespace swapadvisor
