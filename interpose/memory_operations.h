// What memory operations name, on streams and as nodes of graphs, may be polled or written from anywhere at any
// time, so it stays where it is; what they write may be an address.
#pragma once

#include "interpose/driver.h"

namespace swapadvisor {

/// Anything but CUDA_SUCCESS is what the program gets: there is no room for what has to stay.
inline CUresult keep_in_place(Entry entry, CUdeviceptr address) {
    Runtime* runtime = runtime_for(entry);
    return runtime ? runtime->escape(address, "memory operation on a stream") : CUDA_SUCCESS;
}

/// `bytes` of `value` are written: an address, or half of one.
inline CUresult keep_written(Entry entry, CUdeviceptr address, cuuint64_t value, unsigned bytes) {
    if (const CUresult result = keep_in_place(entry, address); result != CUDA_SUCCESS) return result;
    Runtime* runtime = runtime_for(entry);
    return runtime ? runtime->wrote(address, value, bytes) : CUDA_SUCCESS;
}

inline CUresult keep_batch(Entry entry, const CUstreamBatchMemOpParams* params, unsigned count) {
    for (unsigned i = 0; params && i < count; ++i) {
        CUresult result = CUDA_SUCCESS;
        switch (params[i].operation) {
            case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            case CU_STREAM_MEM_OP_WAIT_VALUE_64:
                result = keep_in_place(entry, params[i].waitValue.address);
                break;
            case CU_STREAM_MEM_OP_WRITE_VALUE_32:
                result = keep_written(entry, params[i].writeValue.address, params[i].writeValue.value, 4);
                break;
            case CU_STREAM_MEM_OP_WRITE_VALUE_64:
                result = keep_written(entry, params[i].writeValue.address, params[i].writeValue.value64, 8);
                break;
            default:
                break;
        }
        if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

}  // namespace swapadvisor
