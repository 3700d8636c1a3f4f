// Finds out what kernels could reach without being given it, before it leaves the device: looks for our addresses in
// what was written since it was last looked through (small buffers, and large ones as far as the budget goes) and in
// memory that is not ours but that kernels were given. What is named there may not move.
//
// An address gets into memory by a kernel that was given it, or from memory where it was before. So a look that begins
// when the last use of a buffer is done finds every place that names it, and what it does not find then can only come
// by another use. Nothing here waits with the owner's lock held but look_now(), and that for its own kernel alone.
// Guarded by that lock; the context is current.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "replayer/address_search.h"
#include "replayer/buffer.h"
#include "replayer/outcome.h"

namespace swapadvisor {

class Residency;

class HiddenAddresses {
  public:
    explicit HiddenAddresses(Residency& residency) : residency_(residency) {}

    void used(Buffer& buffer, bool written) {
        buffer.cleared = 0;
        if (!written || buffer.page != nullptr) return;
        if (buffer.written != 0) {
            buffer.written += buffer.written != UINT16_MAX;
            return;
        }
        buffer.written = 1;
        if (unlooked_.size() == unlooked_.capacity()) forget_gone();
        unlooked_.push_back(&buffer);
    }
    /// Kernels may reach memory that is not ours: from here on it is looked through. `bytes`: 0 for all of the
    /// allocation that the address lies in.
    void add_foreign(CUdeviceptr address, std::uint64_t bytes = 0);
    /// That memory is about to go: nothing of ours reads it any more when this returns.
    void forget_foreign(CUdeviceptr address, std::uint64_t bytes);
    /// What memory of ours has to stay mapped for, beside its uses. (Nothing leaves while a look is under way.)
    Mark last_look() const { return mark_; }
    bool any_foreign() const { return !foreign_.empty(); }

    /// `buffer` will leave once what uses it now is done: looks behind that on the device, beside its copy out. To be
    /// called before that copy is issued.
    void prepare(Buffer& buffer);
    /// `buffer`, whose last uses are done, is to leave. Done: nothing names it; wait: that is being looked into;
    /// later: it is named and stays. Residency::found_named() is called for everything that a look finds.
    Outcome may_leave(Buffer& buffer);
    /// At once, for what was written up to here.
    void look_now();

    std::uint64_t looks = 0, looked_bytes = 0;

  private:
    struct Foreign {
        CUdeviceptr address;
        std::uint64_t bytes;
    };
    struct Span {
        CUdeviceptr address;
        std::uint64_t bytes;
        Buffer* buffer;  ///< null: not ours
    };
    bool open();
    void forget_gone();
    void add_spans();
    bool affordable(std::uint64_t bytes) const;
    bool start(Buffer* leaving);
    void finish();

    Residency& residency_;
    bool opened_ = false;
    std::unique_ptr<AddressSearch> search_;  ///< null: this driver cannot
    CUstream stream_ = nullptr;
    QueueId queue_ = 0;
    std::vector<Buffer*> unlooked_;  ///< and some that are not any more
    std::vector<Foreign> foreign_;
    std::vector<Span> spans_;              ///< of the newest look
    std::uint64_t large_bytes_ = 0;        ///< of large buffers, looked through so far
    bool answered_ = false;                ///< the newest look has an answer, once it is done
    std::uint32_t begun_ = 0, ended_ = 0;  ///< looks; Buffer::cleared is the number of one
    Mark mark_;                            ///< of the newest, which is under way if begun_ != ended_
};

}  // namespace swapadvisor
