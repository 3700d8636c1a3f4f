#include "replayer/content_check.h"

#include <algorithm>

namespace swapadvisor {
namespace {
constexpr std::size_t kMostTensors = 1 << 14;  // half a megabyte of device memory
}

std::unique_ptr<ContentCheck> ContentCheck::open(const DriverApi& api, CUdevice device) {
    auto hash = ContentHash::load(api, device);
    if (!hash) return nullptr;
    std::unique_ptr<ContentCheck> self(new ContentCheck(api));
    self->hash_ = std::move(hash);
    void* flags = nullptr;
    if (api.cuMemAlloc_(&self->hashes_, kMostTensors * 2 * ContentHash::kBytes) != CUDA_SUCCESS)
        return nullptr;
    if (api.cuMemHostAlloc_(&flags, kMostTensors * sizeof(std::uint32_t), CU_MEMHOSTALLOC_PORTABLE) !=
        CUDA_SUCCESS) {
        api.cuMemFree_(self->hashes_);
        return nullptr;
    }
    self->wrong_ = static_cast<std::uint32_t*>(flags);
    std::fill_n(self->wrong_, kMostTensors, 0);
    return self;
}

void ContentCheck::watch(const std::vector<bool>& watched) {
    watched_.assign(watched.begin(),
                    watched.begin() + static_cast<std::ptrdiff_t>(std::min(watched.size(), kMostTensors)));
    ++plan_;
    // What a check that is still under way stores for the former plan distrusts a tensor for nothing: no
    // harm.
    std::fill_n(wrong_, watched_.size(), 0);
}

CUresult ContentCheck::save(Buffer& buffer, CUstream stream, Outcome& outcome, std::uint64_t& wrong_bytes) {
    outcome = Outcome::copied;
    wrong_bytes = 0;
    const std::uint32_t hashed = buffer.hashed;
    buffer.hashed = 0;
    if (watches(buffer)) {
        const auto tensor = static_cast<std::size_t>(buffer.tensor);
        if (wrong_[tensor] != 0) {
            watched_[tensor] = false;
            wrong_bytes = buffer.bytes;
        }
    }
    if (watches(buffer)) {
        const auto tensor = static_cast<std::size_t>(buffer.tensor);
        const bool known = hashed >> 1 == plan_;
        const unsigned half = known ? (hashed & 1) ^ 1 : 0;
        CUresult result = hash_->hash(buffer.address, buffer.bytes, place(buffer.tensor, half), stream);
        if (result == CUDA_SUCCESS && known && buffer.believed_clean) {
            result = hash_->copy_if_changed(buffer.address, buffer.host.data, buffer.bytes,
                                            place(buffer.tensor, half ^ 1), place(buffer.tensor, half),
                                            &wrong_[tensor], stream);
            if (result == CUDA_SUCCESS) {
                outcome = Outcome::checked;
                buffer.hashed = plan_ << 1 | half;
                return CUDA_SUCCESS;
            }
        }
        if (result == CUDA_SUCCESS)
            buffer.hashed = plan_ << 1 | half;
        else
            watched_[tensor] = false;
    }
    const CUresult result = api_.cuMemcpyDtoHAsync_(buffer.host.data, buffer.address, buffer.bytes, stream);
    if (result != CUDA_SUCCESS) buffer.hashed = 0;
    return result;
}

}  // namespace swapadvisor
