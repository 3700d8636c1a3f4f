#include "tests/softgpu/driver/work.h"

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/capture.h"
#include "tests/softgpu/driver/modules.h"
#include "tests/softgpu/driver/stats.h"
#include "tests/softgpu/driver/work_run.h"

namespace softgpu {
namespace {

constexpr Time kDeviceCopyOverhead = 1'000;
constexpr double kHostCopyRate = 10e9;

}  // namespace

std::uint64_t extent(const CopySide& side, const CopyWork& w) {
    return (w.depth - 1) * side.pitch * side.height + (w.height - 1) * side.pitch + w.width;
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
