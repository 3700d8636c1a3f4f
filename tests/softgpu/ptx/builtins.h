// Handlers that are the same for every instruction set.
#pragma once

#include "tests/softgpu/ptx/runtime.h"

namespace softgpu::ptx {

extern const Table builtin_table;

}  // namespace softgpu::ptx
