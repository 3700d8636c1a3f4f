// Control flow of a function body: blocks in an order that reconverges well, and register slots by liveness.
#pragma once

#include "tests/softgpu/ptx/ast.h"

namespace softgpu::ptx {

struct BasicBlock {
    int first = 0, last = 0;      ///< instructions [first, last)
    std::vector<int> successors;  ///< blocks; the fall-through one included
    int fallthrough = -1;         ///< block that follows when the last instruction does not jump, or -1
};

/// Register storage classes by width.
enum SlotClass { kPredicateSlot, kSlot16, kSlot32, kSlot64, kSlot128, kSlotClasses };
SlotClass slot_class(const Type& type);

struct Flow {
    std::vector<BasicBlock> blocks;
    /// Blocks as laid out. It is a weak topological order (F. Bourdoncle, "Efficient chaotic iteration
    /// strategies with widenings", 1993): loops are contiguous and every forward edge goes down, so that
    /// running the lanes with the lowest address first brings diverged lanes together again.
    std::vector<int> order;
    std::vector<int> slot;           ///< per register: index within its class, -1 when unused
    int slots[kSlotClasses] = {};    ///< how many of each class
    std::vector<int> uninitialised;  ///< registers that may be read before they are written
};

Flow analyse(const FunctionAst& function);

/// Registers that an instruction writes and reads.
struct RegisterUse {
    std::vector<int> defs, uses;
};
RegisterUse register_use(const InstAst& inst);

}  // namespace softgpu::ptx
