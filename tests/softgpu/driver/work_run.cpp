#include "tests/softgpu/driver/work_run.h"

#include <atomic>
#include <cstring>

#include "tests/softgpu/driver/kernel_memory.h"
#include "tests/softgpu/driver/modules.h"
#include "tests/softgpu/driver/race.h"
#include "tests/softgpu/driver/stats.h"

namespace softgpu {
namespace {

using ull = unsigned long long;

void illegal_access(const Op& op, const std::string& text) {
    ++driver().stats->illegal_accesses;
    say("illegal access: %s", text.c_str());
    fail_context(op.context, CUDA_ERROR_ILLEGAL_ADDRESS);
}

/// Checks a range that is about to be used by a copy or memset on the device; reports and fails the context
/// if bad.
bool usable(const Op& op, std::uint64_t address, std::uint64_t bytes, bool write, bool peer = false) {
    Memory& memory = driver().memory;
    if (bytes == 0) return true;
    const Span* first = memory.find(address);
    if (!first && !memory.in_range(address)) return true;  // pageable host memory
    bool allowed = true;
    const bool covered = memory.cover(address, bytes, [&](Span& span, std::uint64_t, std::uint64_t) {
        const int device = peer && span.device >= 0 ? span.device : op.context->device;
        const std::uint8_t access = span.access[static_cast<std::size_t>(device)];
        allowed &= access == kReadWrite || (access == kRead && !write) || !span.on_host();
        if (!span.on_host() && span.kind == SpanKind::mapped) allowed &= access != kNoAccess;
        if (span.kind != SpanKind::mapped && &span != first) allowed = false;
        if (options().strict && span.born >= op.id && !span.ordered)
            report_strictness("%s #%llu uses %s [0x%llx, +%llu) that was mapped after it was enqueued",
                              op.name->c_str(), static_cast<ull>(op.id), span_kind_name(span.kind),
                              static_cast<ull>(span.begin), static_cast<ull>(span.bytes()));
        if (span.ordered) check_stream_order(op, span);
    });
    if (covered && allowed) return true;
    char text[300];
    std::snprintf(
        text, sizeof text, "%s of %llu bytes at 0x%llx: %s", op.name->c_str(), static_cast<ull>(bytes),
        static_cast<ull>(address),
        covered ? "no access was set, or past the end of the allocation" : memory.nearest(address).c_str());
    illegal_access(op, text);
    return false;
}

CUresult fault_to_result(ptx::Fault fault) {
    switch (fault) {
        case ptx::Fault::none:
            return CUDA_SUCCESS;
        case ptx::Fault::illegal_address:
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        case ptx::Fault::misaligned_address:
            return CUDA_ERROR_MISALIGNED_ADDRESS;
        case ptx::Fault::illegal_instruction:
            return CUDA_ERROR_ILLEGAL_INSTRUCTION;
        case ptx::Fault::assert_failed:
            return CUDA_ERROR_ASSERT;
        case ptx::Fault::stack_error:
            return CUDA_ERROR_HARDWARE_STACK_ERROR;
        case ptx::Fault::timeout:
            return CUDA_ERROR_LAUNCH_TIMEOUT;
        case ptx::Fault::trap:
            return CUDA_ERROR_LAUNCH_FAILED;
        case ptx::Fault::launch_failure:
            return CUDA_ERROR_LAUNCH_FAILED;
    }
    return CUDA_ERROR_UNKNOWN;
}

template <class T>
T load(std::uint64_t address) {
    return std::atomic_ref<T>(*reinterpret_cast<T*>(address)).load(std::memory_order_acquire);
}

template <class T>
bool satisfied(std::uint64_t address, T value, unsigned flags) {
    const T now = load<T>(address);
    switch (flags & 3) {
        case CU_STREAM_WAIT_VALUE_GEQ:
            return static_cast<std::make_signed_t<T>>(now - value) >= 0;
        case CU_STREAM_WAIT_VALUE_EQ:
            return now == value;
        case CU_STREAM_WAIT_VALUE_AND:
            return (now & value) != 0;
        default:
            return ~(now | value) != 0;
    }
}

void end_kernel(Op& op, const ptx::LaunchResult& result) {
    Driver& d = driver();
    const Options& o = options();
    ++d.stats->kernels;
    d.stats->thread_instructions += result.thread_instructions;
    d.stats->global_bytes += result.global_bytes;
    if (result.fault != ptx::Fault::none) {
        std::string text = result.detail;
        if (result.fault == ptx::Fault::illegal_address) {
            illegal_access(op, text + "; nearest: " + d.memory.nearest(result.fault_address));
        } else {
            say("fault: %s", text.c_str());
        }
        fail_context(op.context, fault_to_result(result.fault));
    }
    if (table_duration(*op.name, &op.duration)) return;
    op.duration = o.launch +
                  std::max(duration_of(static_cast<double>(result.thread_instructions), o.instructions_per_s),
                           duration_of(static_cast<double>(result.global_bytes), o.memory_bytes_per_s));
}

}  // namespace

void run_copy(const Op& op, const CopyWork& w) {
    if (op.context->error != CUDA_SUCCESS || w.bytes() == 0) return;
    if (!w.staged && !usable(op, w.from.address, extent(w.from, w), false, w.peer)) return;
    if (!usable(op, w.to.address, extent(w.to, w), true, w.peer)) return;
    Memory& memory = driver().memory;
    const std::uint64_t from = w.staged ? reinterpret_cast<std::uint64_t>(w.staged->data()) : w.from.address;
    for (std::uint64_t z = 0; z < w.depth; ++z)
        for (std::uint64_t y = 0; y < w.height; ++y) {
            const std::uint64_t source = from + (z * w.from.height + y) * w.from.pitch;
            const std::uint64_t target = w.to.address + (z * w.to.height + y) * w.to.pitch;
            sparse_copy(memory, target, source, w.width);
            if (!w.staged) note_use(op, source, w.width, false);
            note_use(op, target, w.width, true);
        }
}

void run_memset(const Op& op, const MemsetWork& w) {
    const std::uint64_t row = w.width * w.element;
    if (op.context->error != CUDA_SUCCESS || row == 0 || w.height == 0) return;
    if (!usable(op, w.to, (w.height - 1) * w.pitch + row, true)) return;
    Memory& memory = driver().memory;
    for (std::uint64_t y = 0; y < w.height; ++y) {
        const std::uint64_t at = w.to + y * w.pitch;
        note_use(op, at, row, true);
        if (w.value == 0) {
            sparse_zero(memory, at, row);
        } else if (w.element == 1) {
            std::memset(reinterpret_cast<void*>(at), static_cast<int>(w.value), row);
        } else if (w.element == 2) {
            std::fill_n(reinterpret_cast<std::uint16_t*>(at), w.width, static_cast<std::uint16_t>(w.value));
        } else {
            std::fill_n(reinterpret_cast<std::uint32_t*>(at), w.width, w.value);
        }
    }
}

void run_kernel(Op& op, const KernelWork& w) {
    if (op.context->error != CUDA_SUCCESS) return;
    ptx::LaunchConfig config;
    for (unsigned i = 0; i < 3; ++i) {
        config.grid[i] = w.grid[i];
        config.block[i] = w.block[i];
        config.cluster[i] = w.cluster[i];
    }
    config.dynamic_shared_bytes = w.shared_bytes;
    config.cooperative = w.cooperative;
    config.params = w.params.data();
    config.threads = options().threads;
    config.clock_base_ns = op.start;
    // What it waits for may be a kernel of another device, a copy, or the host.
    config.may_wait = true;
    const std::shared_ptr<ptx::Execution> execution =
        ptx::start(*w.resolved->function, config, *op.context->kernel_memory);
    const auto turn = [execution](Op& self) {
        KernelMemory& memory = *self.context->kernel_memory;
        memory.begin_launch(self);
        const ptx::Execution::State state = execution->run();
        memory.end_launch(self);
        if (state == ptx::Execution::State::waiting) return Resumed::waiting;
        if (state == ptx::Execution::State::advanced) return Resumed::advanced;
        end_kernel(self, execution->result());
        return Resumed::ended;
    };
    if (turn(op) != Resumed::ended) op.resume = turn;
}

bool step_batch(Op& op, const std::vector<CUstreamBatchMemOpParams>& list, std::size_t* at) {
    for (; *at < list.size(); ++*at) {
        const CUstreamBatchMemOpParams& p = list[*at];
        if (op.context->error != CUDA_SUCCESS) return true;
        const bool wide =
            p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || p.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        switch (p.operation) {
            case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            case CU_STREAM_MEM_OP_WAIT_VALUE_64:
                if (!usable(op, p.waitValue.address, wide ? 8 : 4, false)) return true;
                if (wide ? !satisfied<std::uint64_t>(p.waitValue.address, p.waitValue.value64,
                                                     p.waitValue.flags)
                         : !satisfied<std::uint32_t>(p.waitValue.address, p.waitValue.value,
                                                     p.waitValue.flags))
                    return false;
                // What the writer knew holds from here on.
                if (const auto it = driver().written_values.find(p.waitValue.address);
                    it != driver().written_values.end()) {
                    join(op.clock, it->second);
                    op.late_clock = true;
                }
                break;
            case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            case CU_STREAM_MEM_OP_WRITE_VALUE_64:
                if (!usable(op, p.writeValue.address, wide ? 8 : 4, true)) return true;
                if (wide)
                    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(p.writeValue.address))
                        .store(p.writeValue.value64, std::memory_order_release);
                else
                    std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(p.writeValue.address))
                        .store(p.writeValue.value, std::memory_order_release);
                join(driver().written_values[p.writeValue.address], op.clock);
                break;
            default:
                break;  // flushes and barriers: everything before is visible already
        }
    }
    return true;
}

}  // namespace softgpu
