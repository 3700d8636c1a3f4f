// Libraries of kernels loaded at run time.
#include "api.h"

CUDART_API(cudaLibraryLoadData,
           (cudaLibrary_t * library, const void* code, cudaJitOption* jit, void** jit_values,
            unsigned jit_count, cudaLibraryOption* options, void** values, unsigned count),
           (library, code, jit, jit_values, jit_count, options, values, count)) {
    return cudart::forward(cu.cuLibraryLoadData, library, code, jit, jit_values, jit_count, options, values,
                           count);
}
CUDART_API(cudaLibraryLoadFromFile,
           (cudaLibrary_t * library, const char* file, cudaJitOption* jit, void** jit_values,
            unsigned jit_count, cudaLibraryOption* options, void** values, unsigned count),
           (library, file, jit, jit_values, jit_count, options, values, count)) {
    return cudart::forward(cu.cuLibraryLoadFromFile, library, file, jit, jit_values, jit_count, options,
                           values, count);
}
CUDART_FORWARD(cudaLibraryUnload, cuLibraryUnload, (cudaLibrary_t library), (library))
CUDART_FORWARD(cudaLibraryGetKernel, cuLibraryGetKernel,
               (cudaKernel_t * kernel, cudaLibrary_t library, const char* name), (kernel, library, name))
CUDART_FORWARD(cudaLibraryGetGlobal, cuLibraryGetGlobal,
               (void** address, size_t* bytes, cudaLibrary_t library, const char* name),
               (address, bytes, library, name))
CUDART_FORWARD(cudaLibraryGetManaged, cuLibraryGetManaged,
               (void** address, size_t* bytes, cudaLibrary_t library, const char* name),
               (address, bytes, library, name))
CUDART_FORWARD(cudaLibraryGetUnifiedFunction, cuLibraryGetUnifiedFunction,
               (void** function, cudaLibrary_t library, const char* name), (function, library, name))
CUDART_FORWARD(cudaLibraryGetKernelCount, cuLibraryGetKernelCount, (unsigned* count, cudaLibrary_t library),
               (count, library))
CUDART_FORWARD(cudaLibraryEnumerateKernels, cuLibraryEnumerateKernels,
               (cudaKernel_t * kernels, unsigned count, cudaLibrary_t library), (kernels, count, library))
CUDART_API(cudaKernelSetAttributeForDevice,
           (cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int device),
           (kernel, attribute, value, device)) {
    return cudart::forward(cu.cuKernelSetAttribute, attribute, value, kernel, device);
}
