// Launches: block contexts, worker threads, faults.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "tests/softgpu/ptx/exec.h"
#include "tests/softgpu/ptx/linker.h"
#include "tests/softgpu/ptx/pool.h"

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

namespace {

struct Outcome {
    std::mutex mutex;
    u64 block = ~u64(0);
    LaunchResult result;
    std::atomic<u64> first_bad{~u64(0)};
};

const char* fault_text(Fault f) {
    switch (f) {
        case Fault::illegal_address:
            return "illegal address";
        case Fault::misaligned_address:
            return "misaligned address";
        case Fault::illegal_instruction:
            return "illegal instruction";
        case Fault::assert_failed:
            return "assertion failed";
        case Fault::trap:
            return "trap";
        case Fault::stack_error:
            return "stack overflow";
        case Fault::timeout:
            return "instruction budget used up";
        default:
            return "launch failure";
    }
}

void record_fault(Outcome& out, const BlockState& b, const FaultError& e) {
    std::lock_guard lock(out.mutex);
    if (b.index >= out.block) return;
    out.block = b.index;
    out.first_bad = b.index;
    const LaunchConfig& c = *b.worker->launch->config;
    u32 t = e.warp * kLanes + e.lane;
    auto triple = [](u64 x, u64 y, u64 z) {
        return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
    };
    const Program& p = *b.program;
    std::size_t at = e.inst == nullptr ? 0 : std::size_t(e.inst - p.code.data());
    out.result.fault = e.fault;
    out.result.fault_address = e.address;
    out.result.detail = std::string(fault_text(e.fault)) + ": kernel " + p.name + ", block " +
                        triple(b.ctaid[0], b.ctaid[1], b.ctaid[2]) + ", thread " +
                        triple(t % c.block[0], t / c.block[0] % c.block[1], t / c.block[0] / c.block[1]) +
                        (e.what.empty() ? "" : ", " + e.what) + ", PTX line " +
                        std::to_string(at < p.lines.size() ? p.lines[at] : 0) +
                        (e.inst != nullptr ? " in " + p.functions[e.inst->function].ast->name : "");
}

[[noreturn]] void raise_deadlock(const BlockState& b) {
    const WarpState& w = b.warps[0];
    throw FaultError{Fault::launch_failure, 0, describe_deadlock(b), w.index, 0, w.current};
}

/// Blocks do not depend on each other: every worker takes the next one.
void run_unordered(const Launch& l, std::vector<Worker>& workers, Outcome& out) {
    std::atomic<u64> next{0};
    Pool::instance().run(int(workers.size()), [&](int who) {
        BlockState b;
        prepare_block(b, workers[std::size_t(who)]);
        for (;;) {
            u64 index = next.fetch_add(1, std::memory_order_relaxed);
            if (index >= l.blocks || index > out.first_bad.load(std::memory_order_relaxed)) return;
            begin_block(b, index);
            try {
                if (run_block(b, false) == BlockEnd::stuck) raise_deadlock(b);
            } catch (const FaultError& e) {
                record_fault(out, b, e);
            }
        }
    });
}

/// One cluster (mostly: block) after the other, in a fixed order; one that only waits lets the next one
/// start.
class OrderedRun {
  public:
    OrderedRun(const Launch& l, Worker& worker, Outcome& out) : l_(l), worker_(worker), out_(out) {
        const auto& c = l.config->cluster;
        group_ = std::max<u64>(1, u64(c[0]) * c[1] * c[2]);
        clusters_ = l.blocks / group_;
    }
    void run() {
        do admit();
        while (l_.config->cooperative && next_ < clusters_);
        u64 idle_rounds = 0;
        while (!resident_.empty()) {
            bool ended = false;
            for (std::size_t k = 0; k < resident_.size();) {
                bool done = false;
                if (!turn(*resident_[k], done)) return;
                if (!done) {
                    ++k;
                    continue;
                }
                ended = true;
                spare_.push_back(std::move(resident_[k]));
                resident_.erase(resident_.begin() + std::ptrdiff_t(k));
                // Keep one going at a time while they end by themselves.
                if (resident_.empty() && next_ < clusters_) admit();
            }
            idle_rounds = ended ? 0 : idle_rounds + 1;
            if (!ended && next_ < clusters_ && idle_rounds >= 2) admit(), idle_rounds = 0;
        }
    }

