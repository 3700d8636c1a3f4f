// Error names, texts and the last-error state of each thread.
#include <string>

#include "api.h"
#include "error_table.h"

namespace cudart {

namespace {

thread_local cudaError_t last = cudaSuccess;

// Errors after which the context is lost: every call fails until cudaDeviceReset, and the last error stays.
bool sticky(cudaError_t e) {
    switch (e) {
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchTimeout:
        case cudaErrorAssert:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorLaunchFailure:
        case cudaErrorECCUncorrectable:
            return true;
        default:
            return false;
    }
}

const ErrorText* find(cudaError_t error) {
    for (const auto& entry : kErrorTexts)
        if (entry.error == error) return &entry;
    return nullptr;
}

}  // namespace

cudaError_t remember(cudaError_t error) {
    if (error != cudaSuccess) last = error;
    return error;
}

cudaError_t last_error(bool clear) {
    const cudaError_t e = last;
    // A sticky error is reported again by whatever call comes next, so forgetting it here is not forgetting
    // it.
    if (clear && !sticky(e)) last = cudaSuccess;
    return e;
}

void forget_last_error() {
    last = cudaSuccess;
}

}  // namespace cudart

using namespace cudart;

CUDART_EXPORT cudaError_t cudaGetLastError() {
    return last_error(true);
}
CUDART_EXPORT cudaError_t cudaPeekAtLastError() {
    return last_error(false);
}
CUDART_EXPORT const char* cudaGetErrorName(cudaError_t error) {
    const auto* entry = find(error);
    return entry ? entry->name : "unrecognized error code";
}
CUDART_EXPORT const char* cudaGetErrorString(cudaError_t error) {
    const auto* entry = find(error);
    return entry ? entry->text : "unrecognized error code";
}
