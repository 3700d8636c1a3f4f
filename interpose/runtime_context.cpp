// Contexts: what is made when one is first used, and what has to go with it; streams and code likewise.
#include <unistd.h>

#include <algorithm>

#include "interpose/config.h"
#include "interpose/log.h"
#include "interpose/runtime_graphs.h"
#include "interpose/runtime_outputs.h"
#include "interpose/runtime_plan.h"
#include "interpose/runtime_plan_file.h"
#include "interpose/runtime_planner.h"
#include "interpose/runtime_report.h"
#include "interpose/runtime_state.h"
#include "recorder/output_path.h"

namespace swapadvisor {

namespace {

constexpr std::uint64_t kMiB = 1ull << 20;

std::uint64_t host_limit() {
    if (config().host_memory_bytes != 0) return config().host_memory_bytes;
    const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
    return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / 4 * 3;
}

void let_in(ManagedContext& m, CUdevice device) {
    if (m.residency && m.residency->memory().let_in(device) != CUDA_SUCCESS)
        say("managed memory could not be opened to device %d", device);
}

}  // namespace

ManagedContext* RuntimeState::context_for(CUcontext context) {
    if (context == nullptr) return nullptr;
    for (auto& managed : contexts)
        if (managed->context == context) return managed.get();
    auto owned = std::make_unique<ManagedContext>();
    ManagedContext& m = *owned;
    m.context = context;
    m.number = static_cast<int>(contexts.size());
    contexts.push_back(std::move(owned));
    auto give_up = [&](std::string reason) {
        m.unmanaged = true;
        m.reason = std::move(reason);
        note_progress(m);
        say("%s: memory of this context is left to the driver", m.reason.c_str());
        return &m;
    };
    if (api.cuCtxGetDevice_(&m.device) != CUDA_SUCCESS) return give_up("the context's device is unknown");
    if (const auto it = left_contexts.find(context); it != left_contexts.end()) return give_up(it->second);
    for (auto& other : contexts)
        if (other.get() != &m && other->device == m.device && other->residency)
            return give_up("the device already has a managed context");
    int vmm = 0;
    if (api.cuDeviceGetAttribute_(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, m.device) !=
            CUDA_SUCCESS ||
        vmm == 0)
        return give_up("the device has no virtual memory management");
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = m.device;
    std::size_t granularity = 0;
    if (api.cuMemGetAllocationGranularity_(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) !=
        CUDA_SUCCESS)
        granularity = 0;
    std::size_t device_free = 0, device_total = 0;
    if (api.cuMemGetInfo_(&device_free, &device_total) != CUDA_SUCCESS)
        return give_up("the device's memory size is unknown");

    ResidencyOptions options;
    options.page_bytes = std::max<std::uint64_t>(2 * kMiB, granularity);
    options.limit_bytes = config().memory_bytes;
    if (config().memory_fraction > 0)
        options.limit_bytes =
            static_cast<std::uint64_t>(config().memory_fraction * static_cast<double>(device_total));
    // A plan to replay brings its limit along.
    if (options.limit_bytes == 0 && !config().plan_path.empty())
        options.limit_bytes = plan_file_memory(config().plan_path, options.page_bytes);
    // Room for what the driver itself takes later (modules, local memory, its own pools).
    const std::uint64_t usable = device_free - std::min<std::uint64_t>(device_free / 16, 512 * kMiB);
    if (options.limit_bytes == 0 || options.limit_bytes > usable) options.limit_bytes = usable;
    if (options.limit_bytes < 2 * options.page_bytes)
        return give_up("a limit of " + std::to_string(options.limit_bytes) +
                       " bytes is too small (at least " + std::to_string(2 * options.page_bytes) +
                       "; set SWAPADVISOR_MEMORY)");
    options.host_limit_bytes = host_limit();
    options.region_bytes = std::max<std::uint64_t>(device_total * 64, 1ull << 36);
    options.sync_free = config().sync_free;
    options.pause = [this](CUevent event, std::chrono::microseconds step) { return pause(event, step); };
    options.note = [this](const std::string& line) {
        say("%s", line.c_str());
        if (notes.size() < 100) notes.push_back(line);
    };

    char name[256] = "";
    if (api.cuDeviceGetName_ != nullptr) api.cuDeviceGetName_(name, sizeof name, m.device);
    m.model.name = name;
    m.model.memory_bytes = static_cast<std::int64_t>(device_total);
    Recorder::Options recording;
    recording.trace_path = outputs().trace;
    if (m.number > 0) recording.trace_path = tagged_path(recording.trace_path, std::to_string(m.number));
    recording.program = program_name();
    recording.device = m.model;
    recording.limit_bytes = static_cast<std::int64_t>(options.limit_bytes);
    m.recorder = std::make_unique<Recorder>(recording);
    options.on_swap = [&m](Buffer& buffer, SwapEvent event, std::uint64_t bytes) {
        const SwapKind kind = event == SwapEvent::in    ? SwapKind::in
                              : event == SwapEvent::out ? SwapKind::out
                                                        : SwapKind::drop;
        m.recorder->swap(buffer.id, kind, static_cast<std::int64_t>(bytes), m.director->next_seq(),
                         m.residency->pool() != nullptr);
    };

    options.on_named = [&m](Buffer& buffer, const char* reason) { m.recorder->escaped(buffer.id, reason); };
    {
        const RelaxedCapture relaxed(api);
        CUresult result = CUDA_SUCCESS;
        m.residency = Residency::create(api, *timeline, context, m.device, options, result);
    }
    if (!m.residency) {
        m.recorder.reset();
        return give_up("creating streams failed");
    }
    foreign_known_to(*m.residency);
    m.director = std::make_unique<PlanDirector>(*this, m);
    note_progress(m);
    // A trace should say how fast this device copies; else that is measured when it first matters.
    if (!recording.trace_path.empty() && !timeline->capturing() && measure_device(*m.residency, m.model))
        m.recorder->set_device(m.model, static_cast<std::int64_t>(options.limit_bytes));
    return &m;
}

ManagedContext* RuntimeState::current_context() {
    CUcontext context = nullptr;
    if (api.cuCtxGetCurrent_(&context) != CUDA_SUCCESS) return nullptr;
    return context_for(context);
}

void Runtime::stream_destroyed(CUstream stream) {
    RuntimeState& state = RuntimeState::of(this);
    if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return;
    std::lock_guard lock(state.mutex);
    // A capture that began on it is given up with it.
    if (state.timeline->captures(stream, 0))
        state.drop_capture(state.capture_id(stream, DefaultStream::legacy));
    state.timeline->end_stream(nullptr, stream);
}

void Runtime::function_unloaded(CUmodule) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    state.functions->forget();
}

