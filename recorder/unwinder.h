// The slow way to walk a stack: libunwind if it is there, else the compiler's unwinder. Internal to call
// sites.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swapadvisor {

struct StackFrame {
    std::uintptr_t address = 0;  ///< return address into the frame
    std::uintptr_t stack = 0;    ///< stack pointer there
};

/// Frames of the calling thread from the caller's on, innermost first. Returns how many.
std::size_t unwind(StackFrame* frames, std::size_t capacity);

}  // namespace swapadvisor