  private:
    void admit() {
        std::unique_ptr<ClusterState> c;
        if (!spare_.empty()) {
            c = std::move(spare_.back());
            spare_.pop_back();
        } else {
            c = std::make_unique<ClusterState>();
            for (u64 r = 0; r < group_; ++r) {
                c->blocks.push_back(std::make_unique<BlockState>());
                prepare_block(*c->blocks.back(), worker_);
                c->blocks.back()->cluster = c.get();
                c->shared.push_back(c->blocks.back()->warps[0].shared);
            }
        }
        c->arrived = c->phase = 0;
        const auto& dim = l_.config->cluster;
        const auto& grid = l_.config->grid;
        u64 id = next_++;
        u64 nx = grid[0] / dim[0], ny = grid[1] / dim[1];
        u64 x = id % nx * dim[0], y = id / nx % ny * dim[1], z = id / nx / ny * dim[2];
        for (u64 r = 0; r < group_; ++r) {
            u64 bx = x + r % dim[0], by = y + r / dim[0] % dim[1], bz = z + r / dim[0] / dim[1];
            BlockState& b = *c->blocks[r];
            begin_block(b, (bz * grid[1] + by) * grid[0] + bx);
            for (WarpState& w : b.warps) {
                w.cluster_rank = u32(r), w.cluster_size = u32(group_);
                w.cluster_shared = c->shared.data();
            }
        }
        resident_.push_back(std::move(c));
    }
    /// False after a fault.
    bool turn(ClusterState& c, bool& done) {
        bool stuck = true;
        done = true;
        for (auto& b : c.blocks) {
            if (b->finished) continue;
            u32 phase = c.phase;
            try {
                BlockEnd end = run_block(*b, true);
                stuck = stuck && end == BlockEnd::stuck && c.phase == phase;
                done = done && end == BlockEnd::done;
                if (end == BlockEnd::stuck && group_ == 1) raise_deadlock(*b);
            } catch (const FaultError& e) {
                record_fault(out_, *b, e);
                return false;
            }
        }
        if (!done && stuck) {
            for (auto& b : c.blocks) {
                if (b->finished) continue;
                try {
                    raise_deadlock(*b);
                } catch (const FaultError& e) {
                    record_fault(out_, *b, e);
                    return false;
                }
            }
        }
        return true;
    }

    const Launch& l_;
    Worker& worker_;
    Outcome& out_;
    std::vector<std::unique_ptr<ClusterState>> resident_, spare_;
    u64 next_ = 0, clusters_ = 0, group_ = 1;
};

}  // namespace

