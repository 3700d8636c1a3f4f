// cuGetProcAddress in both ABIs: the driver answers first, and its answer is exchanged for the hook of the
// same symbol.
#include "interpose/driver.h"
#include "interpose/log.h"
#include "interpose/routes.h"

namespace swapadvisor {

namespace {

void exchange(Entry entry, const char* symbol, void** function, int version, cuuint64_t flags,
              const void* caller) {
    void* const real = *function;
    *function = route_proc_address(entry.copy, symbol, version, flags, real);
    if (logging(LogTopic::routes)) [[unlikely]] {
        log_route({"cuGetProcAddress", symbol, version, flags, caller, *function != real});
    }
}

}  // namespace

CUresult hook_cuGetProcAddress(Entry entry, Fn_cuGetProcAddress real, const char* symbol, void** function,
                               int version, cuuint64_t flags, const void* caller) {
    const CUresult result = real(symbol, function, version, flags);
    if (result == CUDA_SUCCESS && symbol && function && *function)
        exchange(entry, symbol, function, version, flags, caller);
    return result;
}

CUresult hook_cuGetProcAddress_v2(Entry entry, Fn_cuGetProcAddress_v2 real, const char* symbol,
                                  void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status, const void* caller) {
    const CUresult result = real(symbol, function, version, flags, status);
    if (result == CUDA_SUCCESS && symbol && function && *function)
        exchange(entry, symbol, function, version, flags, caller);
    return result;
}

}  // namespace swapadvisor
