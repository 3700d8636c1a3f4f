// What the instruction handlers see: pre-decoded instructions and the state of a warp.
// This header is compiled once per instruction set (see isa.h): plain data only, nothing of the standard
// library that would leave an out-of-line inline function behind.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softgpu::ptx {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
__extension__ using u128 = unsigned __int128;
__extension__ using i128 = __int128;

constexpr int kLanes = 32;
constexpr u32 kAllLanes = 0xffffffffU;

struct Inst;
struct Warp;

/// Executes one instruction for the lanes of `mask` (never empty). All operands are frame offsets, see Inst.
using Handler = void (*)(Warp& warp, const Inst& inst, u32 mask);

/// How the interpreter treats an instruction; `plain` ones are a call of the handler and nothing else.
enum class Kind : u8 {
    plain,
    warp_sync,  ///< handler runs when all lanes named by the mask operand (offset `c`) have arrived
    timed,      ///< handler that looks at the clock
    yielding,   ///< handler, then the interpreter may switch warps or blocks (spin loops)
    branch,
    branch_index,
    call,
    call_indirect,
    ret,
    exit,
    barrier,
    stop,  ///< trap, brkpt
    cluster_barrier,
};

/// One pre-decoded instruction: 64 bytes.
/// Operands are byte offsets into the warp's frame, where a register is an array of 32 lanes of its width
/// (a predicate: one 32-bit mask). Immediates and special registers are frame slots too, so handlers know one
/// form.
struct Inst {
    Handler fn = nullptr;
    const u32* list = nullptr;  ///< further offsets: vector operands, branch tables
    i64 imm = 0;
    u32 d = 0, a = 0, b = 0, c = 0;
    u32 guard = 0;     ///< predicate offset
    u32 target = 0;    ///< code index of a branch or call
    u32 function = 0;  ///< index of the function it lies in
    Kind kind = Kind::plain;
    u8 guard_mode = 0;  ///< 0 none, 1 @p, 2 @!p
    u8 n = 1;           ///< vector length
    u8 counted = 1;     ///< 0 for helper steps of a PTX instruction that takes several
};

/// Address windows of the non-global spaces within the generic space: above any host address.
constexpr u64 kWindowShift = 48;
constexpr u64 kSharedWindow = u64(1) << kWindowShift;
constexpr u64 kLocalWindow = u64(2) << kWindowShift;
constexpr u64 kParamWindow = u64(3) << kWindowShift;
constexpr u64 kFunctionWindow = u64(4) << kWindowShift;

/// Ranges the memory owner has vouched for, newest first. One per worker thread.
struct RangeCache {
    static constexpr int kEntries = 4;
    u64 read_from[kEntries] = {1, 1, 1, 1}, read_until[kEntries] = {};
    u64 write_from[kEntries] = {1, 1, 1, 1}, write_until[kEntries] = {};
};

struct Worker;
struct BlockState;

struct Warp {
    u8* regs = nullptr;    ///< the frame
    u32 live = 0;          ///< lanes that exist and have not exited
    u32 exist = 0;         ///< lanes that exist
    u8* shared = nullptr;  ///< the block's shared memory
    u32 shared_bytes = 0;
    u32 local_bytes = 0;  ///< per lane
    u8* local = nullptr;  ///< 32-bit words of all lanes interleaved: word w of lane l at (w * 32 + l) * 4
    const u8* params = nullptr;
    u32 param_bytes = 0;
    u32 index = 0;         ///< in its block
    u32 cluster_rank = 0;  ///< of its block
    u32 cluster_size = 1;
    u8* const* cluster_shared = nullptr;  ///< shared memory of every block of the cluster
    RangeCache* ranges = nullptr;
    Worker* worker = nullptr;
    BlockState* block = nullptr;
    u64 global_bytes = 0;   ///< moved, in 32-byte sectors
    u64 spins = 0;          ///< instructions that smell of waiting for another warp or block
    bool tracking = false;  ///< report global accesses to the memory owner
};

// Slow paths, outside of the instruction-set-specific files.

/// Asks the memory owner; caches a positive answer.
bool check_range(Warp& warp, u64 address, u64 bytes, bool write);
void report_touch(Warp& warp, u64 address, u64 bytes, bool write);
/// `what`: a Fault as integer. Does not return; unwinds to the launch.
[[noreturn]] void raise_fault(Warp& warp, int what, u32 lane, u64 address, u64 bytes, bool write);
[[noreturn]] void raise_misaligned(Warp& warp, u32 lane, u64 address, u64 bytes);
[[noreturn]] void raise_illegal(Warp& warp, u32 lane, u64 address, u64 bytes, bool write, const char* space);

struct TableEntry {
    const char* name;
    Handler fn;
};
struct Table {
    const TableEntry* entries;
    std::size_t count;
};

}  // namespace softgpu::ptx
