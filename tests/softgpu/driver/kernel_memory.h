// The PTX engine's view of memory for kernels of one context. check() and touched() are called from worker
// threads while the launching thread holds the driver's lock, so the span map stands still meanwhile.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "tests/softgpu/driver/core.h"
#include "tests/softgpu/ptx/engine.h"

namespace softgpu {

class KernelMemory : public ptx::Memory {
  public:
    explicit KernelMemory(CUctx_st* context) : context_(context) {}

    std::uint64_t allocate_global(std::uint64_t bytes, std::uint64_t align, bool managed) override;
    bool check(std::uint64_t address, std::uint64_t bytes, bool write, std::uint64_t* valid_from,
               std::uint64_t* valid_until) override;
    bool tracking() const override { return tracking_; }
    void touched(std::uint64_t address, std::uint64_t bytes, bool write) override;
    void print(const std::string& text) override;

    /// Addresses given out by allocate_global since the last call: a module's variables.
    std::vector<std::uint64_t> take_globals() { return std::exchange(globals_, {}); }

    void begin_launch(const Op& op);
    /// Files the uses of the launch: strictness, race check.
    void end_launch(const Op& op);

  private:
    struct Touch {
        std::uint64_t begin, end;
        bool write;
    };
    CUctx_st* context_;
    bool tracking_ = false;
    std::uint64_t launch_ = 0;
    std::mutex mutex_;
    std::vector<std::pair<Span*, bool>> used_;
    std::vector<Touch> touches_;
    std::vector<std::uint64_t> globals_;
};

}  // namespace softgpu
