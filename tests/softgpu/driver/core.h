// The driver's objects and its one lock. Handles are pointers to these structs; a registry says which are
// alive.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/softgpu/driver/memory.h"
#include "tests/softgpu/driver/options.h"
#include "tests/softgpu/driver/sim.h"

namespace softgpu {
struct Graph;
struct CaptureSession;
class KernelMemory;
class RaceCheck;
struct Stats;
using StreamRef = std::shared_ptr<CUstream_st>;
using EventRef = std::shared_ptr<CUevent_st>;

/// What processes see of an interprocess event: records made and records reached, in shared memory.
struct SharedEvent {
    struct State {
        std::atomic<std::uint64_t> recorded, reached;
    };
    int fd = -1;
    State* state = nullptr;
    explicit SharedEvent(int fd);
    ~SharedEvent();
    bool complete() const { return state->reached.load() >= state->recorded.load(); }
};
}  // namespace softgpu

struct CUstream_st {
    CUctx_st* context = nullptr;
    unsigned flags = 0;  ///< CU_STREAM_NON_BLOCKING
    int priority = 0;
    bool legacy = false, per_thread = false;
    std::uint64_t id = 0;
    unsigned slot = 0;
    softgpu::OpRef tail;  ///< last operation
    std::shared_ptr<softgpu::CaptureSession> capture;
    std::vector<CUgraphNode_st*> capture_leaves;  ///< what the next captured operation depends on
    CUstreamAttrValue attributes[16]{};

    bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING); }
};

struct CUevent_st {
    CUctx_st* context = nullptr;
    unsigned flags = 0;
    softgpu::OpRef record;  ///< last record operation; null: never recorded (counts as complete)
    std::weak_ptr<softgpu::CaptureSession> capture;  ///< recorded last in this capture
    std::vector<CUgraphNode_st*> capture_nodes;
    bool captured = false;
    std::shared_ptr<softgpu::SharedEvent> shared;  ///< interprocess events: state in shared memory
};

struct CUctx_st {
    int device = 0;
    bool primary = false;
    bool alive = true;
    unsigned flags = 0;
    unsigned api_version = 3020;
    std::uint64_t id = 0;
    int primary_count = 0;
    unsigned attached = 1;          ///< cuCtxAttach, cuCtxDetach
    CUresult error = CUDA_SUCCESS;  ///< sticky
    softgpu::StreamRef legacy;
    std::vector<softgpu::StreamRef> streams;   ///< all of this context, legacy and per-thread ones included
    std::vector<softgpu::StreamRef> detached;  ///< destroyed with work still queued
    std::map<CUlimit, std::size_t> limits;
    std::unordered_set<int> peers;  ///< devices whose memory this context may access
    std::unique_ptr<softgpu::KernelMemory> kernel_memory;
    CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;

    CUctx_st();
    ~CUctx_st();
};

namespace softgpu {

enum class Kind : std::uint8_t {
    none,
    context,
    stream,
    event,
    module,
    library,
    function,
    kernel,
    graph,
    node,
    exec,
    pool,
    link,
    user_object
};

struct Device {
    int index = 0;
    CUctx_st* primary = nullptr;
    unsigned primary_flags = 0;
    CUmemPoolHandle_st* default_pool = nullptr;
    CUmemPoolHandle_st* current_pool = nullptr;
    std::uint64_t graph_memory = 0, graph_memory_peak = 0;  ///< held by graph allocations
};

struct Driver {
    Driver();
    void watch_idleness();  ///< starts the watching thread

