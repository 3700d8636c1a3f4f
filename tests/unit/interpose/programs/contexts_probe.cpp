// Several contexts and devices, and memory of several kinds: small programs, each named by the first
// argument.
#include <vector>

#include "tests/unit/interpose/programs/case_tools.h"

using namespace case_tools;

namespace {

/// Two contexts on one device, each with more than its share.
void two_contexts() {
    SHOW(cuInit, 0);
    CUcontext contexts[2] = {};
    std::vector<CUdeviceptr> buffers(12);
    for (auto& context : contexts) SHOW(cuCtxCreate, &context, nullptr, 0, 0);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        CU(cuCtxSetCurrent)(contexts[i % 2]);
        SHOW(cuMemAlloc, &buffers[i], kBig);
        SHOW(cuMemsetD8, buffers[i], static_cast<unsigned char>(i + 1), kBig);
    }
    for (int round = 0; round < 2; ++round) {
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            CU(cuCtxSetCurrent)(contexts[i % 2]);
            show("byte", byte_at(buffers[i] + 777));
        }
    }
    for (auto& context : contexts) SHOW(cuCtxDestroy, context);
}

/// Two devices: copies between them, and one reaching into the other's memory.
void peers() {
    CUcontext contexts[2] = {};
    CUdeviceptr memory[2] = {};
    SHOW(cuInit, 0);
    for (int i = 0; i < 2; ++i) {
        SHOW(cuDevicePrimaryCtxRetain, &contexts[i], i);
        SHOW(cuCtxSetCurrent, contexts[i]);
        SHOW(cuMemAlloc, &memory[i], kBig);
        SHOW(cuMemsetD8, memory[i], static_cast<unsigned char>(10 + i), kBig);
    }
    SHOW(cuMemcpyPeer, memory[1], contexts[1], memory[0], contexts[0], kBig / 2);
    show("copied", byte_at(memory[1]));
    show("kept", byte_at(memory[1] + kBig - 1));
    SHOW(cuMemcpyPeerAsync, memory[0], contexts[0], memory[1] + kBig / 2, contexts[1], kBig / 2, nullptr);
    SHOW(cuCtxSynchronize);
    SHOW(cuCtxSetCurrent, contexts[0]);
    show("copied back", byte_at(memory[0]));
    SHOW(cuMemsetD8, memory[0], 99, kBig);
    show("between, by address alone", CU(cuMemcpyDtoD)(memory[1], memory[0], 1000));
    SHOW(cuCtxSetCurrent, contexts[1]);
    show("copied", byte_at(memory[1] + 999));
    SHOW(cuCtxSetCurrent, contexts[0]);
    SHOW(cuCtxEnablePeerAccess, contexts[1], 0);
    SHOW(cuCtxEnablePeerAccess, contexts[1], 0);
    CUdeviceptr other = 0;
    SHOW(cuCtxSetCurrent, contexts[1]);
    SHOW(cuMemAlloc, &other, kBig);
    SHOW(cuCtxSetCurrent, contexts[0]);
    SHOW(cuMemsetD8, other, 77, kBig);
    SHOW(cuCtxSynchronize);
    show("reached in", byte_at(other + 5));
    SHOW(cuMemFree, other);
    // What was there before, also after it had to make room in between.
    SHOW(cuMemsetD8, memory[1], 55, kBig);
    SHOW(cuCtxSynchronize);
    SHOW(cuCtxSetCurrent, contexts[1]);
    show("reached in", byte_at(memory[1] + kBig - 1));
    CUdeviceptr more[2] = {};
    for (CUdeviceptr& one : more) {
        SHOW(cuMemAllocAsync, &one, kBig, nullptr);
        SHOW(cuMemsetD8Async, one, 1, kBig, nullptr);
    }
    SHOW(cuCtxSynchronize);
    SHOW(cuCtxSetCurrent, contexts[0]);
    SHOW(cuMemcpyDtoDAsync, memory[0], memory[1], kBig, nullptr);
    SHOW(cuMemsetD8Async, memory[1], 56, kBig / 2, nullptr);
    SHOW(cuCtxSynchronize);
    show("reached in, came back", byte_at(memory[0] + 9));
    SHOW(cuCtxSetCurrent, contexts[1]);
    show("reached in, came back", byte_at(memory[1] + 9));
    show("reached in, came back", byte_at(memory[1] + kBig - 1));
    for (const CUdeviceptr one : more) SHOW(cuMemFreeAsync, one, nullptr);
    for (int i = 0; i < 2; ++i) SHOW(cuMemFree, memory[i]);
}

