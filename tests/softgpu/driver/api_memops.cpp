// Streams that wait for, and write, values in memory.
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

CUresult wait(Call& call, CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags, bool wide) {
    CUstreamBatchMemOpParams p{};
    p.operation = wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
    p.waitValue.address = address;
    if (wide)
        p.waitValue.value64 = value;
    else
        p.waitValue.value = static_cast<cuuint32_t>(value);
    p.waitValue.flags = flags;
    return batch(call, stream, {p});
}

CUresult write(Call& call, CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags,
               bool wide) {
    CUstreamBatchMemOpParams p{};
    p.operation = wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
    p.writeValue.address = address;
    if (wide)
        p.writeValue.value64 = value;
    else
        p.writeValue.value = static_cast<cuuint32_t>(value);
    p.writeValue.flags = flags;
    return batch(call, stream, {p});
}

}  // namespace

SOFTCU cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return wait(call, stream, address, value, flags, false);
}

SOFTCU cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return wait(call, stream, address, value, flags, true);
}

SOFTCU cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return write(call, stream, address, value, flags, false);
}

SOFTCU cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return write(call, stream, address, value, flags, true);
}

SOFTCU cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams* list,
                             unsigned flags) {
    SOFTGPU_CALL(kContext);
    if (!list || count == 0 || count > 256 || flags) return CUDA_ERROR_INVALID_VALUE;
    return batch(call, stream, {list, list + count});
}

#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp
SOFTCU cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return wait(call, stream, address, value, flags, false);
}

SOFTCU cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return wait(call, stream, address, value, flags, true);
}

SOFTCU cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return write(call, stream, address, value, flags, false);
}

SOFTCU cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    SOFTGPU_CALL(kContext);
    return write(call, stream, address, value, flags, true);
}

SOFTCU cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* list, unsigned flags) {
    SOFTGPU_CALL(kContext);
    if (!list || count == 0 || count > 256 || flags) return CUDA_ERROR_INVALID_VALUE;
    return batch(call, stream, {list, list + count});
}