    std::mutex mutex;
    bool initialised = false;
    std::int64_t started = 0;  ///< wall clock, seconds
    std::vector<Device> devices;
    Memory memory;
    Sim sim;
    VectorClock host_knows;                    ///< what some host thread has seen complete
    std::vector<std::uint64_t> slot_sequence;  ///< by slot: last sequence number given out
    std::vector<unsigned> free_slots;
    std::uint64_t next_op = 0, next_object_id = 0;
    std::unordered_map<const void*, Kind> alive;
    std::unordered_map<CUstream_st*, StreamRef> streams;  ///< made by cuStreamCreate
    std::unordered_map<CUevent_st*, EventRef> events;
    std::vector<std::weak_ptr<CaptureSession>> captures;  ///< open ones
    std::unique_ptr<RaceCheck> races;
    std::unique_ptr<Stats> stats;
    std::uint64_t copies_started = 0, call_count = 0;
    std::map<std::uint64_t, VectorClock> written_values;     ///< by address: what a cuStreamWriteValue knew
    std::map<std::uint64_t, std::uint64_t> graph_addresses;  ///< of allocation nodes: address -> bytes
    std::map<const Graph*, CUgraph_st*> child_handles;       ///< handed out for graphs inside nodes
    std::vector<std::function<void()>> deferred;             ///< host functions to call once the lock is free

    Kind kind(const void* handle) const {
        const auto it = alive.find(handle);
        return it == alive.end() ? Kind::none : it->second;
    }
    unsigned take_slot();
    void release_slot(unsigned slot) { free_slots.push_back(slot); }
};

/// The one driver of this process; made on first use and never destroyed.
Driver& driver();

/// What belongs to a host thread.
struct ThreadState {
    ThreadState() = default;
    ~ThreadState();  ///< its default streams end with it
    ThreadState(const ThreadState&) = delete;
    ThreadState& operator=(const ThreadState&) = delete;
    std::vector<CUctx_st*> contexts;  ///< stack; back is current
    Time time = 0;
    bool started = false;
    CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    unsigned per_thread_default = 0;  ///< > 0 inside a _ptsz/_ptds entry point
    std::map<CUctx_st*, StreamRef> default_streams;
    std::vector<std::weak_ptr<CaptureSession>> captures;  ///< begun by this thread
};
ThreadState& thread_state();
bool& in_host_function();

/// True in a forked child, where the driver is of no use.
bool forked();

/// One loud line on stderr, counted in the statistics.
[[gnu::format(printf, 1, 2)]] void report_strictness(const char* format, ...);
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...);

// ---- contexts, streams, events ----

CUctx_st* current_context();
CUctx_st* make_context(int device, unsigned flags, bool primary);
void destroy_context(CUctx_st* context);
StreamRef make_stream(CUctx_st* context, unsigned flags, int priority);
/// No more can be put on it; what was goes on, and later work of the default stream waits for it.
void end_stream(const StreamRef& stream);
/// The stream a handle means for the calling thread; null for a bad handle.
StreamRef resolve_stream(CUstream handle);
EventRef resolve_event(CUevent handle);

/// Gives `op` its place in `stream`: dependencies by stream order and the default stream's rules, vector
/// clock, id.
void enqueue(const StreamRef& stream, const OpRef& op, std::vector<OpRef> after = {},
             const std::vector<const VectorClock*>& also_knows = {});
/// As enqueue, for operations inside a graph launch: no stream order, only `after`; op->slot is set by the
/// caller.
void place(const OpRef& op, const std::vector<OpRef>& after, const std::vector<const VectorClock*>& knows);
OpRef new_op(const StreamRef& stream, const char* name, Engine engine = Engine::none);

/// Blocks until done; the host learns of it and its time moves on to the end. Returns the context's sticky
/// error.
CUresult wait_for(Lock& lock, CUctx_st* context, const OpRef& op);
CUresult wait_for_context(Lock& lock, CUctx_st* context);
/// Marks a completed operation as known to the host.
void host_learns(const OpRef& op);
void fail_context(CUctx_st* context, CUresult error);

// ---- use of memory ----

/// Notes that op touches [address, +bytes): for strictness of unmap and free, and the race check.
void note_use(const Op& op, std::uint64_t address, std::uint64_t bytes, bool write);
void note_span_use(const Op& op, Span& span, bool write);
/// First use of the span that the host doesn't know to be complete.
const Use* use_in_flight(const Span& span);

}  // namespace softgpu
