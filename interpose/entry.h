// What a generated wrapper tells its hook body about the symbol that was called.
#pragma once

#include <cuda.h>

#include "interpose/runtime.h"

namespace swapadvisor {

/// Copies of the driver that are served in one process: the default one, and others (dlmopen, a second path).
constexpr unsigned kDriverCopies = 3;

struct Entry {
    unsigned copy;         ///< which driver copy the caller reached
    DefaultStream stream;  ///< what a null stream means for this symbol
    unsigned slot;         ///< index of the symbol in the tables of hooked symbols
};

}  // namespace swapadvisor
