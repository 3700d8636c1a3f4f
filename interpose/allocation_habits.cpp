#include "interpose/allocation_habits.h"

#include <cstdio>

namespace swapadvisor {
namespace {
// Below these counts a program is too short to be judged.
constexpr std::uint64_t kFewOperations = 100;
constexpr std::uint64_t kOperationsPerAllocation = 10;
double mib(std::uint64_t bytes) {
    return static_cast<double>(bytes) / (1 << 20);
}
}  // namespace

void AllocationHabits::allocated(std::uint64_t buffer, std::uint64_t bytes, bool small) {
    if (small) return;
    ++large_allocations_;
    if (bytes <= biggest_bytes_) return;
    biggest_ = buffer;
    biggest_bytes_ = bytes;
    since_biggest_ = using_biggest_ = 0;
}

void AllocationHabits::freed(std::uint64_t, bool small) {
    if (!small) ++large_frees_;
}

void AllocationHabits::operation(bool uses_biggest) {
    ++operations_;
    ++since_biggest_;
    if (uses_biggest) ++using_biggest_;
}

std::string AllocationHabits::suspicion(std::uint64_t peak, std::uint64_t limit) const {
    char text[200] = "";
    if (biggest_bytes_ > limit) {
        // What uses it has failed, perhaps at the program's first operation.
        std::snprintf(text, sizeof text, "one allocation of %.1f MiB is larger than the limit of %.1f MiB",
                      mib(biggest_bytes_), mib(limit));
    } else if (biggest_bytes_ > peak / 2 && since_biggest_ >= kFewOperations &&
               using_biggest_ > since_biggest_ / 2) {
        std::snprintf(text, sizeof text,
                      "one allocation of %.1f MiB out of %.1f MiB is used by %.0f %% of the operations",
                      mib(biggest_bytes_), mib(peak),
                      100.0 * static_cast<double>(using_biggest_) / static_cast<double>(since_biggest_));
    } else if (large_allocations_ != 0 && large_frees_ == 0 && operations_ >= kFewOperations &&
               operations_ >= large_allocations_ * kOperationsPerAllocation) {
        std::snprintf(text, sizeof text, "none of %llu large allocations was ever freed over %llu operations",
                      static_cast<unsigned long long>(large_allocations_),
                      static_cast<unsigned long long>(operations_));
    }
    return text;
}

}  // namespace swapadvisor
