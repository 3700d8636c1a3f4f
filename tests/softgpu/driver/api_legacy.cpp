// First ABIs whose prototype is that of today: plain names that cuda.h maps to a newer one. (Those of the
// 32-bit address ABI cannot name this device's memory; they are absent.)
#include "tests/softgpu/driver/api.h"

#undef cuCtxDestroy
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuMemHostRegister
#undef cuIpcOpenMemHandle
#undef cuLinkCreate
#undef cuLinkAddData
#undef cuLinkAddFile
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp

SOFTCU cuCtxDestroy(CUcontext context) {
    return cuCtxDestroy_v2(context);
}
SOFTCU cuCtxPushCurrent(CUcontext context) {
    return cuCtxPushCurrent_v2(context);
}
SOFTCU cuCtxPopCurrent(CUcontext* context) {
    return cuCtxPopCurrent_v2(context);
}
SOFTCU cuStreamDestroy(CUstream stream) {
    return cuStreamDestroy_v2(stream);
}
SOFTCU cuEventDestroy(CUevent event) {
    return cuEventDestroy_v2(event);
}
SOFTCU cuDevicePrimaryCtxRelease(CUdevice device) {
    return cuDevicePrimaryCtxRelease_v2(device);
}
SOFTCU cuDevicePrimaryCtxReset(CUdevice device) {
    return cuDevicePrimaryCtxReset_v2(device);
}
SOFTCU cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}
SOFTCU cuMemHostRegister(void* p, size_t bytes, unsigned flags) {
    return cuMemHostRegister_v2(p, bytes, flags);
}
SOFTCU cuIpcOpenMemHandle(CUdeviceptr* p, CUipcMemHandle handle, unsigned flags) {
    return cuIpcOpenMemHandle_v2(p, handle, flags);
}
SOFTCU cuLinkCreate(unsigned count, CUjit_option* options, void** values, CUlinkState* state) {
    return cuLinkCreate_v2(count, options, values, state);
}
SOFTCU cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                     unsigned count, CUjit_option* options, void** values) {
    return cuLinkAddData_v2(state, type, data, size, name, count, options, values);
}
SOFTCU cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned count,
                     CUjit_option* options, void** values) {
    return cuLinkAddFile_v2(state, type, path, count, options, values);
}
SOFTCU cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    return cuStreamWaitValue32_v2(stream, address, value, flags);
}
SOFTCU cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    return cuStreamWaitValue64_v2(stream, address, value, flags);
}
SOFTCU cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    return cuStreamWriteValue32_v2(stream, address, value, flags);
}
SOFTCU cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    return cuStreamWriteValue64_v2(stream, address, value, flags);
}
SOFTCU cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* list, unsigned flags) {
    return cuStreamBatchMemOp_v2(stream, count, list, flags);
}
