// A kernel with all functions it can reach, lowered to pre-decoded instructions.
#pragma once

#include <deque>

#include "tests/softgpu/ptx/ast.h"
#include "tests/softgpu/ptx/runtime.h"

namespace softgpu::ptx {

/// Registers that the scheduler fills in per warp or block.
enum class Special : u8 {
    tid_x,
    tid_y,
    tid_z,
    ntid_x,
    ntid_y,
    ntid_z,
    ctaid_x,
    ctaid_y,
    ctaid_z,
    nctaid_x,
    nctaid_y,
    nctaid_z,
    laneid,
    warpid,
    nwarpid,
    smid,
    nsmid,
    gridid,
    lanemask_eq,
    lanemask_le,
    lanemask_lt,
    lanemask_ge,
    lanemask_gt,
    dynamic_smem_size,
    total_smem_size,
    aggr_smem_size,
    zero,
    clusterid_x,
    clusterid_y,
    clusterid_z,
    nclusterid_x,
    nclusterid_y,
    nclusterid_z,
    cluster_ctaid_x,
    cluster_ctaid_y,
    cluster_ctaid_z,
    cluster_nctaid_x,
    cluster_nctaid_y,
    cluster_nctaid_z,
    cluster_ctarank,
    cluster_nctarank,
    is_explicit_cluster,
    envreg1,
    envreg2,
    stack_pointer,
    stack_top,
};

struct SpecialSlot {
    Special what;
    u32 offset = 0;
    u8 bits = 32;
};
struct ConstantSlot {
    u32 offset = 0;
    int bits = 32;  ///< 1 for a predicate
    u64 low = 0, high = 0;
};

/// One function of a program.
struct FunctionCode {
    const FunctionAst* ast = nullptr;
    u32 entry = 0;
    u32 window_from = 0, window_until = 0;  ///< its register and parameter slots, predicates excluded
    u32 until16 = 0, until32 = 0, until64 = 0,
        until128 = 0;  ///< ends of its slots by width; then parameter words
    u32 predicates_from = 0, predicates_until = 0;
    u32 local_base = 0, local_bytes = 0;  ///< per lane
    bool recursive = false;               ///< its window is saved around the calls it makes
};

struct Program {
    std::string name;
    std::vector<Inst> code;
    std::vector<int> lines;  ///< PTX line of each instruction
    std::deque<std::vector<u32>> lists;
    std::vector<FunctionCode> functions;      ///< [0] is the kernel
    std::unordered_map<u64, u32> by_address;  ///< function address -> index, for indirect calls
    std::vector<ConstantSlot> constants;
    std::vector<SpecialSlot> specials;
    std::vector<std::pair<u32, u32>>
        zeroed;  ///< offset, bytes: registers that may be read before being written
    u32 frame_bytes = 0;
    u32 static_shared = 0;
    u32 dynamic_shared_at = 0;  ///< offset of the dynamic shared memory
    u32 local_bytes = 0;        ///< per lane, statically known part
    u32 stack_pointer = ~0U;    ///< slot of the per-lane stack pointer, ~0 when the stack is static
    u32 registers = 0;
    bool ordered = false;  ///< results may depend on the order of blocks
    bool cluster_ops = false;
};

}  // namespace softgpu::ptx
