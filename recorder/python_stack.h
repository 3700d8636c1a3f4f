// Where in a Python program a thread is: the interpreter's own frames, read without its lock.
//
// Method. The allocation that asks is made by a thread that may have given the interpreter's lock away (ctypes and PyTorch do), so no
// function of the interpreter that counts references may be called. But only this thread changes its own frames, and they keep their
// code objects alive: it is enough to read them, at the offsets of the interpreter's version (CPython 3.11 and 3.12; of others nothing is
// known). Before the first walk everything it would read is read by the kernel, which refuses instead of faulting, and each
// object's type is checked: an interpreter that is laid out otherwise is left alone for good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace swapadvisor {

struct PythonFrame {
    std::uintptr_t code = 0;    ///< the code object
    std::uintptr_t offset = 0;  ///< of the instruction in it, in bytes
};

/// Frames of the calling thread, innermost first; returns how many (0: no Python here). Allocates nothing, takes no lock.
std::size_t python_stack(PythonFrame* frames, std::size_t capacity) noexcept;

/// "function file.py:12" of a frame that the calling thread is in; "" if it cannot be read.
std::string describe_python_frame(const PythonFrame& frame);

/// Frames of the program, innermost first, "f model.py:3 < main train.py:9": those of installed packages and of Python's own library are
/// left out but for the innermost that is no allocator's. "" for none.
std::string describe_python_stack(const PythonFrame* frames, std::size_t count);

/// The line of the instruction at `offset` by a code object's table of locations (CPython 3.11 and later); 0: none.
int python_line(const unsigned char* table, std::size_t bytes, int first_line, std::size_t offset);

}  // namespace swapadvisor
