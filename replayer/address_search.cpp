#include "replayer/address_search.h"

#include <bit>
#include <cstring>

#include "replayer/address_search_kernels.h"

namespace swapadvisor {
namespace {
constexpr unsigned kThreads = 256;
constexpr std::uint64_t kBytesPerThread = 64;
// Enough to keep the memory busy, and few enough to leave room beside the program's kernels.
constexpr std::uint64_t kMostBlocks = 256;
constexpr std::uint64_t kMostBits = 1 << 19;  // 64 KiB; a terabyte in granules of 2 MiB
}  // namespace

std::unique_ptr<AddressSearch> AddressSearch::open(const DriverApi& api) {
    if (api.cuModuleLoadData_ == nullptr || api.cuModuleGetFunction_ == nullptr ||
        api.cuLaunchKernel_ == nullptr)
        return nullptr;
    std::unique_ptr<AddressSearch> self(new AddressSearch(api));
    CUmodule module = nullptr;
    void* found = nullptr;
    if (api.cuModuleLoadData_(&module, kAddressSearchKernels) != CUDA_SUCCESS ||
        api.cuModuleGetFunction_(&self->find_, module, "find") != CUDA_SUCCESS ||
        api.cuMemHostAlloc_(&found, kMostBits / 8, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) !=
            CUDA_SUCCESS)
        return nullptr;
    self->found_ = static_cast<std::uint32_t*>(found);
    return self;
}

void AddressSearch::start(std::uint64_t low, std::uint64_t high, std::uint64_t granule_bytes) {
    words_ = 0;
    if (high <= low) return;
    low_ = low;
    span_ = high - low;
    shift_ = static_cast<unsigned>(std::bit_width(granule_bytes) - 1);
    while ((span_ - 1) >> shift_ >= kMostBits) ++shift_;
    words_ = ((span_ - 1) >> shift_) / 32 + 1;
    std::memset(found_, 0, words_ * 4);
}

CUresult AddressSearch::look_through(CUdeviceptr address, std::uint64_t bytes, CUstream stream) {
    std::uint64_t skipped = address % 16;
    address -= skipped;
    bytes = (bytes + skipped) / 4 * 4;
    if (bytes == 0 || words_ == 0) return CUDA_SUCCESS;
    auto found = reinterpret_cast<CUdeviceptr>(found_);  // one address for all, host and device
    const auto blocks = static_cast<unsigned>(
        std::clamp<std::uint64_t>(bytes / (kThreads * kBytesPerThread), 1, kMostBlocks));
    void* arguments[] = {&address, &bytes, &low_, &span_, &shift_, &found};
    return api_.cuLaunchKernel_(find_, blocks, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr);
}

}  // namespace swapadvisor
