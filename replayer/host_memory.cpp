#include "replayer/host_memory.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace swapadvisor {
namespace {
constexpr std::uint64_t kAlign = 4096;
constexpr std::uint64_t kPiece = 64ull << 20;
constexpr std::uint64_t kLargePiece = 512ull << 20;
std::uint64_t aligned(std::uint64_t bytes) {
    return (bytes + kAlign - 1) / kAlign * kAlign;
}
}  // namespace

void start_quiet_thread(std::thread& thread, void (*body)(void*), void* argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread = std::thread([body, argument] {
        setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10);
        body(argument);
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

HostMemory::~HostMemory() {
    stop(false);
}

void HostMemory::stop(bool free_pieces) {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    if (!free_pieces) return;
    std::lock_guard lock(mutex_);
    for (HostBlock piece : pieces_) api_.cuMemFreeHost_(piece.data);
    pieces_.clear();
    free_.clear();
    pinned_ = used_ = 0;
}

std::uint64_t HostMemory::used() const {
    std::lock_guard lock(mutex_);
    return used_;
}

std::uint64_t HostMemory::pinned() const {
    std::lock_guard lock(mutex_);
    return pinned_;
}

bool HostMemory::take_from_pieces(std::uint64_t bytes, HostBlock& block) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
        if (it->second < bytes) continue;
        block = {it->first, bytes};
        const std::uint64_t rest = it->second - bytes;
        free_.erase(it);
        if (rest != 0) free_[block.data + bytes] = rest;
        used_ += bytes;
        return true;
    }
    return false;
}

// One thread pins at a time, without the lock; the others wait for its outcome.
bool HostMemory::grow(std::uint64_t bytes, std::unique_lock<std::mutex>& lock) {
    const std::uint64_t room = limit_ > pinned_ ? limit_ - pinned_ : 0;
    if (bytes > room || refused_) return false;
    std::uint64_t size = std::max(bytes, std::min(room, pinned_ >= 8 * kPiece ? kLargePiece : kPiece));
    growing_ = true;
    lock.unlock();
    void* data = nullptr;
    CUresult result = CUDA_ERROR_UNKNOWN;
    CUcontext ignored = nullptr;
    if (const RelaxedCapture relaxed(api_); api_.cuCtxPushCurrent_(context_) == CUDA_SUCCESS) {
        result = api_.cuMemHostAlloc_(&data, size, CU_MEMHOSTALLOC_PORTABLE);
        if (result != CUDA_SUCCESS && size > bytes) {
            size = bytes;
            result = api_.cuMemHostAlloc_(&data, size, CU_MEMHOSTALLOC_PORTABLE);
        }
        api_.cuCtxPopCurrent_(&ignored);
    }
    lock.lock();
    growing_ = false;
    if (result == CUDA_SUCCESS) {
        pieces_.push_back({static_cast<std::byte*>(data), size});
        free_[static_cast<std::byte*>(data)] = size;
        pinned_ += size;
    } else {
        refused_ = true;
    }
    grown_.notify_all();
    return result == CUDA_SUCCESS;
}

HostBlock HostMemory::take_pinned(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    HostBlock block;
    take_from_pieces(aligned(bytes), block);
    return block;
}

HostBlock HostMemory::take(std::uint64_t bytes) {
    bytes = aligned(bytes);
    std::unique_lock lock(mutex_);
    HostBlock block;
    for (;;) {
        if (take_from_pieces(bytes, block)) return block;
        if (growing_) {
            grown_.wait(lock);
        } else if (!grow(bytes, lock)) {
            return {};
        }
    }
}

void HostMemory::give(HostBlock block) {
    if (!block) return;
    std::lock_guard lock(mutex_);
    used_ -= block.bytes;
    auto piece_end = [&](std::byte* p) {
        for (const HostBlock& piece : pieces_)
            if (p >= piece.data && p < piece.data + piece.bytes) return piece.data + piece.bytes;
        return static_cast<std::byte*>(nullptr);
    };
    std::byte* const end = piece_end(block.data);
    auto [it, inserted] = free_.emplace(block.data, block.bytes);
    auto next = std::next(it);
    if (next != free_.end() && it->first + it->second == next->first && next->first != end) {
        it->second += next->second;
        free_.erase(next);
    }
    if (it != free_.begin()) {
        auto before = std::prev(it);
        if (before->first + before->second == it->first && piece_end(before->first) == end) {
            before->second += it->second;
            free_.erase(it);
        }
    }
}

void HostMemory::want(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    bytes = std::min(bytes, limit_);
    if (bytes <= wanted_ || stopping_) return;
    wanted_ = bytes;
    if (wanted_ <= pinned_) return;
    if (!thread_.joinable())
        start_quiet_thread(
            thread_, [](void* self) { static_cast<HostMemory*>(self)->work(); }, this);
    wake_.notify_one();
}

void HostMemory::work() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        if (growing_) {
            grown_.wait(lock);
        } else if (pinned_ >= wanted_ || refused_ || !grow(std::min(wanted_ - pinned_, kPiece), lock)) {
            wake_.wait(lock, [&] { return stopping_ || (pinned_ < wanted_ && !refused_); });
        }
    }
}

}  // namespace swapadvisor
