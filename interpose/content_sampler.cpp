#include "interpose/content_sampler.h"

#include <bit>
#include <cstring>

#include "recorder/recorder.h"

namespace swapadvisor {
namespace {
// Of the launches of a kernel in one shape: the first ones, and then in ever larger steps.
constexpr std::uint32_t kFirstLooks = 3, kLastLook = 64;
constexpr std::size_t kMostKeys = 1 << 16;
constexpr std::size_t kSlotBytes = 2 * ContentHash::kBytes;
}  // namespace

bool ContentSampler::open() {
    if (opened_) return hash_ != nullptr;
    opened_ = true;
    auto hash = ContentHash::load(api_, residency_.device());
    void* pinned = nullptr;
    if (!hash || api_.cuMemAlloc_(&sums_, kSlots * kSlotBytes) != CUDA_SUCCESS) return false;
    if (api_.cuMemHostAlloc_(&pinned, kSlots * kSlotBytes, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS)
        return false;
    answers_ = static_cast<std::byte*>(pinned);
    touches_.resize(kSlots);
    hash_ = std::move(hash);
    return true;
}

bool ContentSampler::choose(std::uint64_t key, const std::vector<BufferUse>& uses) {
    chosen_.clear();
    const std::uint64_t swapped = residency_.counts().bytes_in + residency_.counts().bytes_out;
    if (swapped == 0 || (launches_.size() >= kMostKeys && launches_.find(key) == nullptr)) return false;
    std::uint32_t& launches = launches_[key];
    if (launches >= kLastLook) return false;
    ++launches;
    if (launches > kFirstLooks && !std::has_single_bit(launches)) return false;
    for (std::size_t i = 0; i < uses.size(); ++i) {
        const Buffer& b = *uses[i].buffer;
        // What has no contents yet has none to keep.
        if (uses[i].access != Access::read_write || b.small || b.escaped != nullptr ||
            b.place == Place::empty)
            continue;
        if (hashed_bytes_ + 2 * b.bytes > swapped || !open()) break;
        hashed_bytes_ += 2 * b.bytes;
        chosen_.push_back({&b, static_cast<std::uint32_t>(i), 0});
    }
    if (chosen_.empty()) --launches;
    return !chosen_.empty();
}

void ContentSampler::before(CUstream stream) {
    const std::uint64_t oldest = in_flight_.empty() ? next_slot_ : in_flight_.front().first_slot;
    if (next_slot_ + chosen_.size() > oldest + kSlots) return cancel();
    for (Chosen& c : chosen_) {
        c.slot = next_slot_++;
        touches_[c.slot % kSlots] = c.touch;
        if (hash_->hash(c.buffer->address, c.buffer->bytes, sum(c.slot, 0), stream) != CUDA_SUCCESS)
            return cancel();
    }
}

bool ContentSampler::take_event(CUevent& event) {
    if (events_.empty()) return api_.cuEventCreate_(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    event = events_.back();
    events_.pop_back();
    return true;
}

void ContentSampler::after(std::uint64_t seq, CUstream stream) {
    if (chosen_.empty()) return;
    InFlight sample{nullptr, seq, chosen_.front().slot, chosen_.size()};
    CUresult result = take_event(sample.done) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (const Chosen& c : chosen_) {
        if (result == CUDA_SUCCESS)
            result = hash_->hash(c.buffer->address, c.buffer->bytes, sum(c.slot, 1), stream);
        if (result == CUDA_SUCCESS)
            result = api_.cuMemcpyDtoHAsync_(answers_ + c.slot % kSlots * kSlotBytes, sum(c.slot, 0),
                                             kSlotBytes, stream);
    }
    if (result == CUDA_SUCCESS) result = api_.cuEventRecord_(sample.done, stream);
    if (result == CUDA_SUCCESS)
        in_flight_.push_back(sample);
    else if (sample.done != nullptr)
        events_.push_back(sample.done);
    chosen_.clear();
}

void ContentSampler::poll(Recorder& recorder) {
    while (!in_flight_.empty() && api_.cuEventQuery_(in_flight_.front().done) == CUDA_SUCCESS) {
        const InFlight sample = in_flight_.front();
        in_flight_.pop_front();
        events_.push_back(sample.done);
        for (std::uint64_t slot = sample.first_slot; slot < sample.first_slot + sample.slots; ++slot) {
            const std::byte* answer = answers_ + slot % kSlots * kSlotBytes;
            const bool changed = std::memcmp(answer, answer + ContentHash::kBytes, ContentHash::kBytes) != 0;
            recorder.content(sample.seq, touches_[slot % kSlots], changed);
        }
    }
}

}  // namespace swapadvisor
