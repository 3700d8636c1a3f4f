// Pinned host memory for what is not on the device: taken in large pieces, ahead of need by a background
// thread (pinning is slow), handed out first-fit, never beyond a limit.
//
// Thread-safe. The pieces are portable (usable by every context). `stop()` before the process or the context
// ends.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "recorder/driver_api.h"

namespace swapadvisor {

struct HostBlock {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    explicit operator bool() const { return data != nullptr; }
};

class HostMemory {
  public:
    HostMemory(const DriverApi& api, CUcontext context, std::uint64_t limit_bytes)
        : api_(api), context_(context), limit_(limit_bytes) {}
    ~HostMemory();
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;

    /// An empty block when the limit is reached or the system has no more. Blocks while a piece is being
    /// pinned.
    HostBlock take(std::uint64_t bytes);
    /// Of what is pinned already; never blocks.
    HostBlock take_pinned(std::uint64_t bytes);
    void give(HostBlock block);
    /// Asks for `bytes` to be pinned in total, in the background.
    void want(std::uint64_t bytes);
    /// Ends the background thread. `free_pieces`: give the memory back too (the context must be alive).
    void stop(bool free_pieces);

    std::uint64_t limit() const { return limit_; }
    std::uint64_t used() const;
    std::uint64_t pinned() const;
    bool refused() const { return refused_; }  ///< the system refused to pin more, below the limit

  private:
    bool take_from_pieces(std::uint64_t bytes, HostBlock& block);
    bool grow(std::uint64_t bytes, std::unique_lock<std::mutex>& lock);
    void work();

    const DriverApi& api_;
    CUcontext context_;
    std::uint64_t limit_;
    mutable std::mutex mutex_;
    std::condition_variable wake_, grown_;
    std::thread thread_;
    bool stopping_ = false;
    bool growing_ = false;
    bool refused_ = false;
    std::uint64_t wanted_ = 0, pinned_ = 0, used_ = 0;
    std::vector<HostBlock> pieces_;
    std::map<std::byte*, std::uint64_t> free_;  ///< by address, joined within a piece
};

/// A thread that the program does not notice: no signals are delivered to it and it yields to everything
/// else.
void start_quiet_thread(std::thread& thread, void (*body)(void*), void* argument);

}  // namespace swapadvisor
