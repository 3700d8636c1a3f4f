#include "replayer/content_hash.h"

#include <algorithm>

#include "replayer/content_kernels.h"

namespace swapadvisor {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint64_t kBytesPerThread = 64;
// Enough to keep the memory busy, and few enough to leave room beside the program's kernels.
constexpr std::uint64_t kMostBlocks = 256;
// The bus is slower by far.
constexpr std::uint64_t kMostCopyBlocks = 16;

unsigned blocks(std::uint64_t bytes, std::uint64_t most) {
    return static_cast<unsigned>(std::clamp<std::uint64_t>(bytes / (kThreads * kBytesPerThread), 1, most));
}

bool has(const DriverApi& api, CUdevice device, CUdevice_attribute attribute) {
    int value = 0;
    return api.cuDeviceGetAttribute_(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

}  // namespace

std::shared_ptr<const ContentHash> ContentHash::load(const DriverApi& api, CUdevice device) {
    if (api.cuModuleLoadData_ == nullptr || api.cuModuleGetFunction_ == nullptr ||
        api.cuLaunchKernel_ == nullptr || !has(api, device, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) ||
        !has(api, device, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY))
        return nullptr;
    std::shared_ptr<ContentHash> self(new ContentHash(api));
    // The module goes with the context.
    CUmodule module = nullptr;
    if (api.cuModuleLoadData_(&module, kContentKernels) != CUDA_SUCCESS ||
        api.cuModuleGetFunction_(&self->hash_, module, "hash") != CUDA_SUCCESS ||
        api.cuModuleGetFunction_(&self->copy_, module, "copy_if_changed") != CUDA_SUCCESS)
        return nullptr;
    return self;
}

CUresult ContentHash::hash(CUdeviceptr data, std::uint64_t bytes, CUdeviceptr sum, CUstream stream) const {
    if (CUresult result = api_.cuMemsetD8Async_(sum, 0, kBytes, stream); result != CUDA_SUCCESS)
        return result;
    void* arguments[] = {&data, &bytes, &sum};
    return api_.cuLaunchKernel_(hash_, blocks(bytes, kMostBlocks), 1, 1, kThreads, 1, 1, 0, stream, arguments,
                                nullptr);
}

CUresult ContentHash::copy_if_changed(CUdeviceptr from, std::byte* to, std::uint64_t bytes,
                                      CUdeviceptr before, CUdeviceptr now, volatile std::uint32_t* flag,
                                      CUstream stream) const {
    void* arguments[] = {&from, &to, &bytes, &before, &now, &flag};
    return api_.cuLaunchKernel_(copy_, blocks(bytes, kMostCopyBlocks), 1, 1, kThreads, 1, 1, 0, stream,
                                arguments, nullptr);
}

}  // namespace swapadvisor
