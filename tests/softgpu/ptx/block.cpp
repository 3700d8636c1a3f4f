// Block contexts: their memory, special registers, and the turns of their warps.
#include <algorithm>
#include <cstring>

#include "tests/softgpu/ptx/exec.h"

namespace softgpu::ptx {
namespace {

constexpr u32 kDynamicStack = 64 * 1024;  // bytes per thread of kernels that recurse

template <class T>
void fill(u8* at, T value) {
    for (int l = 0; l < kLanes; ++l) std::memcpy(at + std::size_t(l) * sizeof(T), &value, sizeof(T));
}
void fill_bits(u8* at, int bits, u64 low, u64 high) {
    switch (bits) {
        case 1: {
            u32 v = u32(low);
            std::memcpy(at, &v, 4);
            break;
        }
        case 16:
            fill(at, u16(low));
            break;
        case 32:
            fill(at, u32(low));
            break;
        case 64:
            fill(at, low);
            break;
        default:
            fill(at, u128(high) << 64 | low);
            break;
    }
}
void store_lane(u8* at, int bits, u32 lane, u64 value) {
    std::memcpy(at + lane * u32(bits) / 8, &value, std::size_t(bits) / 8);
}

u64 block_value(const BlockState& b, Special what) {
    const LaunchConfig& c = *b.worker->launch->config;
    const Launch& l = *b.worker->launch;
    auto dim = [](u32 grid, u32 cluster) { return (grid + cluster - 1) / cluster; };
    switch (what) {
        case Special::ntid_x:
            return c.block[0];
        case Special::ntid_y:
            return c.block[1];
        case Special::ntid_z:
            return c.block[2];
        case Special::ctaid_x:
            return b.ctaid[0];
        case Special::ctaid_y:
            return b.ctaid[1];
        case Special::ctaid_z:
            return b.ctaid[2];
        case Special::nctaid_x:
            return c.grid[0];
        case Special::nctaid_y:
            return c.grid[1];
        case Special::nctaid_z:
            return c.grid[2];
        case Special::nwarpid:
            return 64;
        case Special::smid:
            return b.index % 16;
        case Special::nsmid:
            return 16;
        case Special::gridid:
            return 1;
        case Special::dynamic_smem_size:
            return c.dynamic_shared_bytes;
        case Special::total_smem_size:
        case Special::aggr_smem_size:
            return l.shared_bytes;
        case Special::clusterid_x:
            return b.ctaid[0] / c.cluster[0];
        case Special::clusterid_y:
            return b.ctaid[1] / c.cluster[1];
        case Special::clusterid_z:
            return b.ctaid[2] / c.cluster[2];
        case Special::nclusterid_x:
            return dim(c.grid[0], c.cluster[0]);
        case Special::nclusterid_y:
            return dim(c.grid[1], c.cluster[1]);
        case Special::nclusterid_z:
            return dim(c.grid[2], c.cluster[2]);
        case Special::cluster_ctaid_x:
            return b.ctaid[0] % c.cluster[0];
        case Special::cluster_ctaid_y:
            return b.ctaid[1] % c.cluster[1];
        case Special::cluster_ctaid_z:
            return b.ctaid[2] % c.cluster[2];
        case Special::cluster_nctaid_x:
            return c.cluster[0];
        case Special::cluster_nctaid_y:
            return c.cluster[1];
        case Special::cluster_nctaid_z:
            return c.cluster[2];
        case Special::cluster_ctarank:
            return b.ctaid[0] % c.cluster[0] +
                   (b.ctaid[1] % c.cluster[1] + b.ctaid[2] % c.cluster[2] * c.cluster[1]) * c.cluster[0];
        case Special::cluster_nctarank:
            return u64(c.cluster[0]) * c.cluster[1] * c.cluster[2];
        case Special::is_explicit_cluster:
            return c.cluster[0] * c.cluster[1] * c.cluster[2] > 1 ? kAllLanes : 0;
        case Special::envreg1:
            return reinterpret_cast<u64>(l.workspace.get()) >> 32;
        case Special::stack_top:
            return b.local_bytes;
        case Special::envreg2:
            return reinterpret_cast<u64>(l.workspace.get()) & 0xffffffffU;
        default:
            return 0;
    }
}
bool per_lane(Special what) {
    return what == Special::tid_x || what == Special::tid_y || what == Special::tid_z ||
           what == Special::laneid || (what >= Special::lanemask_eq && what <= Special::lanemask_gt);
}
u64 lane_special(const LaunchConfig& c, u32 warp, u32 lane, Special what) {
    u32 t = warp * kLanes + lane;
    switch (what) {
        case Special::tid_x:
            return t % c.block[0];
        case Special::tid_y:
            return t / c.block[0] % c.block[1];
        case Special::tid_z:
            return t / c.block[0] / c.block[1];
        case Special::laneid:
            return lane;
        case Special::lanemask_eq:
            return 1U << lane;
        case Special::lanemask_lt:
            return (1U << lane) - 1;
        case Special::lanemask_le:
            return (1U << lane) | ((1U << lane) - 1);
        case Special::lanemask_ge:
            return ~((1U << lane) - 1);
        default:
            return ~((1U << lane) | ((1U << lane) - 1));
    }
}

u8* align64(u8* p) {
    return reinterpret_cast<u8*>((reinterpret_cast<std::uintptr_t>(p) + 63) / 64 * 64);
}

}  // namespace

void prepare_block(BlockState& b, Worker& worker) {
    const Launch& l = *worker.launch;
    const Program& p = *l.program;
    b.program = &p;
    b.worker = &worker;
    b.shared_bytes = l.shared_bytes;
    b.warps.resize(l.warps_per_block);
    b.frames = std::make_unique_for_overwrite<u8[]>(std::size_t(p.frame_bytes) * l.warps_per_block + 64);
    b.frame_base = align64(b.frames.get());
    b.shared_memory = std::make_unique_for_overwrite<u8[]>(l.shared_bytes + 128);
    b.local_bytes = p.stack_pointer != ~0U ? std::max(kDynamicStack, p.local_bytes * 2) : p.local_bytes;
    std::size_t local = std::size_t(b.local_bytes) * kLanes;
    b.local_memory = std::make_unique_for_overwrite<u8[]>(local * l.warps_per_block + 64);
    for (u32 k = 0; k < l.warps_per_block; ++k) {
        WarpState& w = b.warps[k];
        w.regs = b.frame_base + std::size_t(p.frame_bytes) * k;
        w.shared = align64(b.shared_memory.get());
        w.shared_bytes = l.shared_bytes;
        w.local = align64(b.local_memory.get()) + local * k;
        w.local_bytes = b.local_bytes;
        w.params = l.params.data();
        w.param_bytes = u32(l.params.size());
        w.index = k;
        w.ranges = &worker.ranges;
        w.worker = &worker;
        w.block = &b;
        w.tracking = l.memory->tracking();
        u32 left = l.threads_per_block - k * kLanes;
        w.exist = left >= u32(kLanes) ? kAllLanes : (1U << left) - 1;
        for (const ConstantSlot& c : p.constants) fill_bits(w.regs + c.offset, c.bits, c.low, c.high);
        for (const SpecialSlot& s : p.specials) {
            if (per_lane(s.what)) {
                for (u32 lane = 0; lane < u32(kLanes); ++lane)
                    store_lane(w.regs + s.offset, s.bits, lane, lane_special(*l.config, k, lane, s.what));
            } else if (s.what == Special::warpid) {
                fill_bits(w.regs + s.offset, s.bits, k, 0);
            }
        }
    }
}

void begin_block(BlockState& b, u64 index) {
    const Launch& l = *b.worker->launch;
    const Program& p = *b.program;
    const auto& grid = l.config->grid;
    b.index = index;
    b.ctaid[0] = u32(index % grid[0]);
    b.ctaid[1] = u32(index / grid[0] % grid[1]);
    b.ctaid[2] = u32(index / grid[0] / grid[1]);
    b.live_threads = l.threads_per_block;
    b.finished = false;
    for (BarrierState& bar : b.barriers) bar = BarrierState{};
    if (b.shared_bytes != 0) std::memset(align64(b.shared_memory.get()), 0, b.shared_bytes);
    for (WarpState& w : b.warps) {
        w.live = w.exist;
        w.finished = false;
        w.spins = 0, w.back_branches = 0, w.rotated = 0, w.turn = 0;
        w.splits.clear();
        Split s;
        s.mask = w.exist, s.pc = p.functions[0].entry;
        w.splits.push_back(s);
        w.records.clear(), w.free_records.clear();
        w.warp_instructions = w.thread_instructions = w.global_bytes = 0;
        for (const SpecialSlot& s2 : p.specials) {
            if (!per_lane(s2.what) && s2.what != Special::warpid) {
                fill_bits(w.regs + s2.offset, s2.bits, block_value(b, s2.what), 0);
            }
        }
        for (auto [at, bytes] : p.zeroed) std::memset(w.regs + at, 0, bytes);
        if (p.local_bytes != 0) std::memset(w.local, 0, std::size_t(p.local_bytes) * kLanes);
    }
}

BlockEnd run_block(BlockState& b, bool give_way) {
    const Launch& l = *b.worker->launch;
    for (;;) {
        bool progress = false, all_done = true, all_waiting = true;
        for (WarpState& w : b.warps) {
            if (w.finished) continue;
            u64 before = w.warp_instructions;
            RunEnd end = run_warp(w);
            progress = progress || w.warp_instructions != before || end == RunEnd::done;
            all_done = all_done && end == RunEnd::done;
            all_waiting = all_waiting && end != RunEnd::yielded;
            bool again = end == RunEnd::yielded || end == RunEnd::spinning;
            if (again && l.budget != 0 && w.warp_instructions > l.budget) {
                raise_fault(w, int(Fault::timeout), u32(__builtin_ctz(w.live)), 0, 0, false);
            }
        }
        if (all_done) {
            Worker& worker = *b.worker;
            for (const WarpState& w : b.warps) {
                worker.warp_instructions += w.warp_instructions;
                worker.thread_instructions += w.thread_instructions;
                worker.global_bytes += w.global_bytes;
            }
            b.finished = true;
            return BlockEnd::done;
        }
        if (!progress && !force_sync(b)) return BlockEnd::stuck;
        if (give_way && all_waiting) return BlockEnd::waiting;
    }
}

bool force_sync(BlockState& block) {
    for (WarpState& w : block.warps) {
        Split* lowest = nullptr;
        for (Split& s : w.splits) {
            if (s.state == Split::at_sync && (lowest == nullptr || s.pc < lowest->pc)) lowest = &s;
        }
        if (lowest != nullptr) {
            lowest->forced = true;
            return true;
        }
    }
    return false;
}

std::string describe_deadlock(const BlockState& block) {
    std::string text = "deadlock: ";
    for (const WarpState& w : block.warps) {
        for (const Split& s : w.splits) {
            text += std::to_string(__builtin_popcount(s.mask)) + " threads of warp " +
                    std::to_string(w.index) + " wait at line " + std::to_string(block.program->lines[s.pc]);
            if (s.state == Split::at_barrier) {
                const BarrierState& b = block.barriers[s.barrier];
                text += " for barrier " + std::to_string(s.barrier) + " (" + std::to_string(b.arrived) +
                        " of " + std::to_string(b.expected != 0 ? b.expected : block.live_threads) +
                        " arrived)";
            }
            return text;
        }
    }
    return text + "no thread can run";
}

}  // namespace softgpu::ptx
