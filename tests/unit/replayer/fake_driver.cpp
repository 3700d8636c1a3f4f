#include "fake_driver.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>

namespace swapadvisor::fake {
namespace {

struct Event {
    std::uint64_t recorded = 0, done = 0;
};
struct Task {
    enum Kind { body, record, wait } kind = body;
    std::function<void()> run;
    Event* event = nullptr;
    std::uint64_t version = 0;
    std::vector<Span> spans;
};
struct Stream {
    std::deque<Task> tasks;
};
struct Mapping {
    std::uint64_t bytes = 0;
    std::uint64_t handle = 0;
    bool access = false;
};
struct Handle {
    int fd = -1;
    std::uint64_t bytes = 0;
    int mappings = 0;
    bool released = false;
};

struct World {
    std::mt19937_64 random;
    double laziness = 1;
    std::uint64_t device_bytes = 0, used = 0;
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<std::unique_ptr<Event>> events;
    std::map<CUdeviceptr, std::uint64_t> reserved;
    std::map<CUdeviceptr, Mapping> mapped;
    std::map<CUdeviceptr, std::uint64_t> fixed_spans;  ///< from cuMemAlloc
    std::map<std::uint64_t, Handle> handles;
    std::uint64_t next_handle = 1;
    std::vector<std::string> errors;
    Calls calls;
    std::map<std::string, std::pair<int, CUresult>> failures;
    std::recursive_mutex mutex;
    Stream legacy;
    std::vector<std::unique_ptr<std::uint64_t[]>> fixed;
};
World* world = nullptr;
thread_local CUcontext current = reinterpret_cast<CUcontext>(0x1000);

CUresult planned_failure(const char* entry) {
    auto found = world->failures.find(entry);
    if (found == world->failures.end() || --found->second.first != 0) return CUDA_SUCCESS;
    const CUresult error = found->second.second;
    world->failures.erase(found);
    return error;
}
#define MAY_FAIL(entry)                  \
    std::lock_guard guard(world->mutex); \
    if (CUresult planned = planned_failure(entry); planned != CUDA_SUCCESS) return planned

void complain(const std::string& text) {
    world->errors.push_back(text);
}

bool is_mapped(CUdeviceptr address, std::uint64_t bytes) {
    const CUdeviceptr end = address + bytes;
    const auto fixed = world->fixed_spans.find(address);
    if (fixed != world->fixed_spans.end()) return bytes <= fixed->second;
    while (address < end) {
        auto it = world->mapped.upper_bound(address);
        if (it == world->mapped.begin()) return false;
        --it;
        if (address >= it->first + it->second.bytes || !it->second.access) return false;
        address = it->first + it->second.bytes;
    }
    return true;
}

Stream* stream_of(CUstream stream) {
    return stream == nullptr || stream == CU_STREAM_LEGACY ? &world->legacy
                                                           : reinterpret_cast<Stream*>(stream);
}

bool runnable(const Stream& s) {
    if (s.tasks.empty()) return false;
    const Task& t = s.tasks.front();
    return t.kind != Task::wait || t.event->done >= t.version;
}

void run_front(Stream& s) {
    Task task = std::move(s.tasks.front());
    s.tasks.pop_front();
    if (task.kind == Task::record) task.event->done = std::max(task.event->done, task.version);
    if (task.kind != Task::body) return;
    for (const Span& span : task.spans)
        if (!is_mapped(span.address, span.bytes)) {
            complain("work on unmapped memory");
            return;
        }
    task.run();
}

bool step() {
    std::vector<Stream*> ready;
    if (runnable(world->legacy)) ready.push_back(&world->legacy);
    for (auto& s : world->streams)
        if (runnable(*s)) ready.push_back(s.get());
    if (ready.empty()) return false;
    run_front(*ready[world->random() % ready.size()]);
    return true;
}

void breathe() {
    if (world->laziness >= 1) return;
    while (std::uniform_real_distribution<>(0, 1)(world->random) >= world->laziness)
        if (!step()) return;
}

void push(CUstream stream, Task task) {
    stream_of(stream)->tasks.push_back(std::move(task));
    breathe();
}

CUresult until(const std::function<bool()>& done) {
    while (!done())
        if (!step()) {
            complain("deadlock");
            return CUDA_ERROR_LAUNCH_TIMEOUT;
        }
    return CUDA_SUCCESS;
}

CUresult ctx_get(CUcontext* c) {
    *c = current;
    return CUDA_SUCCESS;
}
CUresult ctx_set(CUcontext c) {
    current = c;
    return CUDA_SUCCESS;
}
CUresult ctx_push(CUcontext c) {
    current = c;
    return CUDA_SUCCESS;
}
CUresult ctx_pop(CUcontext* c) {
    *c = current;
    current = reinterpret_cast<CUcontext>(0x1000);
    return CUDA_SUCCESS;
}

CUresult host_alloc(void** out, std::size_t bytes, unsigned) {
    MAY_FAIL("cuMemHostAlloc");
    ++world->calls.host_alloc;
    *out = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *out == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult free_host(void*) {
    return CUDA_SUCCESS;
}

CUresult reserve(CUdeviceptr* out, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
    MAY_FAIL("cuMemAddressReserve");
    ++world->calls.reserve;
    void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = reinterpret_cast<CUdeviceptr>(p);
    world->reserved[*out] = bytes;
    return CUDA_SUCCESS;
}
CUresult address_free(CUdeviceptr address, std::size_t bytes) {
    if (world->reserved.erase(address) == 0) complain("free of addresses that are not reserved");
    munmap(reinterpret_cast<void*>(address), bytes);
    return CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* out, std::size_t bytes, const CUmemAllocationProp*,
                unsigned long long) {
    MAY_FAIL("cuMemCreate");
    ++world->calls.create;
    if (world->used + bytes > world->device_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    Handle handle;
    handle.fd = memfd_create("fake", 0);
    if (ftruncate(handle.fd, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    handle.bytes = bytes;
    world->used += bytes;
    *out = world->next_handle++;
    world->handles[*out] = handle;
    return CUDA_SUCCESS;
}
void maybe_drop(std::uint64_t id) {
    Handle& handle = world->handles[id];
    if (!handle.released || handle.mappings != 0) return;
    world->used -= handle.bytes;
    close(handle.fd);
    world->handles.erase(id);
}
CUresult release(CUmemGenericAllocationHandle id) {
    MAY_FAIL("cuMemRelease");
    ++world->calls.release;
    if (!world->handles.count(id)) {
        complain("release of no handle");
        return CUDA_ERROR_INVALID_VALUE;
    }
    world->handles[id].released = true;
    maybe_drop(id);
    return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle id,
             unsigned long long) {
    MAY_FAIL("cuMemMap");
    ++world->calls.map;
    Handle& handle = world->handles[id];
    if (offset != 0 || bytes != handle.bytes) complain("map of a partial handle");
    auto next = world->mapped.lower_bound(address);
    if (next != world->mapped.end() && next->first < address + bytes) complain("map over a mapping");
    if (next != world->mapped.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address)
        complain("map over a mapping");
    mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, handle.fd,
         0);
    world->mapped[address] = {bytes, id, false};
    ++handle.mappings;
    return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc*, std::size_t) {
    MAY_FAIL("cuMemSetAccess");
    ++world->calls.set_access;
    for (auto it = world->mapped.lower_bound(address);
         it != world->mapped.end() && it->first < address + bytes; ++it)
        it->second.access = true;
    return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, std::size_t bytes) {
    MAY_FAIL("cuMemUnmap");
    ++world->calls.unmap;
    if (!world->mapped.count(address)) complain("unmap of no mapping");
    for (const auto& s : world->streams)
        for (const Task& task : s->tasks)
            for (const Span& span : task.spans)
                if (span.address < address + bytes && address < span.address + span.bytes)
                    complain("unmap while work on it is pending");
    CUdeviceptr at = address;
    while (at < address + bytes) {
        auto it = world->mapped.find(at);
        if (it == world->mapped.end() || at + it->second.bytes > address + bytes) {
            complain("unmap of a part");
            return CUDA_ERROR_INVALID_VALUE;
        }
        const std::uint64_t id = it->second.handle;
        at += it->second.bytes;
        world->mapped.erase(it);
        --world->handles[id].mappings;
        maybe_drop(id);
    }
    mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return CUDA_SUCCESS;
}
CUresult copy_in(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
    MAY_FAIL("cuMemcpyHtoDAsync");
    launch(stream, {{to, bytes}}, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
    return CUDA_SUCCESS;
}
CUresult copy_out(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    MAY_FAIL("cuMemcpyDtoHAsync");
    launch(stream, {{from, bytes}}, [=] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
    return CUDA_SUCCESS;
}
// Ordinary memory, for what is never moved.
CUresult mem_alloc(CUdeviceptr* out, std::size_t bytes) {
    MAY_FAIL("cuMemAlloc");
    world->fixed.push_back(std::make_unique<std::uint64_t[]>((bytes + 7) / 8));
    *out = reinterpret_cast<CUdeviceptr>(world->fixed.back().get());
    world->fixed_spans[*out] = bytes;
    return CUDA_SUCCESS;
}
CUresult mem_free(CUdeviceptr) {
    return CUDA_SUCCESS;
}
CUresult fill(CUdeviceptr at, unsigned char value, std::size_t bytes, CUstream stream) {
    MAY_FAIL("cuMemsetD8Async");
    launch(stream, {}, [=] { std::memset(reinterpret_cast<void*>(at), value, bytes); });
    return CUDA_SUCCESS;
}
CUresult attribute(int* value, CUdevice_attribute, CUdevice) {
    *value = 1;
    return CUDA_SUCCESS;
}
// The kernels of replayer/content_hash.h and replayer/address_search.h, by what they do.
int hash_kernel, copy_kernel, find_kernel;
CUresult load_module(CUmodule* module, const void*) {
    MAY_FAIL("cuModuleLoadData");
    *module = nullptr;
    return CUDA_SUCCESS;
}
CUresult get_function(CUfunction* function, CUmodule, const char* name) {
    *function = reinterpret_cast<CUfunction>(std::strcmp(name, "hash") == 0   ? &hash_kernel
                                             : std::strcmp(name, "find") == 0 ? &find_kernel
                                                                              : &copy_kernel);
    return CUDA_SUCCESS;
}
CUresult launch_kernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream stream, void** arguments, void**) {
    MAY_FAIL("cuLaunchKernel");
    const auto argument = [&](int i) { return *static_cast<std::uint64_t*>(arguments[i]); };
    const auto words = [](std::uint64_t at) { return reinterpret_cast<std::uint64_t*>(at); };
    if (function == reinterpret_cast<CUfunction>(&hash_kernel)) {
        launch(stream, {{argument(0), argument(1)}},
               [=, at = argument(0), n = argument(1), sum = argument(2)] {
                   for (std::uint64_t i = 0; i < n / 8; ++i) {
                       words(sum)[0] += (words(at)[i] + i) * 0x9E3779B97F4A7C15;
                       words(sum)[1] = (words(sum)[1] ^ words(at)[i]) * 0xBF58476D1CE4E5B9 + 1;
                   }
               });
    } else if (function == reinterpret_cast<CUfunction>(&find_kernel)) {
        std::vector<Span> spans;
        for (unsigned i = 0; i < blocks; ++i)
            spans.push_back({words(argument(0))[2 * i], words(argument(0))[2 * i + 1]});
        launch(stream, spans,
               [=, low = argument(1), span = argument(2), shift = *static_cast<unsigned*>(arguments[3]),
                pages = argument(4)] {
                   for (const auto& [at, n] : spans)
                       for (std::uint64_t i = 0; i < n / 8; ++i) {
                           const std::uint64_t bit = (words(at)[i] - low) >> shift;
                           if (words(at)[i] - low < span)
                               reinterpret_cast<std::uint32_t*>(pages)[bit / 32] |= 1u << bit % 32;
                       }
               });
    } else {
        launch(stream, {{argument(0), argument(2)}},
               [=, from = argument(0), to = argument(1), n = argument(2), before = argument(3),
                now = argument(4), flag = argument(5)] {
                   if (std::memcmp(words(before), words(now), 16) == 0) return;
                   ++world->calls.changed_copies;
                   std::memcpy(words(to), words(from), n);
                   *reinterpret_cast<std::uint32_t*>(flag) = 1;
               });
    }
    return CUDA_SUCCESS;
}
CUresult stream_create(CUstream* out, unsigned) {
    *out = new_stream();
    return CUDA_SUCCESS;
}
CUresult stream_destroy(CUstream) {
    return CUDA_SUCCESS;
}
CUresult stream_wait(CUstream stream, CUevent event, unsigned) {
    MAY_FAIL("cuStreamWaitEvent");
    auto* e = reinterpret_cast<Event*>(event);
    Task task;
    task.kind = Task::wait;
    task.event = e;
    task.version = e->recorded;
    push(stream, std::move(task));
    return CUDA_SUCCESS;
}
CUresult event_create(CUevent* out, unsigned) {
    MAY_FAIL("cuEventCreate");
    world->events.push_back(std::make_unique<Event>());
    *out = reinterpret_cast<CUevent>(world->events.back().get());
    return CUDA_SUCCESS;
}
CUresult event_destroy(CUevent) {
    return CUDA_SUCCESS;
}
CUresult event_record(CUevent event, CUstream stream) {
    MAY_FAIL("cuEventRecord");
    auto* e = reinterpret_cast<Event*>(event);
    Task task;
    task.kind = Task::record;
    task.event = e;
    task.version = ++e->recorded;
    push(stream, std::move(task));
    return CUDA_SUCCESS;
}
CUresult event_query(CUevent event) {
    std::lock_guard guard(world->mutex);
    breathe();
    auto* e = reinterpret_cast<Event*>(event);
    return e->done >= e->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult event_sync(CUevent event) {
    MAY_FAIL("cuEventSynchronize");
    ++world->calls.sync;
    auto* e = reinterpret_cast<Event*>(event);
    return until([=] { return e->done >= e->recorded; });
}
CUresult exchange(CUstreamCaptureMode* mode) {
    *mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return CUDA_SUCCESS;
}
}  // namespace

void reset(std::uint64_t seed, double laziness, std::uint64_t device_bytes) {
    if (world != nullptr) {
        for (auto& [id, handle] : world->handles) close(handle.fd);
        for (auto& [address, bytes] : world->reserved) munmap(reinterpret_cast<void*>(address), bytes);
        delete world;
    }
    world = new World;
    world->random.seed(seed);
    world->laziness = laziness;
    world->device_bytes = device_bytes;
}

const DriverApi& api() {
    static const DriverApi table = [] {
        DriverApi a;
        a.cuCtxGetCurrent_ = ctx_get;
        a.cuCtxSetCurrent_ = ctx_set;
        a.cuCtxPushCurrent_ = ctx_push;
        a.cuCtxPopCurrent_ = ctx_pop;
        a.cuMemHostAlloc_ = host_alloc;
        a.cuMemFreeHost_ = free_host;
        a.cuMemAddressReserve_ = reserve;
        a.cuMemAddressFree_ = address_free;
        a.cuMemCreate_ = create;
        a.cuMemRelease_ = release;
        a.cuMemMap_ = map;
        a.cuMemUnmap_ = unmap;
        a.cuMemSetAccess_ = set_access;
        a.cuMemcpyHtoDAsync_ = copy_in;
        a.cuMemcpyDtoHAsync_ = copy_out;
        a.cuMemAlloc_ = mem_alloc;
        a.cuMemFree_ = mem_free;
        a.cuMemsetD8Async_ = fill;
        a.cuDeviceGetAttribute_ = attribute;
        a.cuModuleLoadData_ = load_module;
        a.cuModuleGetFunction_ = get_function;
        a.cuLaunchKernel_ = launch_kernel;
        a.cuStreamCreate_ = stream_create;
        a.cuStreamDestroy_ = stream_destroy;
        a.cuStreamWaitEvent_ = stream_wait;
        a.cuEventCreate_ = event_create;
        a.cuEventDestroy_ = event_destroy;
        a.cuEventRecord_ = event_record;
        a.cuEventQuery_ = event_query;
        a.cuEventSynchronize_ = event_sync;
        a.cuThreadExchangeStreamCaptureMode_ = exchange;
        return a;
    }();
    return table;
}

CUcontext context() {
    return reinterpret_cast<CUcontext>(0x1000);
}

CUstream new_stream() {
    std::lock_guard guard(world->mutex);
    world->streams.push_back(std::make_unique<Stream>());
    return reinterpret_cast<CUstream>(world->streams.back().get());
}

void launch(CUstream stream, std::vector<Span> spans, std::function<void()> body) {
    std::lock_guard guard(world->mutex);
    Task task;
    task.spans = std::move(spans);
    task.run = std::move(body);
    push(stream, std::move(task));
}

void synchronize(CUstream stream) {
    std::lock_guard guard(world->mutex);
    until([&] { return stream_of(stream)->tasks.empty(); });
}

void drain() {
    std::lock_guard guard(world->mutex);
    while (step()) {
    }
}

bool reachable(CUdeviceptr address, std::uint64_t bytes) {
    std::lock_guard guard(world->mutex);
    auto next = world->mapped.lower_bound(address);
    if (next != world->mapped.end() && next->first < address + bytes) return true;
    return next != world->mapped.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address;
}

const std::vector<std::string>& errors() {
    return world->errors;
}
Calls& calls() {
    return world->calls;
}
void fail(const std::string& entry, int nth, CUresult error) {
    world->failures[entry] = {nth, error};
}
void fail_no_more() {
    world->failures.clear();
}

}  // namespace swapadvisor::fake
