// Tables that generate_tables.py writes from the toolkit's headers.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace softgpu {

struct ProcEntry {
    const char* name;    ///< as asked of cuGetProcAddress
    int version;         ///< lowest CUDA version with this ABI
    bool per_thread;     ///< the _ptsz/_ptds flavour
    const char* symbol;  ///< exported name
    void* address;
};
extern const ProcEntry kProcTable[];
extern const std::size_t kProcTableSize;

struct ErrorEntry {
    CUresult value;
    const char* name;
};
extern const ErrorEntry kErrorTable[];
extern const std::size_t kErrorTableSize;

}  // namespace softgpu
