// Instruction handlers by name, of the instruction set this machine has.
#pragma once

#include <string>

#include "tests/softgpu/ptx/runtime.h"

namespace softgpu::ptx {

/// "add.f32", "ld.global.u32.b32", ... or null. Names are those of the tables in ops_*.cpp.
Handler find_handler(const std::string& name);

/// "avx2" or "base"; SOFTGPU_ISA=base in the environment forces the portable one.
const char* handler_isa();

}  // namespace softgpu::ptx
