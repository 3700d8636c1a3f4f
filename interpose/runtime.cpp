#include "interpose/runtime.h"

#include <algorithm>
#include <cstdlib>

#include "interpose/config.h"
#include "interpose/driver.h"
#include "interpose/log.h"
#include "interpose/runtime_graphs.h"
#include "interpose/runtime_outputs.h"
#include "interpose/runtime_plan.h"
#include "interpose/runtime_report.h"
#include "interpose/runtime_state.h"
#include "recorder/callsite.h"

namespace swapadvisor {

std::atomic<Runtime*> Runtime::instance_{nullptr};
std::atomic<bool> Runtime::inert_{false};

namespace {

std::mutex creation;

}  // namespace

// Exit handlers of the program may still call CUDA after this thread's thread_locals are gone: then a new one
// is made.
PendingOp& thread_op() {
    struct Holder {
        PendingOp* op = nullptr;
        ~Holder() {
            delete op;
            op = nullptr;
        }
    };
    thread_local Holder holder;
    PendingOp* volatile& op = const_cast<PendingOp* volatile&>(holder.op);
    if (op == nullptr) op = new PendingOp;
    return *op;
}

std::uint64_t thread_number() {
    static std::atomic<std::uint64_t> next{1};
    thread_local const std::uint64_t number = next++;
    return number;
}

std::uint64_t thread_with_stream() {
    struct End {
        const std::uint64_t number = thread_number();
        ~End() {
            Runtime* const runtime = in_forked_child() ? nullptr : Runtime::get();
            if (runtime != nullptr) RuntimeState::of(runtime).thread_ended(number);
        }
    };
    thread_local const End end;
    return end.number;
}

void RuntimeState::thread_ended(std::uint64_t number) {
    const std::lock_guard lock(ended_mutex);
    ended_threads.push_back(number);
    any_ended.store(true, std::memory_order_relaxed);
}

void RuntimeState::close_ended_threads() {
    std::vector<std::uint64_t> all;
    {
        const std::lock_guard lock(ended_mutex);
        all.swap(ended_threads);
        any_ended.store(false, std::memory_order_relaxed);
    }
    for (const std::uint64_t number : all) timeline->end_thread(number);
}

RuntimeState::RuntimeState() {
    fill_driver_api(api, real_symbol, managed_copy());
    timeline = std::make_unique<Timeline>(api);
    functions = std::make_unique<FunctionTable>(api);
}

Runtime* Runtime::create() {
    std::lock_guard lock(creation);
    if (Runtime* runtime = instance_.load(std::memory_order_acquire)) return runtime;
    if (inert_.load()) return nullptr;
    if (!config().enabled) {
        inert_.store(true);
        return nullptr;
    }
    run_page();  // there was a CUDA call
    auto* state = new RuntimeState;
    if (state->api.cuMemAlloc_ == nullptr || state->api.cuCtxGetCurrent_ == nullptr ||
        state->api.cuMemMap_ == nullptr || state->api.cuMemAddressReserve_ == nullptr) {
        say("this driver has no virtual memory management: memory is left to the driver");
        delete state;
        inert_.store(true);
        return nullptr;
    }
    std::atexit([] { RuntimeState::shut_down(); });
    instance_.store(state, std::memory_order_release);
    return state;
}

void RuntimeState::stop_planning() {
    Runtime* runtime = instance_.load();
    if (runtime == nullptr || in_forked_child()) return;
    for (auto& managed : of(runtime).contexts)
        if (managed->director) managed->director->stop();
}

void RuntimeState::shut_down() {
    // The runtime goes on serving: static objects of the program may free their memory later than this.
    Runtime* runtime = instance_.load();
    if (runtime == nullptr || in_forked_child()) return;
    RuntimeState& state = of(runtime);
    stop_planning();
    // Another thread may sit in a driver call with the lock held; the process is ending, so do without it
    // then.
    const bool locked = state.mutex.try_lock();
    if (locked)
        for (auto& managed : state.contexts)
            if (managed->director) managed->director->poll_timings();
    write_reports(state);
    for (auto& managed : state.contexts) {
        if (managed->recorder) managed->recorder->close();
        if (managed->residency) managed->residency->host().stop(false);
    }
    tell_outputs(state);
    if (locked) state.mutex.unlock();
}

void RuntimeState::count(const std::string& what) {
    for (auto& [name, number] : events)
        if (name == what) {
            ++number;
            return;
        }
    events.emplace_back(what, 1);
}

Buffer* RuntimeState::find(CUdeviceptr address) const {
    if (!maybe_managed(address)) return nullptr;
    for (const auto& managed : contexts)
        if (managed->residency)
            if (Buffer* buffer = managed->residency->find(address)) return buffer;
    return nullptr;
}

Buffer* RuntimeState::find_near(CUdeviceptr address) const {
    for (const auto& managed : contexts)
        if (managed->residency)
            if (Buffer* buffer = managed->residency->find_near(address)) return buffer;
    return nullptr;
}

// --- allocations
// ----------------------------------------------------------------------------------------------------

CUresult RuntimeState::allocate(ManagedContext& m, CUdeviceptr* out, std::size_t bytes, CUstream stream) {
    const RelaxedCapture outside = outside_captures();
    const std::uint64_t site = capture_site();
    Buffer* buffer = nullptr;
    const BufferId id = next_buffer++;
    CUresult result = m.residency->allocate(bytes, id, buffer, m.director->steering().expect(bytes));
    if (result == CUDA_ERROR_OUT_OF_MEMORY && !deferred_frees.empty()) {
        review_captures();
        finish_deferred_frees();
        result = m.residency->allocate(bytes, id, buffer);
    }
    if (result != CUDA_SUCCESS) return result;
    low = std::min<std::uint64_t>(low, m.residency->addresses().low());
    high = std::max<std::uint64_t>(high, m.residency->addresses().high());
    m.director->steering().allocated(*buffer);
    if (Buffer* const page = buffer->page; page != nullptr && page->id == kNoBuffer) {
        page->id = next_buffer++;
        m.recorder->allocate(page->id, static_cast<std::int64_t>(page->bytes), false, site, stream, true);
    }
    m.recorder->allocate(id, static_cast<std::int64_t>(bytes), buffer->small, site, stream,
                         buffer->page != nullptr);
    m.habits.allocated(id, bytes, buffer->small);
    live.fetch_add(1, std::memory_order_relaxed);
    *out = buffer->address;
    return CUDA_SUCCESS;
}

std::optional<CUresult> Runtime::mem_alloc(CUdeviceptr* out, std::size_t bytes) {
    if (out == nullptr || bytes == 0) return std::nullopt;
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    ManagedContext* m = state.current_context();
    if (m == nullptr || m->unmanaged) return std::nullopt;
    return state.allocate(*m, out, bytes, nullptr);
}

std::optional<CUresult> Runtime::mem_alloc_pitch(CUdeviceptr* out, std::size_t* pitch, std::size_t width,
                                                 std::size_t height, unsigned element_bytes) {
    if (out == nullptr || pitch == nullptr || width == 0 || height == 0 ||
        (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
        return std::nullopt;
    const std::size_t rounded = (width + 511) / 512 * 512;
    if (rounded < width || height > SIZE_MAX / rounded) return std::nullopt;
    const std::optional<CUresult> result = mem_alloc(out, rounded * height);
    if (result == CUDA_SUCCESS) *pitch = rounded;
    return result;
}

std::optional<CUresult> Runtime::mem_alloc_async(CUdeviceptr* out, std::size_t bytes, CUstream stream,
                                                 DefaultStream default_stream) {
    if (out == nullptr || bytes == 0) return std::nullopt;
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    // In a capture this would be a node of the graph, with an address of the graph's own.
    if (state.is_capturing(stream, default_stream)) return std::nullopt;
    ManagedContext* m = state.current_context();
    if (m == nullptr || m->unmanaged) return std::nullopt;
    return state.allocate(*m, out, bytes, stream);
}

void RuntimeState::free(Buffer& buffer) {
    if (buffer.graphs != 0 || buffer.captures != 0 || buffer.holds != 0 || buffer.waiters != 0) {
        buffer.freed = true;
        deferred_frees.push_back(&buffer);
        return;
    }
    ManagedContext* m = nullptr;
    for (auto& managed_context : contexts)
        if (managed_context->residency.get() == buffer.owner) m = managed_context.get();
    m->habits.freed(buffer.id, buffer.small);
    m->recorder->release(buffer.id);
    m->director->steering().releasing(buffer);
    m->residency->release(buffer);
    m->director->steering().released();
    live.fetch_sub(1, std::memory_order_relaxed);
}

void RuntimeState::finish_deferred_frees() {
    std::vector<Buffer*> all;
    all.swap(deferred_frees);
    for (Buffer* buffer : all) free(*buffer);  // those still named go back into the list
}

std::optional<CUresult> Runtime::mem_free(CUdeviceptr address) {
    RuntimeState& state = RuntimeState::of(this);
    if (address == 0) return std::nullopt;
    if (state.left_count.load(std::memory_order_relaxed) != 0) [[unlikely]]
        state.forget_left(address);
    if (state.live.load(std::memory_order_relaxed) == 0) return std::nullopt;
    std::unique_lock lock(state.mutex);
    if (state.find(address) == nullptr) {
        state.drop_foreign(address, 0);
        return std::nullopt;
    }
    state.wait_for_what_host_sees(lock);
    return state.free_at(address);
}

std::optional<CUresult> Runtime::mem_free_async(CUdeviceptr address, CUstream, DefaultStream) {
    RuntimeState& state = RuntimeState::of(this);
    if (address == 0) return std::nullopt;
    if (state.left_count.load(std::memory_order_relaxed) != 0) [[unlikely]]
        state.forget_left(address);
    if (state.live.load(std::memory_order_relaxed) == 0) return std::nullopt;
    std::lock_guard lock(state.mutex);
    if (state.find(address) != nullptr) return state.free_at(address);
    state.drop_foreign(address, 0);
    return std::nullopt;
}

CUresult RuntimeState::free_at(CUdeviceptr address) {
    Buffer* const buffer = find(address);
    if (buffer == nullptr || buffer->address != address || buffer->freed) return CUDA_ERROR_INVALID_VALUE;
    free(*buffer);
    return CUDA_SUCCESS;
}

bool RuntimeState::out_of_bounds(CUdeviceptr address, std::size_t bytes) const {
    if (address == 0 || bytes == 0 || !maybe_managed(address)) return false;
    if (const Buffer* const buffer = find(address); buffer != nullptr && !buffer->freed)
        return address < buffer->address || address - buffer->address > buffer->bytes ||
               bytes > buffer->bytes - (address - buffer->address);
    for (const auto& m : contexts)
        if (m->residency && m->residency->addresses().contains(address)) return true;
    return false;
}

// The driver's own waits for the device, and programs come to rely on it: for copies to the host and for kernels that
// write memory of the host. What only the device can see needs no wait. The lock is given up meanwhile.
void RuntimeState::wait_for_what_host_sees(std::unique_lock<std::mutex>& lock) {
    if ((seen_by_host.empty() && !unknown_to_timeline) || timeline->capturing()) return;
    std::vector<CUevent> ahead;
    {
        const RelaxedCapture relaxed(api);
        seen_by_host.for_each([&](Mark mark) {
            if (timeline->done(mark)) return;
            if (const CUevent event = timeline->pin(mark); event != nullptr) ahead.push_back(event);
        });
    }
    const bool all = std::exchange(unknown_to_timeline, false);
    seen_by_host.clear();
    if (ahead.empty() && !all) return;
    lock.unlock();
    // Errors are those of the program's work, which it hears of at its own calls.
    for (const CUevent event : ahead) (void)api.cuEventSynchronize_(event);
    if (all) (void)api.cuCtxSynchronize_();
    lock.lock();
    for (const CUevent event : ahead) timeline->unpin(event);
}

void Runtime::left_to_driver(CUdeviceptr address, std::size_t bytes, const char* reason) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    ManagedContext* m = state.current_context();
    if (m == nullptr) return;
    LeftMemory& sum = m->left[reason];
    sum.peak_buffers = std::max(sum.peak_buffers, ++sum.buffers);
    sum.peak_bytes = std::max(sum.peak_bytes, sum.bytes += bytes);
    state.left[address] = {m->context, bytes, reason};
    state.left_count.store(state.left.size(), std::memory_order_relaxed);
}

void RuntimeState::forget_left(CUdeviceptr address) {
    std::lock_guard lock(mutex);
    const auto it = left.find(address);
    if (it == left.end()) return;
    for (auto& m : contexts) {
        if (m->context != it->second.context) continue;
        LeftMemory& sum = m->left[it->second.reason];
        --sum.buffers;
        sum.bytes -= it->second.bytes;
    }
    left.erase(it);
    left_count.store(left.size(), std::memory_order_relaxed);
}

std::optional<CUresult> Runtime::mem_get_info(std::size_t* free_bytes, std::size_t* total_bytes) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    ManagedContext* m = state.current_context();
    if (m == nullptr || m->unmanaged) return std::nullopt;
    const Residency& r = *m->residency;
    const std::uint64_t held = r.counts().live_bytes, limit = r.memory_limit_bytes(),
                        host = r.options().host_limit_bytes;
    const bool with_host = config().info == MemoryInfo::host;
    std::uint64_t free = limit + host > held ? limit + host - held : 0;
    if (!with_host) {
        // What one kernel could use: what is left below the limit, or, of a program that holds more already, all that
        // can be had by sending the rest away.
        const std::uint64_t fixed = r.fixed_bytes();
        free = std::min(free, held < limit ? limit - held : limit > fixed ? limit - fixed : 0);
    }
    const auto device = static_cast<std::uint64_t>(m->model.memory_bytes);
    if (total_bytes != nullptr) *total_bytes = with_host ? limit + host : device;
    if (free_bytes != nullptr) *free_bytes = free;
    return CUDA_SUCCESS;
}

std::optional<CUresult> Runtime::mem_get_address_range(CUdeviceptr* base, std::size_t* bytes,
                                                       CUdeviceptr address) {
    RuntimeState& state = RuntimeState::of(this);
    if (state.live.load(std::memory_order_relaxed) == 0) return std::nullopt;
    std::lock_guard lock(state.mutex);
    Buffer* buffer = state.find(address);
    if (buffer == nullptr || address < buffer->address || address >= buffer->address + buffer->bytes)
        return std::nullopt;
    if (base != nullptr) *base = buffer->address;
    if (bytes != nullptr) *bytes = buffer->bytes;
    return CUDA_SUCCESS;
}

std::optional<CUresult> Runtime::pointer_attribute(void* data, CUpointer_attribute attribute,
                                                   CUdeviceptr address) {
    RuntimeState& state = RuntimeState::of(this);
    if (data == nullptr || !state.maybe_managed(address)) return std::nullopt;
    std::lock_guard lock(state.mutex);
    Buffer* buffer = state.find(address);
    if (buffer == nullptr || address < buffer->address || address >= buffer->address + buffer->bytes ||
        buffer->freed) {
        // What is still mapped behind freed memory is none of the program's business.
        for (const auto& m : state.contexts)
            if (m->residency && m->residency->addresses().contains(address)) return CUDA_ERROR_INVALID_VALUE;
        return std::nullopt;
    }
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            *static_cast<CUcontext*>(data) = buffer->owner->context();
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *static_cast<unsigned*>(data) = CU_MEMORYTYPE_DEVICE;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            *static_cast<CUdeviceptr*>(data) = address;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            *static_cast<void**>(data) = nullptr;
            return CUDA_ERROR_INVALID_VALUE;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            *static_cast<unsigned long long*>(data) = buffer->id;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *static_cast<unsigned*>(data) = 0;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *static_cast<int*>(data) = buffer->owner->device();
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            *static_cast<CUdeviceptr*>(data) = buffer->address;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            *static_cast<std::size_t*>(data) = buffer->bytes;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MAPPED:
            *static_cast<unsigned*>(data) = 1;
            return CUDA_SUCCESS;
        // What follows is as for plain device memory. The driver could only tell of what is mapped there now.
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
            if (buffer->escaped != nullptr) return std::nullopt;  // by setting it, perhaps: the driver knows
            *static_cast<unsigned*>(data) = 0;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
            *static_cast<unsigned long long*>(data) = buffer->id;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
            *static_cast<CUdeviceptr*>(data) = buffer->address;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
            *static_cast<std::size_t*>(data) = buffer->bytes;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
            *static_cast<unsigned long long*>(data) = CU_MEM_HANDLE_TYPE_NONE;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
            CUdevice device = -1;
            const bool open = state.api.cuCtxGetDevice_(&device) == CUDA_SUCCESS &&
                              buffer->owner->memory().is_open_to(device);
            *static_cast<unsigned*>(data) =
                open ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
            return CUDA_SUCCESS;
        }
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            *static_cast<CUmemoryPool*>(data) = nullptr;
            return CUDA_SUCCESS;
        // Mapped memory cannot be exported so (cuIpcGetMemHandle refuses it): who asks first goes another way.
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
            *static_cast<unsigned*>(data) = 0;
            return CUDA_SUCCESS;
        default:
            return std::nullopt;
    }
}

bool Runtime::is_managed(CUdeviceptr address) const {
    const auto& state = static_cast<const RuntimeState&>(*this);
    if (state.live.load(std::memory_order_relaxed) == 0) return false;
    std::lock_guard lock(state.mutex);
    return state.find(address) != nullptr;
}

}  // namespace swapadvisor
