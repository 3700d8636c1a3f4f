// Ends of contexts, modules and streams: what the runtime holds in them has to go first.
#include "interpose/left_to_driver.h"
#include "interpose/log.h"
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

/// The primary context of `device` if it is active, without making it so.
CUcontext primary_context(CUdevice device) {
    using GetState = CUresult(CUDAAPI*)(CUdevice, unsigned*, int*);
    using Retain = CUresult(CUDAAPI*)(CUcontext*, CUdevice);
    using Release = CUresult(CUDAAPI*)(CUdevice);
    const auto get_state =
        reinterpret_cast<GetState>(real_symbol(managed_copy(), "cuDevicePrimaryCtxGetState"));
    const auto retain = reinterpret_cast<Retain>(real_symbol(managed_copy(), "cuDevicePrimaryCtxRetain"));
    const auto release =
        reinterpret_cast<Release>(real_symbol(managed_copy(), "cuDevicePrimaryCtxRelease_v2"));
    unsigned flags = 0;
    int active = 0;
    CUcontext context = nullptr;
    if (!get_state || !retain || !release || get_state(device, &flags, &active) != CUDA_SUCCESS || !active)
        return nullptr;
    if (retain(&context, device) != CUDA_SUCCESS) return nullptr;
    release(device);
    return context;
}

template <class Call>
CUresult end_context(Entry entry, CUcontext context, Call call) {
    Runtime* runtime = context ? runtime_for(entry) : nullptr;
    if (!runtime) return call();
    runtime->context_going(context);
    const CUresult result = call();
    if (result == CUDA_SUCCESS) runtime->context_gone(context);
    return result;
}

}  // namespace

/// What one device's kernels reach of another's memory is the driver's from here on; what is managed already
/// stays so, and is opened to the other device.
CUresult hook_cuCtxEnablePeerAccess(Entry entry, Fn_cuCtxEnablePeerAccess real, CUcontext peer,
                                    unsigned flags) {
    const CUresult result = real(peer, flags);
    if (Runtime* runtime = result == CUDA_SUCCESS ? runtime_for(entry) : nullptr) {
        runtime->peer_reaches_in(peer, peers_reach_in());
        if (first_time(reinterpret_cast<std::uintptr_t>(&peers_reach_in))) {
            say("devices reach into each other's memory (cuCtxEnablePeerAccess): new allocations are not "
                "managed");
        }
    }
    return result;
}

CUresult hook_cuStreamDestroy(Entry entry, Fn_cuStreamDestroy real, CUstream stream) {
    if (Runtime* runtime = stream ? runtime_for(entry) : nullptr) runtime->stream_destroyed(stream);
    return real(stream);
}

CUresult hook_cuModuleUnload(Entry entry, Fn_cuModuleUnload real, CUmodule module) {
    if (Runtime* runtime = module ? runtime_for(entry) : nullptr) {
        runtime->function_unloaded(module);
        runtime->variables_go(module);
    }
    return real(module);
}

CUresult hook_cuLibraryUnload(Entry entry, Fn_cuLibraryUnload real, CUlibrary library) {
    if (Runtime* runtime = library ? runtime_for(entry) : nullptr) {
        runtime->function_unloaded(nullptr);
        runtime->variables_go(library);
    }
    return real(library);
}

CUresult hook_cuCtxDestroy(Entry entry, Fn_cuCtxDestroy real, CUcontext context) {
    return end_context(entry, context, [&] { return real(context); });
}

/// Old programs count a context's uses; the last detach destroys it. Only what they attach is counted here.
CUresult hook_cuCtxAttach(Entry entry, Fn_cuCtxAttach real, CUcontext* context, unsigned flags) {
    const CUresult result = real(context, flags);
    if (result == CUDA_SUCCESS && context) {
        if (Runtime* runtime = runtime_for(entry)) runtime->context_attached(*context);
    }
    return result;
}

CUresult hook_cuCtxDetach(Entry entry, Fn_cuCtxDetach real, CUcontext context) {
    const CUresult result = real(context);
    Runtime* runtime = result == CUDA_SUCCESS ? runtime_for(entry) : nullptr;
    if (runtime && runtime->context_detached(context)) {
        runtime->context_going(context);
        runtime->context_gone(context);
    }
    return result;
}

/// Such a context shares its device's memory and may end before it: what is allocated there stays the
/// driver's.
CUresult hook_cuCtxFromGreenCtx(Entry entry, Fn_cuCtxFromGreenCtx real, CUcontext* context,
                                CUgreenCtx green) {
    const CUresult result = real(context, green);
    if (result == CUDA_SUCCESS && context) {
        if (Runtime* runtime = runtime_for(entry)) runtime->leave_context(*context, "a green context");
    }
    return result;
}

CUresult hook_cuDevicePrimaryCtxReset(Entry entry, Fn_cuDevicePrimaryCtxReset real, CUdevice device) {
    return end_context(entry, runtime_for(entry) ? primary_context(device) : nullptr,
                       [&] { return real(device); });
}

/// A release ends the context only if it is the last, which only shows afterwards.
CUresult hook_cuDevicePrimaryCtxRelease(Entry entry, Fn_cuDevicePrimaryCtxRelease real, CUdevice device) {
    Runtime* runtime = runtime_for(entry);
    const CUcontext context = runtime ? primary_context(device) : nullptr;
    const CUresult result = real(device);
    if (context && result == CUDA_SUCCESS && !primary_context(device)) {
        runtime->context_going(context);
        runtime->context_gone(context);
    }
    return result;
}

}  // namespace swapadvisor