LaunchResult launch(const Function& function, const LaunchConfig& given, Memory& memory) {
    const auto& f = static_cast<const LoadedFunction&>(function);
    LaunchConfig config = given;
    if (f.info().required_cluster[0] != 0 && given.cluster == std::array<u32, 3>{1, 1, 1})
        config.cluster = f.info().required_cluster;
    for (std::size_t k = 0; k < 3; ++k) {
        if (config.cluster[k] == 0) config.cluster[k] = 1;
    }
    LaunchResult result;
    Launch l;
    l.program = &f.program();
    l.module = f.module_;
    l.config = &config;
    l.memory = &memory;
    l.threads_per_block = config.block[0] * config.block[1] * config.block[2];
    l.blocks = u64(config.grid[0]) * config.grid[1] * config.grid[2];
    if (l.threads_per_block == 0 || l.blocks == 0) return result;
    for (std::size_t k = 0; k < 3; ++k) {
        if (config.grid[k] % config.cluster[k] == 0) continue;
        result.fault = Fault::launch_failure;
        result.detail =
            "launch failure: kernel " + f.info().name + ": the grid is no multiple of the cluster";
        return result;
    }
    l.warps_per_block = (l.threads_per_block + kLanes - 1) / kLanes;
    l.shared_bytes = f.program().dynamic_shared_at + config.dynamic_shared_bytes;
    l.budget = config.instruction_budget;
    const auto* bytes = static_cast<const u8*>(config.params);
    if (f.info().param_bytes != 0 && bytes != nullptr) l.params.assign(bytes, bytes + f.info().param_bytes);
    l.params.resize(std::max<std::size_t>(l.params.size(), f.info().param_bytes));
    if (config.cooperative) {
        l.workspace_bytes = 4096;
        l.workspace = std::make_unique<u32[]>(l.workspace_bytes / 4);
    }
    bool ordered = l.program->ordered || config.cooperative || l.program->cluster_ops ||
                   config.cluster[0] * config.cluster[1] * config.cluster[2] > 1;
    int threads = config.threads > 0 ? config.threads : Pool::cores();
    if (ordered || l.blocks * l.warps_per_block < 8) threads = 1;
    threads = int(std::min<u64>(u64(threads), l.blocks));
    std::vector<Worker> workers{std::size_t(threads)};
    for (Worker& w : workers) w.launch = &l;
    Outcome out;
    if (ordered)
        OrderedRun(l, workers[0], out).run();
    else
        run_unordered(l, workers, out);
    result = out.result;
    for (const Worker& w : workers) {
        result.warp_instructions += w.warp_instructions;
        result.thread_instructions += w.thread_instructions;
        result.global_bytes += w.global_bytes;
    }
    return result;
}

// Slow paths of the handlers
// --------------------------------------------------------------------------------------

bool check_range(Warp& w, u64 address, u64 bytes, bool write) {
    Worker& worker = *w.worker;
    RangeCache& c = worker.ranges;
    const u64* from = write ? c.write_from : c.read_from;
    const u64* until = write ? c.write_until : c.read_until;
    for (int k = 0; k < RangeCache::kEntries; ++k) {
        if (address >= from[k] && address + bytes <= until[k]) return true;
    }
    u64 lo = 0, hi = 0;
    const Launch& l = *worker.launch;
    u64 space = reinterpret_cast<u64>(l.workspace.get());
    if (space != 0 && address >= space && address + bytes <= space + l.workspace_bytes) {
        lo = space, hi = space + l.workspace_bytes;
    } else if (address + bytes < address || !l.memory->check(address, bytes, write, &lo, &hi)) {
        return false;
    }
    if (hi <= lo) return true;
    int k = worker.next_entry = (worker.next_entry + 1) % RangeCache::kEntries;
    (write ? c.write_from : c.read_from)[k] = lo;
    (write ? c.write_until : c.read_until)[k] = hi;
    return true;
}

void report_touch(Warp& w, u64 address, u64 bytes, bool write) {
    w.worker->launch->memory->touched(address, bytes, write);
}

void raise_fault(Warp& w, int what, u32 lane, u64 address, u64, bool) {
    throw FaultError{Fault(what), address, "", w.index, lane, static_cast<WarpState&>(w).current};
}
namespace {
std::string hex(u64 v) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
    return text;
}
}  // namespace
void raise_misaligned(Warp& w, u32 lane, u64 address, u64 bytes) {
    throw FaultError{Fault::misaligned_address,
                     address,
                     "address " + hex(address) + " is no multiple of " + std::to_string(bytes),
                     w.index,
                     lane,
                     static_cast<WarpState&>(w).current};
}
void raise_illegal(Warp& w, u32 lane, u64 address, u64 bytes, bool write, const char* space) {
    throw FaultError{Fault::illegal_address,
                     address,
                     std::string(write ? "write" : "read") + " of " + std::to_string(bytes) + " bytes at " +
                         space + " address " + hex(address),
                     w.index,
                     lane,
                     static_cast<WarpState&>(w).current};
}

}  // namespace softgpu::ptx
