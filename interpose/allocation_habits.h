// Does a program ask the driver for each tensor by itself, or does it slice and reuse memory on its own? The
// latter hides its tensors: the framework's setting that should have prevented it did not take effect.
#pragma once

#include <cstdint>
#include <string>

namespace swapadvisor {

/// Counts for one context. Guarded by the runtime's lock; sizes in bytes.
class AllocationHabits {
  public:
    void allocated(std::uint64_t buffer, std::uint64_t bytes, bool small);
    void freed(std::uint64_t buffer, bool small);
    /// One operation that uses managed memory; `uses_biggest`: it uses biggest().
    void operation(bool uses_biggest);
    /// The biggest buffer so far: what a pool would be.
    std::uint64_t biggest() const { return biggest_; }

    /// What speaks against tensors that are allocations of their own, or "". `peak`: most bytes that were
    /// live at once; `limit`: of the memory on the device.
    std::string suspicion(std::uint64_t peak, std::uint64_t limit) const;

  private:
    std::uint64_t biggest_ = 0, biggest_bytes_ = 0;
    std::uint64_t operations_ = 0;                         ///< all
    std::uint64_t since_biggest_ = 0, using_biggest_ = 0;  ///< since the biggest came, and those that use it
    std::uint64_t large_allocations_ = 0, large_frees_ = 0;
};

}  // namespace swapadvisor
