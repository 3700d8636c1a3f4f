// What became of an attempt to give a buffer memory, or to take it away, that may not wait. What the driver
// answered stays apart from what only the residency and its pool have to tell each other.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace swapadvisor {

class Outcome {
  public:
    enum class Kind : std::uint8_t {
        done,
        failed,     ///< `code()` is what the program gets
        wait,       ///< not before something else has happened (Residency::Wait says what)
        later,      ///< not without waiting, and the caller did not want to
        crowded,    ///< what could make room is in use by the very same op
        elsewhere,  ///< the planned pool has no place for it
    };
    Outcome(CUresult code) : code_(code), kind_(code == CUDA_SUCCESS ? Kind::done : Kind::failed) {}
    Outcome(Kind kind) : code_(kind == Kind::done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY), kind_(kind) {}
    bool ok() const { return kind_ == Kind::done; }
    bool is(Kind kind) const { return kind_ == kind; }
    /// Of an attempt that is not to be made again: a code that programs know.
    CUresult code() const { return code_; }

  private:
    CUresult code_;
    Kind kind_;
};

}  // namespace swapadvisor
