// Launches: worker threads, the order of blocks, faults.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "tests/softgpu/ptx/exec.h"
#include "tests/softgpu/ptx/linker.h"
#include "tests/softgpu/ptx/pool.h"

namespace softgpu::ptx {
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
    Execution::State run() {
        if (next_ == 0) {
            do admit();
            while (l_.config->cooperative && next_ < clusters_);
        }
        u64 idle_rounds = 0, same_rounds = 0;
        bool advanced = false;
        while (!resident_.empty()) {
            bool ended = false;
            for (std::size_t k = 0; k < resident_.size();) {
                bool done = false;
                if (!turn(*resident_[k], done)) return Execution::State::ended;
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
            if (!l_.config->may_wait) continue;
            same_rounds = !ended && repeats_itself() ? same_rounds + 1 : 0;
            advanced = advanced || same_rounds == 0;
            if (same_rounds >= kPollingRounds && next_ == clusters_)
                return advanced ? Execution::State::advanced : Execution::State::waiting;
        }
        return Execution::State::ended;
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
    /// True if what all threads did in the last round is what they did in one of the rounds before: so many
    /// instructions, to these places. They poll memory, then (a poll of several instructions is not left at
    /// the same one each time).
    bool repeats_itself() {
        u64 round = 0, instructions = 0;
        for (const auto& c : resident_)
            for (const auto& b : c->blocks)
                for (const WarpState& w : b->warps) {
                    instructions += w.warp_instructions;
                    for (const Split& s : w.splits) round = (round ^ s.pc ^ s.mask) * 0x9e3779b97f4a7c15;
                }
        round += instructions - instructions_before_;
        instructions_before_ = instructions;
        const bool seen = std::find(rounds_.begin(), rounds_.end(), round) != rounds_.end();
        rounds_[round_++ % rounds_.size()] = round;
        return seen;
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
    static constexpr u64 kPollingRounds = 16;
    std::array<u64, 8> rounds_{};
    u64 round_ = 0, instructions_before_ = 0;
};

class KernelExecution : public Execution {
  public:
    KernelExecution(const LoadedFunction& f, const LaunchConfig& given, Memory& memory) : config_(given) {
        if (f.info().required_cluster[0] != 0 && given.cluster == std::array<u32, 3>{1, 1, 1})
            config_.cluster = f.info().required_cluster;
        for (u32& size : config_.cluster) size = std::max(size, 1u);
        l_.program = &f.program();
        l_.module = f.module_;
        l_.config = &config_;
        l_.memory = &memory;
        l_.threads_per_block = config_.block[0] * config_.block[1] * config_.block[2];
        l_.blocks = u64(config_.grid[0]) * config_.grid[1] * config_.grid[2];
        if (l_.threads_per_block == 0) l_.blocks = 0;
        for (std::size_t k = 0; k < 3; ++k) {
            if (config_.grid[k] % config_.cluster[k] == 0) continue;
            out_.result.fault = Fault::launch_failure;
            out_.result.detail =
                "launch failure: kernel " + f.info().name + ": the grid is no multiple of the cluster";
            l_.blocks = 0;
        }
        if (l_.blocks == 0) return;
        l_.warps_per_block = (l_.threads_per_block + kLanes - 1) / kLanes;
        l_.shared_bytes = f.program().dynamic_shared_at + config_.dynamic_shared_bytes;
        l_.budget = config_.instruction_budget;
        const auto* bytes = static_cast<const u8*>(config_.params);
        if (f.info().param_bytes != 0 && bytes != nullptr)
            l_.params.assign(bytes, bytes + f.info().param_bytes);
        l_.params.resize(std::max<std::size_t>(l_.params.size(), f.info().param_bytes));
        if (config_.cooperative) {
            l_.workspace_bytes = 4096;
            l_.workspace = std::make_unique<u32[]>(l_.workspace_bytes / 4);
        }
        const bool ordered = l_.program->ordered || config_.cooperative || l_.program->cluster_ops ||
                             config_.cluster[0] * config_.cluster[1] * config_.cluster[2] > 1;
        int threads = config_.threads > 0 ? config_.threads : Pool::cores();
        if (ordered || l_.blocks * l_.warps_per_block < 8) threads = 1;
        workers_ = std::vector<Worker>(std::size_t(std::min<u64>(u64(threads), l_.blocks)));
        for (Worker& w : workers_) w.launch = &l_;
        if (ordered) ordered_ = std::make_unique<OrderedRun>(l_, workers_[0], out_);
    }

    State run() override {
        if (l_.blocks == 0) return State::ended;
        if (ordered_) {
            workers_[0].ranges = {};  // memory may have gone since the last turn
            if (const State state = ordered_->run(); state != State::ended) return state;
        } else {
            run_unordered(l_, workers_, out_);
        }
        for (const Worker& w : workers_) {
            out_.result.warp_instructions += w.warp_instructions;
            out_.result.thread_instructions += w.thread_instructions;
            out_.result.global_bytes += w.global_bytes;
        }
        return State::ended;
    }
    const LaunchResult& result() const override { return out_.result; }

  private:
    LaunchConfig config_;
    Launch l_;
    std::vector<Worker> workers_;
    Outcome out_;
    std::unique_ptr<OrderedRun> ordered_;
};

}  // namespace

std::unique_ptr<Execution> start(const Function& function, const LaunchConfig& config, Memory& memory) {
    return std::make_unique<KernelExecution>(static_cast<const LoadedFunction&>(function), config, memory);
}

LaunchResult launch(const Function& function, const LaunchConfig& config, Memory& memory) {
    const auto execution = start(function, config, memory);
    while (execution->run() != Execution::State::ended) {
    }
    return execution->result();
}

}  // namespace softgpu::ptx
