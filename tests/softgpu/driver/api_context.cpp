// Contexts: stack, limits, synchronisation, peers.
#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/capture.h"

using namespace softgpu;

namespace {

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= options().devices) return CUDA_ERROR_INVALID_DEVICE;
    CUctx_st* context = make_context(device, flags, false);
    thread_state().contexts.push_back(context);
    *out = context;
    return CUDA_SUCCESS;
}

CUresult destroy(Call& call, CUcontext context) {
    if (driver().kind(context) != Kind::context || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    wait_for_context(call.lock(), context);
    destroy_context(context);
    return CUDA_SUCCESS;
}

CUresult push(CUcontext context) {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (driver().kind(context) != Kind::context) return CUDA_ERROR_INVALID_CONTEXT;
    thread_state().contexts.push_back(context);
    return CUDA_SUCCESS;
}

CUresult pop(CUcontext* out) {
    auto& stack = thread_state().contexts;
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (out) *out = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
}

CUresult synchronise(Call& call, CUctx_st* context) {
    for (const StreamRef& stream : context->streams)
        if (stream->capture) {
            stream->capture->invalidate();
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return wait_for_context(call.lock(), context);
}

}  // namespace

SOFTCU cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    return create(context, flags, device);
}

SOFTCU cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int count, unsigned flags, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (count != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(context, flags, device);
}

SOFTCU cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params, unsigned flags, CUdevice device) {
    SOFTGPU_CALL(kPlain);
    if (params && params->numExecAffinityParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(context, flags, device);
}

SOFTCU cuCtxDestroy_v2(CUcontext context) {
    SOFTGPU_CALL(kPlain);
    return destroy(call, context);
}

SOFTCU cuCtxAttach(CUcontext* context, unsigned flags) {
    SOFTGPU_CALL(kContext);
    if (!context || flags) return CUDA_ERROR_INVALID_VALUE;
    ++call.context()->attached;
    *context = call.context();
    return CUDA_SUCCESS;
}

SOFTCU cuCtxDetach(CUcontext context) {
    SOFTGPU_CALL(kPlain);
    if (driver().kind(context) != Kind::context || context->primary || context != current_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    return --context->attached != 0 ? CUDA_SUCCESS : destroy(call, context);
}

SOFTCU cuCtxPushCurrent_v2(CUcontext context) {
    SOFTGPU_CALL(kFree);
    return push(context);
}

SOFTCU cuCtxPopCurrent_v2(CUcontext* context) {
    SOFTGPU_CALL(kFree);
    return pop(context);
}

SOFTCU cuCtxSetCurrent(CUcontext context) {
    SOFTGPU_CALL(kFree);
    auto& stack = thread_state().contexts;
    if (context && driver().kind(context) != Kind::context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(context);
    return CUDA_SUCCESS;
}

SOFTCU cuCtxGetCurrent(CUcontext* context) {
    SOFTGPU_CALL(kFree);
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = current_context();
    return CUDA_SUCCESS;
}

SOFTCU cuCtxGetDevice(CUdevice* device) {
    SOFTGPU_CALL(kFree | kContext | kIgnoresError);
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = call.context()->device;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
    SOFTGPU_CALL(kFree);
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!context) context = current_context();
    if (driver().kind(context) != Kind::context) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxGetFlags(unsigned* flags) {
    SOFTGPU_CALL(kFree | kContext);
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = call.context()->flags;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxSetFlags(unsigned flags) {
    SOFTGPU_CALL(kContext);
    call.context()->flags = flags;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxGetId(CUcontext context, unsigned long long* id) {
    SOFTGPU_CALL(kFree);
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    if (!context) context = current_context();
    if (driver().kind(context) != Kind::context) return CUDA_ERROR_INVALID_CONTEXT;
    *id = context->id;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxGetApiVersion(CUcontext context, unsigned* version) {
    SOFTGPU_CALL(kFree);
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    if (!context) context = current_context();
    if (driver().kind(context) != Kind::context) return CUDA_ERROR_INVALID_CONTEXT;
    *version = context->api_version;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxSynchronize(void) {
    SOFTGPU_CALL(kContext | kUnsafe);
    return synchronise(call, call.context());
}

SOFTCU cuCtxSynchronize_v2(CUcontext context) {
    SOFTGPU_CALL(kPlain | kUnsafe);
    if (!context) context = current_context();
    if (driver().kind(context) != Kind::context) return CUDA_ERROR_INVALID_CONTEXT;
    return synchronise(call, context);
}

SOFTCU cuCtxSetLimit(CUlimit limit, size_t value) {
    SOFTGPU_CALL(kContext);
    if (limit == CU_LIMIT_SHMEM_SIZE || limit == CU_LIMIT_CIG_ENABLED ||
        limit == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
    call.context()->limits[limit] = value;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxGetLimit(size_t* value, CUlimit limit) {
    SOFTGPU_CALL(kContext);
    if (!value || limit < 0 || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
    const auto it = call.context()->limits.find(limit);
    if (it == call.context()->limits.end()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = it->second;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxGetCacheConfig(CUfunc_cache* config) {
    SOFTGPU_CALL(kContext);
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *config = call.context()->cache_config;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxSetCacheConfig(CUfunc_cache config) {
    SOFTGPU_CALL(kContext);
    call.context()->cache_config = config;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxGetSharedMemConfig(CUsharedconfig* config) {
    SOFTGPU_CALL(kContext);
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxSetSharedMemConfig(CUsharedconfig) {
    SOFTGPU_CALL(kContext);
    return CUDA_SUCCESS;
}

SOFTCU cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    SOFTGPU_CALL(kContext);
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxResetPersistingL2Cache(void) {
    SOFTGPU_CALL(kContext);
    return CUDA_SUCCESS;
}

SOFTCU cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    SOFTGPU_CALL(kContext);
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(peer) != Kind::context || peer == call.context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (peer->device == call.context()->device) return CUDA_ERROR_INVALID_DEVICE;
    if (!call.context()->peers.insert(peer->device).second) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    for (auto& [begin, span] : driver().memory.spans())
        if (span.context == peer && (span.kind == SpanKind::device || span.kind == SpanKind::global))
            span.access[static_cast<std::size_t>(call.context()->device)] = kReadWrite;
    return CUDA_SUCCESS;
}

SOFTCU cuCtxDisablePeerAccess(CUcontext peer) {
    SOFTGPU_CALL(kContext);
    if (driver().kind(peer) != Kind::context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!call.context()->peers.erase(peer->device)) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    for (auto& [begin, span] : driver().memory.spans())
        if (span.context == peer && (span.kind == SpanKind::device || span.kind == SpanKind::global))
            span.access[static_cast<std::size_t>(call.context()->device)] = kNoAccess;
    return CUDA_SUCCESS;
}