void Runtime::context_going(CUcontext context) {
    RuntimeState& state = RuntimeState::of(this);
    std::unique_ptr<ManagedContext> gone;
    {
        std::lock_guard lock(state.mutex);
        for (auto it = state.contexts.begin(); it != state.contexts.end(); ++it) {
            if ((*it)->context != context) continue;
            gone = std::move(*it);
            state.contexts.erase(it);
            break;
        }
        if (!gone) return;
        if (gone->director) gone->director->poll_timings();
        state.attached.erase(context);
        state.left_contexts.erase(context);
        std::erase_if(state.left, [&](const auto& entry) { return entry.second.context == context; });
        state.left_count.store(state.left.size(), std::memory_order_relaxed);
        state.timeline->end_context(context);
        state.functions->forget();
        if (gone->residency) {
            std::erase_if(state.deferred_frees, [&](Buffer* b) { return b->owner == gone->residency.get(); });
            state.live.fetch_sub(gone->residency->live_buffers(), std::memory_order_relaxed);
            forget_graphs_of(state, *gone->residency);
            keep_report(state, *gone);
        }
    }
    if (gone->director) gone->director->stop();
    if (gone->residency) gone->residency->abandon();
    if (gone->recorder) gone->recorder->close();
    std::lock_guard lock(state.mutex);
    state.ending.push_back(std::move(gone));
}

void Runtime::context_gone(CUcontext context) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    for (auto& ended : state.ending)
        if (ended->context == context && ended->residency) ended->residency->context_ended();
    // A thread that waits in it notices when it has the lock again.
    std::erase_if(state.ending, [&](const auto& ended) {
        return ended->context == context && !(ended->residency && ended->residency->pausing());
    });
    state.released.notify_all();
}

void Runtime::peer_reaches_in(CUcontext context, CUdevice device) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    for (auto& m : state.contexts)
        if (m->context == context) let_in(*m, device);
}

void Runtime::pool_reached_by(CUdevice device) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    for (auto& m : state.contexts)
        if (m->device != device) let_in(*m, device);
}

void Runtime::context_attached(CUcontext context) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    ++state.attached[context];
}

bool Runtime::context_detached(CUcontext context) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    const auto it = state.attached.find(context);
    if (it == state.attached.end()) return true;
    if (--it->second == 0) state.attached.erase(it);
    return false;
}

void Runtime::leave_context(CUcontext context, const char* reason) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    state.left_contexts.emplace(context, reason);
}

void Runtime::iteration_mark() {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    if (ManagedContext* m = state.current_context(); m != nullptr && m->recorder) m->recorder->mark();
}

}  // namespace swapadvisor
