// Streams that wait for, and write, values in memory.
#include <cstddef>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/capture.h"

using namespace softgpu;

namespace {

CUresult batch(Call& call, CUstream handle, std::vector<CUstreamBatchMemOpParams> list) {
    const StreamRef stream = resolve_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    for (const CUstreamBatchMemOpParams& p : list) {
        const bool wait =
            p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        const bool write =
            p.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 || p.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        if (wait && (p.waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)) return CUDA_ERROR_NOT_SUPPORTED;
        if (!wait && !write && p.operation != CU_STREAM_MEM_OP_BARRIER) return CUDA_ERROR_NOT_SUPPORTED;
    }
    return submit(call, stream, BatchWork{std::move(list)});
}

/// waitValue and writeValue are laid out alike: only the operation tells them apart.
CUresult one(Call& call, CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address,
             cuuint64_t value, unsigned flags) {
    CUstreamBatchMemOpParams p{};
    p.operation = operation;
    p.waitValue.address = address;
    if (operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
        p.waitValue.value64 = value;
    else
        p.waitValue.value = static_cast<cuuint32_t>(value);
    p.waitValue.flags = flags;
    return batch(call, stream, {p});
}

static_assert(offsetof(CUstreamBatchMemOpParams, waitValue.flags) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.flags));
static_assert(offsetof(CUstreamBatchMemOpParams, waitValue.value64) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.value64));

}  // namespace

SOFTCU cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return one(call, stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}

SOFTCU cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return one(call, stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}

SOFTCU cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return one(call, stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

SOFTCU cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return one(call, stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}

SOFTCU cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams* list,
                             unsigned flags) {
    SOFTGPU_CALL(kContext);
    if (!list || count == 0 || count > 256 || flags) return CUDA_ERROR_INVALID_VALUE;
    return batch(call, stream, {list, list + count});
}
