#include "replayer/address_search.h"

#include <bit>
#include <cstring>

#include "replayer/address_search_kernels.h"

namespace swapadvisor {
namespace {
constexpr unsigned kThreads = 256;
constexpr std::uint64_t kChunk = kThreads * 64;  // what a block looks through, at least
constexpr std::uint64_t kMostBlocks = 4096;      // and one more for each span
constexpr std::size_t kFirstRoom = 1024;
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
    spans_.clear();
    if (high <= low) return;
    low_ = low;
    span_ = high - low;
    shift_ = static_cast<unsigned>(std::bit_width(granule_bytes) - 1);
    while ((span_ - 1) >> shift_ >= kMostBits) ++shift_;
    words_ = ((span_ - 1) >> shift_) / 32 + 1;
    std::memset(found_, 0, words_ * 4);
}

void AddressSearch::add(CUdeviceptr address, std::uint64_t bytes) {
    const std::uint64_t skipped = address % 16;
    bytes = (bytes + skipped) / 4 * 4;
    if (bytes != 0) spans_.push_back({address - skipped, bytes});
}

CUresult AddressSearch::issue(CUstream stream) {
    if (spans_.empty() || words_ == 0) return CUDA_SUCCESS;
    std::uint64_t all = 0;
    for (const Chunk& span : spans_) all += span.bytes;
    const std::uint64_t step = std::max(kChunk, all / kMostBlocks / 16 * 16);
    std::size_t needed = 0;
    for (const Chunk& span : spans_) needed += (span.bytes + step - 1) / step;
    if (needed > room_) {
        if (chunks_ != nullptr) api_.cuMemFreeHost_(chunks_);
        chunks_ = nullptr;
        room_ = 0;
        void* fresh = nullptr;
        const std::size_t room = std::max(needed + needed / 2, kFirstRoom);
        if (const CUresult result = api_.cuMemHostAlloc_(
                &fresh, room * sizeof(Chunk), CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
            result != CUDA_SUCCESS)
            return result;
        chunks_ = static_cast<Chunk*>(fresh);
        room_ = room;
    }
    std::size_t count = 0;
    for (const Chunk& span : spans_)
        for (std::uint64_t at = 0; at < span.bytes; at += step)
            // With the half of a word that begins in this one's last bytes.
            chunks_[count++] = {span.address + at, std::min(step + 4, span.bytes - at)};
    // One address for all, host and device.
    auto chunks = reinterpret_cast<CUdeviceptr>(chunks_), found = reinterpret_cast<CUdeviceptr>(found_);
    void* arguments[] = {&chunks, &low_, &span_, &shift_, &found};
    return api_.cuLaunchKernel_(find_, static_cast<unsigned>(count), 1, 1, kThreads, 1, 1, 0, stream,
                                arguments, nullptr);
}

}  // namespace swapadvisor
