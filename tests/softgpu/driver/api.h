// What every entry point does first: take the lock, count the call, move the host's clock and the device
// along, inject faults, check for initialisation, a current context, sticky errors and capture rules.
#pragma once

#include "tests/softgpu/driver/core.h"

#define SOFTGPU_EXPORT __attribute__((visibility("default")))
#define SOFTCU extern "C" SOFTGPU_EXPORT CUresult

namespace softgpu {

/// Inside a _ptsz/_ptds entry point the null stream means the thread's own default stream.
struct PerThreadScope {
    PerThreadScope() { ++thread_state().per_thread_default; }
    ~PerThreadScope() { --thread_state().per_thread_default; }
};

enum CallFlags : unsigned {
    kPlain = 0,
    kNoInit = 1,        ///< works before cuInit
    kNeedsContext = 2,  ///< a current context, without a sticky error
    kUnsafe = 4,        ///< forbidden while a capture that concerns this thread is open
    kIgnoresError = 8,  ///< works with a sticky error
    kMapCost = 16,      ///< costs as a mapping call
    kCreateCost = 32,   ///< costs as an allocation
    kFree = 64,         ///< a look-up that costs the host nothing
    kContext = kNeedsContext,
};

/// CUDA_SUCCESS, or the error of an unsafe call while a capture concerns this thread (which it also
/// invalidates).
CUresult refuse_unsafe_call(const char* name);

class Call {
  public:
    Call(const char* name, unsigned flags);
    ~Call();
    Call(const Call&) = delete;
    explicit operator bool() const { return error_ == CUDA_SUCCESS; }
    CUresult error() const { return error_; }
    CUctx_st* context() const { return context_; }
    Lock& lock() { return lock_; }
    const char* name() const { return name_; }
    /// More host time, beyond the fixed cost of a call.
    void spend(Time ns) { thread_state().time += ns; }

  private:
    const char* name_;
    Lock lock_;
    CUctx_st* context_ = nullptr;
    CUresult error_ = CUDA_SUCCESS;
};

}  // namespace softgpu

#define SOFTGPU_CALL(flags)                \
    softgpu::Call call(__func__, (flags)); \
    if (!call) return call.error()