/// Contexts that come and go, each with memory of its own that is never freed: more than the device has,
/// together.
void context_cycles() {
    SHOW(cuInit, 0);
    unsigned long long wrong = 0;
    for (unsigned round = 0; round < 12; ++round) {
        CUcontext context = nullptr;
        if (round % 3 == 2) {
            if (CU(cuDevicePrimaryCtxRetain)(&context, 0) != CUDA_SUCCESS) break;
            CU(cuCtxSetCurrent)(context);
        } else if (CU(cuCtxCreate)(&context, nullptr, 0, 0) != CUDA_SUCCESS) {
            break;
        }
        CUdeviceptr p[2] = {}, small = 0;
        for (CUdeviceptr& one : p) {
            wrong += CU(cuMemAlloc)(&one, kBig) != CUDA_SUCCESS;
            CU(cuMemsetD8)(one, static_cast<unsigned char>(round), kBig);
        }
        wrong += CU(cuMemAlloc)(&small, 512) != CUDA_SUCCESS;
        for (const CUdeviceptr one : p) wrong += byte_at(one + 99) != round;
        if (round % 3 == 0) {
            CU(cuCtxDestroy)(context);
        } else if (round % 3 == 1) {
            CUcontext again = nullptr;
            wrong += CU(cuCtxAttach)(&again, 0) != CUDA_SUCCESS || again != context;
            wrong += CU(cuCtxDetach)(context) != CUDA_SUCCESS;
            wrong += byte_at(p[0]) != round;
            wrong += CU(cuCtxDetach)(context) != CUDA_SUCCESS;
        } else {
            CU(cuDevicePrimaryCtxRelease)(0);
        }
        show("address is gone", CU(cuMemsetD8)(p[0], 1, 1) != CUDA_SUCCESS);
    }
    show("wrong", wrong);
}

void managed_memory() {
    use_device();
    CUdeviceptr p[3] = {};
    for (CUdeviceptr& one : p) SHOW(cuMemAllocManaged, &one, kBig, CU_MEM_ATTACH_GLOBAL);
    SHOW(cuMemAllocManaged, nullptr, kBig, CU_MEM_ATTACH_GLOBAL);
    SHOW(cuMemAllocManaged, &p[2], kBig, 99);
    SHOW(cuMemsetD8, p[0], 3, kBig);
    show("byte", byte_at(p[0] + 1));
    SHOW(cuMemFree, p[0]);
    SHOW(cuMemAllocManaged, &p[0], kBig, CU_MEM_ATTACH_GLOBAL);
    for (const CUdeviceptr one : p) SHOW(cuMemFree, one);
}

/// Memory of a pool that another device is let into afterwards.
void opened_pool() {
    CUcontext contexts[2] = {};
    SHOW(cuInit, 0);
    for (int i = 0; i < 2; ++i) SHOW(cuDevicePrimaryCtxRetain, &contexts[i], i);
    SHOW(cuCtxSetCurrent, contexts[0]);
    CUdeviceptr memory = 0;
    SHOW(cuMemAllocAsync, &memory, kBig, nullptr);
    SHOW(cuMemsetD8Async, memory, 11, kBig, nullptr);
    SHOW(cuStreamSynchronize, nullptr);
    CUmemoryPool pool = nullptr;
    SHOW(cuDeviceGetDefaultMemPool, &pool, 0);
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    SHOW(cuMemPoolSetAccess, pool, &access, 1);
    SHOW(cuCtxSetCurrent, contexts[1]);
    SHOW(cuMemsetD8, memory, 22, kBig / 2);
    SHOW(cuCtxSynchronize);
    SHOW(cuCtxSetCurrent, contexts[0]);
    show("reached in", byte_at(memory));
    show("kept", byte_at(memory + kBig - 1));
    SHOW(cuMemFreeAsync, memory, nullptr);
    SHOW(cuCtxSynchronize);
}

const std::map<std::string, void (*)()> kCases = {
    {"two-contexts", two_contexts},     {"peers", peers},
    {"opened-pool", opened_pool},       {"context-cycles", context_cycles},
    {"managed-memory", managed_memory},
};

}  // namespace

int main(int argc, char** argv) {
    return run_case(argc, argv, kCases);
}
