// State of running blocks and warps, and the interpreter's entry points.
#pragma once

#include <memory>
#include <vector>

#include "tests/softgpu/ptx/program.h"

namespace softgpu::ptx {

/// Unwinds from a handler to the launch.
struct FaultError {
    Fault fault;
    u64 address;
    std::string what;
    u32 warp, lane;
    const Inst* inst;
};

/// Lanes of a warp that are at the same place. A warp has one of them until its lanes diverge.
struct Split {
    enum State : u8 { ready, at_sync, at_barrier, at_cluster };
    u32 pc = 0, mask = 0;
    i32 record = -1;  ///< innermost call, -1 in the kernel itself
    u16 depth = 0;
    State state = ready;
    bool forced = false;  ///< run the waiting instruction without the missing lanes
    u32 barrier = 0;
    u64 stamp = 0;  ///< when it last gave way
};

/// One function call in progress, shared by the lanes that made it together.
struct CallRecord {
    u32 return_pc = 0, caller = 0;
    i32 parent = -1;
    u32 mask = 0;
    std::vector<u8> saved;  ///< the caller's registers, when the call is recursive
};

enum class RunEnd { done, blocked, yielded, spinning };

struct WarpState : Warp {
    std::vector<Split> splits;
    std::vector<CallRecord> records;
    std::vector<i32> free_records;
    const Inst* current = nullptr;
    u64 warp_instructions = 0, thread_instructions = 0;
    u32 back_branches = 0;  ///< by a split that others wait for
    u32 rotated = 0;        ///< back branches left in which the choice of split is by turn
    u64 turn = 0;
    bool finished = false;
    u32 cluster_phase[kLanes] = {};  ///< phase of the cluster barrier in which each lane arrived
};

struct BarrierState {
    u32 arrived = 0, padded = 0, expected = 0;
    u32 count = 0;
    bool all = true, any = false;
};

class LoadedModule;

struct BlockState {
    const Program* program = nullptr;
    Worker* worker = nullptr;
    std::vector<WarpState> warps;
    std::unique_ptr<u8[]> frames, local_memory, shared_memory;
    u8* frame_base = nullptr;
    std::size_t local_size = 0;
    u32 shared_bytes = 0, live_threads = 0, local_bytes = 0;
    u64 index = 0;
    u32 ctaid[3] = {0, 0, 0};
    BarrierState barriers[16];
    bool finished = false;
    struct ClusterState* cluster = nullptr;
};

/// Blocks that run together and see each other's shared memory; most launches have clusters of one.
struct ClusterState {
    std::vector<std::unique_ptr<BlockState>> blocks;  ///< by rank
    std::vector<u8*> shared;
    u32 arrived = 0, phase = 0;  ///< of barrier.cluster
    u32 live_threads() const {
        u32 n = 0;
        for (const auto& b : blocks) n += b->live_threads;
        return n;
    }
};

/// How a block's turn ended. Waiting: all its warps spin or wait for the cluster. Stuck: none can run at all.
enum class BlockEnd { done, waiting, stuck };

/// Everything of one launch that does not change while it runs.
struct Launch {
    const Program* program = nullptr;
    LoadedModule* module = nullptr;
    const LaunchConfig* config = nullptr;
    Memory* memory = nullptr;
    std::vector<u8> params;
    u32 threads_per_block = 0, warps_per_block = 0;
    u64 blocks = 0;
    u32 shared_bytes = 0;
    u64 budget = 0;                    ///< warp instructions a block may execute, 0: no limit
    std::unique_ptr<u32[]> workspace;  ///< for grid-wide barriers of cooperative launches
    u64 workspace_bytes = 0;
};

/// One host thread's view of a launch; in cache lines of its own.
struct alignas(64) Worker {
    const Launch* launch = nullptr;
    RangeCache ranges;
    u64 warp_instructions = 0, thread_instructions = 0, global_bytes = 0;
    int next_entry = 0;
};

/// Prepares the memory of a block context for a launch; `begin_block` then starts the block of that index in
/// it.
void prepare_block(BlockState& block, Worker& worker);
void begin_block(BlockState& block, u64 index);
/// Runs the block's warps in turn until it ends or, when `give_way`, until all that can run only wait for
/// others.
BlockEnd run_block(BlockState& block, bool give_way);
RunEnd run_warp(WarpState& warp);
/// Lets waiting splits run without the missing lanes. False when there is none.
bool force_sync(BlockState& block);
std::string describe_deadlock(const BlockState& block);

}  // namespace softgpu::ptx
