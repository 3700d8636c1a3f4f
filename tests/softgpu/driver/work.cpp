#include "tests/softgpu/driver/work.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/capture.h"
#include "tests/softgpu/driver/kernel_memory.h"
#include "tests/softgpu/driver/modules.h"
#include "tests/softgpu/driver/race.h"
#include "tests/softgpu/driver/stats.h"

namespace softgpu {
namespace {

using ull = unsigned long long;

Time duration_of(double amount, double per_second) {
    return static_cast<Time>(std::llround(amount * 1e9 / per_second));
}

constexpr Time kDeviceCopyOverhead = 1'000;
constexpr double kHostCopyRate = 10e9;

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

std::uint64_t extent(const CopySide& side, const CopyWork& w) {
    return (w.depth - 1) * side.pitch * side.height + (w.height - 1) * side.pitch + w.width;
}

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

void run_kernel(Op& op, const KernelWork& w) {
    if (op.context->error != CUDA_SUCCESS) return;
    Driver& d = driver();
    const Options& o = options();
    ptx::LaunchConfig config;
    for (unsigned i = 0; i < 3; ++i) {
        config.grid[i] = w.grid[i];
        config.block[i] = w.block[i];
        config.cluster[i] = w.cluster[i];
    }
    config.dynamic_shared_bytes = w.shared_bytes;
    config.cooperative = w.cooperative;
    config.params = w.params.data();
    config.threads = o.threads;
    config.clock_base_ns = op.start;
    KernelMemory& memory = *op.context->kernel_memory;
    memory.begin_launch(op);
    const ptx::LaunchResult result = ptx::launch(*w.resolved->function, config, memory);
    memory.end_launch(op);
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

// ---- batch memory operations ----

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

/// Works through the list as far as it goes; true at its end.
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

// ---- validation ----

CUresult validate_side(CUctx_st* context, const CopySide& side, std::uint64_t bytes, bool write,
                       bool peer = false) {
    if (bytes == 0) return CUDA_SUCCESS;
    Memory& memory = driver().memory;
    if (side.address == 0) return CUDA_ERROR_INVALID_VALUE;
    const Span* span = memory.find(side.address);
    const auto& in_graphs = driver().graph_addresses;
    if (auto it = in_graphs.upper_bound(side.address); !span && it != in_graphs.begin()) {
        --it;  // memory of a graph: mapped when the graph is launched
        if (side.address + bytes <= it->first + it->second) return CUDA_SUCCESS;
    }
    if (!span) {
        const bool must_be_known = side.type == CU_MEMORYTYPE_DEVICE || memory.in_range(side.address);
        return must_be_known ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    bool allowed = true;
    const bool covered = memory.cover(side.address, bytes, [&](const Span& s, std::uint64_t, std::uint64_t) {
        const int device = peer && s.device >= 0 ? s.device : context->device;
        const std::uint8_t access = s.access[static_cast<std::size_t>(device)];
        if (s.kind == SpanKind::mapped && (access == kNoAccess || (write && access != kReadWrite)))
            allowed = false;
        // One allocation: running on into its neighbour is a mistake even where the neighbour happens to be
        // mapped.
        if (s.kind != SpanKind::mapped && &s != span) allowed = false;
    });
    return covered && allowed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult validate_kernel(CUctx_st* context, const KernelWork& w) {
    if (!w.resolved) return CUDA_ERROR_INVALID_HANDLE;
    if (w.resolved->module->context != context) return CUDA_ERROR_INVALID_CONTEXT;
    const ptx::FunctionInfo& info = w.resolved->function->info();
    std::uint64_t threads = 1;
    for (unsigned i = 0; i < 3; ++i) {
        if (w.grid[i] == 0 || w.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
        threads *= w.block[i];
    }
    if (w.grid[0] > 0x7fffffff || w.grid[1] > 65535 || w.grid[2] > 65535) return CUDA_ERROR_INVALID_VALUE;
    if (w.block[0] > 1024 || w.block[1] > 1024 || w.block[2] > 64 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (threads > info.max_threads) return CUDA_ERROR_INVALID_VALUE;
    if (info.registers * threads > 65536) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (w.shared_bytes > dynamic_shared_limit(w.resolved)) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t cluster = 1;
    for (unsigned i = 0; i < 3; ++i) {
        if (w.cluster[i] == 0 || w.grid[i] % w.cluster[i]) return CUDA_ERROR_INVALID_VALUE;
        cluster *= w.cluster[i];
    }
    if (cluster > 1 && options().cc_major < 9) return CUDA_ERROR_INVALID_VALUE;
    if (cluster > 16 || (cluster > 8 && !w.resolved->non_portable_cluster))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    return CUDA_SUCCESS;
}

}  // namespace

bool table_duration(const std::string& kernel, Time* ns) {
    static const auto* const table = [] {
        auto* rows = new std::vector<std::pair<std::regex, Time>>;
        const std::string& path = options().kernel_table;
        if (path.empty()) return rows;
        std::ifstream file(path);
        if (!file) {
            say("error: cannot read the kernel table %s", path.c_str());
            std::_Exit(2);
        }
        std::string line;
        for (int number = 1; std::getline(file, line); ++number) {
            if (line.empty() || line[0] == '#') continue;
            const auto space = line.find_last_of(" \t");
            try {
                // A time of "$1" is the number that the pattern's first group matched.
                const std::string time = line.substr(space + 1);
                rows->emplace_back(std::regex(line.substr(0, line.find_last_not_of(" \t", space) + 1)),
                                   time == "$1" ? kNever : std::stoull(time));
            } catch (const std::exception&) {
                say("error: %s line %d: expected 'REGEX NANOSECONDS'", path.c_str(), number);
                std::_Exit(2);
            }
        }
        return rows;
    }();
    if (table->empty()) return false;
    static std::unordered_map<std::string, Time> known;  // guarded by the driver's lock
    const auto it = known.find(kernel);
    if (it != known.end()) {
        *ns = it->second;
        return it->second != kNever;
    }
    Time found = kNever;
    std::smatch match;
    for (const auto& [pattern, time] : *table)
        if (std::regex_search(kernel, match, pattern)) {
            found = time != kNever ? time : match.size() > 1 ? std::stoull("0" + match[1].str()) : 0;
            break;
        }
    known[kernel] = found;
    *ns = found;
    return found != kNever;
}

bool known_memory(std::uint64_t address, std::uint64_t bytes) {
    return driver().memory.cover(address, bytes, [](const Span&, std::uint64_t, std::uint64_t) {});
}

bool on_device(std::uint64_t address) {
    const Span* span = driver().memory.find(address);
    if (!span) {
        const auto& in_graphs = driver().graph_addresses;
        auto it = in_graphs.upper_bound(address);
        return it != in_graphs.begin() && address < (--it)->first + it->second;
    }
    return span && !span->on_host() && span->kind != SpanKind::managed;
}

CUresult validate(CUctx_st* context, const Work& work) {
    if (const auto* w = std::get_if<KernelWork>(&work)) return validate_kernel(context, *w);
    if (const auto* w = std::get_if<CopyWork>(&work)) {
        if (w->bytes() == 0) return CUDA_SUCCESS;
        if (const CUresult r = w->staged
                                   ? CUDA_SUCCESS
                                   : validate_side(context, w->from, extent(w->from, *w), false, w->peer);
            r)
            return r;
        return validate_side(context, w->to, extent(w->to, *w), true, w->peer);
    }
    if (const auto* w = std::get_if<MemsetWork>(&work)) {
        const std::uint64_t row = w->width * w->element;
        if (row == 0 || w->height == 0) return CUDA_SUCCESS;
        if (w->to % w->element) return CUDA_ERROR_INVALID_VALUE;
        if (w->height > 1 && w->pitch < row) return CUDA_ERROR_INVALID_VALUE;
        return validate_side(context, {w->to, w->pitch, w->height, CU_MEMORYTYPE_DEVICE},
                             (w->height - 1) * w->pitch + row, true);
    }
    if (const auto* w = std::get_if<HostWork>(&work))
        return w->function || w->callback ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (const auto* w = std::get_if<BatchWork>(&work)) {
        for (const CUstreamBatchMemOpParams& p : w->ops) {
            const bool wide = p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                              p.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
            if (p.operation > CU_STREAM_MEM_OP_WRITE_VALUE_64 ||
                p.operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
                continue;
            if (p.waitValue.address % (wide ? 8 : 4) || !known_memory(p.waitValue.address, wide ? 8 : 4))
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

OpRef make_op(const StreamRef& stream, const Work& work) {
    Driver& d = driver();
    const Options& o = options();
    if (const auto* w = std::get_if<KernelWork>(&work)) {
        OpRef op = new_op(stream, "", Engine::compute);
        op->name = w->resolved->name;
        op->on_start = [w = *w](Op& self) { run_kernel(self, w); };
        return op;
    }
    if (const auto* w = std::get_if<CopyWork>(&work)) {
        const bool from_device = !w->staged && on_device(w->from.address),
                   to_device = on_device(w->to.address);
        const std::uint64_t bytes = w->bytes();
        OpRef op;
        if (from_device && to_device) {
            const Span *a = d.memory.find(w->from.address), *b = d.memory.find(w->to.address);
            const int source = a ? a->device : stream->context->device, target = b ? b->device : source;
            if (source == target) {
                op = new_op(stream, "copy d2d", Engine::compute);
                op->duration =
                    kDeviceCopyOverhead + duration_of(2.0 * static_cast<double>(bytes), o.memory_bytes_per_s);
                d.stats->d2d_bytes += bytes;
            } else {
                op = new_op(stream, "copy peer", Engine::d2h);
                op->device = source;
            }
        } else if (to_device) {
            op = new_op(stream, "copy h2d", Engine::h2d);
        } else if (from_device) {
            op = new_op(stream, "copy d2h", Engine::d2h);
        } else {
            op = new_op(stream, "copy h2h");
            op->duration = duration_of(static_cast<double>(bytes), kHostCopyRate);
        }
        op->bytes = bytes;
        ++d.copies_started;
        for (const CopyFault& fault : o.copy_faults)
            if (fault.nth == d.copies_started) {
                op->slow_down = fault.factor;
                op->stuck = fault.stuck;
                ++d.stats->faults_injected;
            }
        if (bytes == 0) op->engine = Engine::none;
        op->on_end = [w = *w](Op& self) { run_copy(self, w); };
        return op;
    }
    if (const auto* w = std::get_if<MemsetWork>(&work)) {
        OpRef op = new_op(stream, "memset", Engine::compute);
        const std::uint64_t bytes = w->width * w->element * w->height;
        op->duration = kDeviceCopyOverhead + duration_of(static_cast<double>(bytes), o.memory_bytes_per_s);
        d.stats->memset_bytes += bytes;
        op->on_end = [w = *w](Op& self) { run_memset(self, w); };
        return op;
    }
    if (const auto* w = std::get_if<HostWork>(&work)) {
        OpRef op = new_op(stream, "host function");
        op->tells_host = true;
        CUctx_st* context = stream->context;
        if (w->callback)
            op->host_function = [w = *w, context] { w.callback(w.stream, context->error, w.user); };
        else
            op->host_function = [w = *w, context] {
                if (context->error == CUDA_SUCCESS) w.function(w.user);
            };
        return op;
    }
    if (const auto* w = std::get_if<BatchWork>(&work)) {
        OpRef op = new_op(stream, "memory operations");
        auto at = std::make_shared<std::size_t>(0);
        op->gate = [list = w->ops, at, raw = op.get()] { return step_batch(*raw, list, at.get()); };
        return op;
    }
    OpRef op = new_op(stream, std::holds_alternative<RecordWork>(work) ? "event record" : "marker");
    op->quiet = true;
    return op;
}

void note_work(const OpRef& op, const Work& work) {
    Memory& memory = driver().memory;
    const auto note = [&](std::uint64_t address, std::uint64_t bytes, bool write) {
        memory.cover(address, bytes,
                     [&](Span& span, std::uint64_t, std::uint64_t) { note_span_use(*op, span, write); });
    };
    if (const auto* w = std::get_if<CopyWork>(&work); w && w->bytes()) {
        if (!w->staged) note(w->from.address, extent(w->from, *w), false);
        note(w->to.address, extent(w->to, *w), true);
    } else if (const auto* m = std::get_if<MemsetWork>(&work); m && m->width && m->height) {
        note(m->to, (m->height - 1) * m->pitch + m->width * m->element, true);
    }
}

void bound_queue(Call& call) {
    Driver& d = driver();
    if (d.sim.undone() <= options().queue) return;
    d.sim.run_until(call.lock(), [&] { return d.sim.undone() <= options().queue; });
    ThreadState& t = thread_state();
    t.time = std::max(t.time, d.sim.now());
}

CUresult submit(Call& call, const StreamRef& stream, Work work, OpRef* out) {
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->context->error != CUDA_SUCCESS) return stream->context->error;
    if (stream->capture) {
        if (auto* w = std::get_if<RecordWork>(&work)) return capture_record(stream, w->event);
        return capture(stream, std::move(work));
    }
    if (const CUresult r = refuse_implicit(stream); r != CUDA_SUCCESS) return r;
    if (const CUresult r = validate(stream->context, work); r != CUDA_SUCCESS) return r;
    OpRef op = make_op(stream, work);
    if (auto* w = std::get_if<RecordWork>(&work); w && w->event->shared) {
        const std::uint64_t number = ++w->event->shared->state->recorded;
        op->on_end = [shared = w->event->shared, number](Op&) { shared->state->reached.store(number); };
    }
    enqueue(stream, op);
    note_work(op, work);
    if (auto* w = std::get_if<RecordWork>(&work)) {
        w->event->record = op;
        w->event->captured = false;
    }
    if (out) *out = op;
    bound_queue(call);
    return CUDA_SUCCESS;
}

}  // namespace softgpu
