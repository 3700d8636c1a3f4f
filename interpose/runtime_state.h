// What stands behind interpose/runtime.h: one per process, never destroyed (a program may call CUDA from exit
// handlers). Everything here is guarded by `mutex` unless said otherwise. Files: runtime.cpp (life,
// allocations), runtime_context.cpp (contexts), runtime_ops.cpp (ops), runtime_payload.cpp (addresses that
// travel), runtime_hidden.cpp (addresses in memory that is not ours), runtime_graphs.cpp (graphs), runtime_capture.cpp (captures), runtime_plan.cpp (planning),
// runtime_report.cpp (exit).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "interpose/allocation_habits.h"
#include "interpose/runtime.h"
#include "interpose/runtime_params.h"
#include "interpose/small_writes.h"
#include "recorder/flat_map.h"
#include "recorder/op_timer.h"
#include "recorder/recorder.h"
#include "replayer/residency.h"
#include "replayer/timeline.h"

namespace swapadvisor {

class PlanDirector;

/// Memory that the driver keeps, for the report: what there was at most.
struct LeftMemory {
    std::uint64_t buffers = 0, bytes = 0, peak_buffers = 0, peak_bytes = 0;
};

/// One context with managed memory.
struct ManagedContext {
    CUcontext context = nullptr;
    CUdevice device = 0;
    int number = 0;          ///< in order of first use
    bool unmanaged = false;  ///< left to the driver (`reason`)
    std::string reason;
    std::unique_ptr<Residency> residency;
    std::unique_ptr<Recorder> recorder;
    std::unique_ptr<PlanDirector> director;
    DeviceModel model;
    AllocationHabits habits;
    std::map<std::string, LeftMemory> left;  ///< by reason
};

struct GraphNode;
struct GraphWork;

/// One op in progress on one thread, from begin_* to end_op.
struct PendingOp {
    GraphWork* graph = nullptr;  ///< an executable graph that is launched in one piece
    bool busy = false;
    bool unlocked = false;           ///< the lock is not held in between: its buffers are
    bool synchronous = false;        ///< the host waits in between
    bool captured = false;           ///< recorded by a capture: only mapped
    bool host_sees = false;          ///< it may write what the host can read without another call
    ManagedContext* home = nullptr;  ///< where it is recorded: the owner of its first buffer
    QueueId queue = 0;
    std::vector<BufferUse> uses;
    std::vector<Touch> touches;
    std::uint64_t seq = 0;
    OpTimer::Begun timed;
};

/// What an executable graph does, read back when it was instantiated.
struct GraphWork;
/// Addresses in the payload of one copy.
struct PayloadFindings;

struct RuntimeState : Runtime {
    RuntimeState();
    static RuntimeState& of(Runtime* runtime) { return *static_cast<RuntimeState*>(runtime); }
    static void shut_down();      ///< at exit: report, threads end
    static void stop_planning();  ///< no thread is in the planner any more when it returns

    ManagedContext* context_for(CUcontext context);  ///< created on first use; null: no context
    ManagedContext* current_context();
    Buffer* find(CUdeviceptr address) const;
    Buffer* find_near(CUdeviceptr address) const;  ///< large ones, by their neighbourhood
    bool maybe_managed(std::uint64_t word) const {
        const std::uint64_t from = low.load(std::memory_order_relaxed);
        return word - from < high.load(std::memory_order_relaxed) - from;
    }
    QueueId queue_for(CUcontext context, CUstream stream, DefaultStream default_stream);
    CUresult allocate(ManagedContext& managed, CUdeviceptr* out, std::size_t bytes, CUstream stream);
    void free(Buffer& buffer);
    CUresult free_at(CUdeviceptr address);
    /// Lies in our ranges, but not within one live allocation. The driver cannot tell, for neighbours share mappings and
    /// freed memory is kept: what it says of memory that there is not is said for it.
    bool out_of_bounds(CUdeviceptr address, std::size_t bytes) const;
    void finish_deferred_frees();

    /// The opening of begin_*: this thread's op with the lock held, or null where there is nothing to do.
    PendingOp* open(bool synchronous);
    /// The common part of begin_*: `op.uses` is filled, the lock is held.
    OpToken begin(PendingOp& op, OpKind kind, std::uint64_t function, const unsigned* geometry,
                  CUstream stream, DefaultStream default_stream, const char* what);
    OpToken fail(PendingOp& op, CUresult result, const char* what);
    bool waits_for_copies(const PendingOp& op) const;
    void end(PendingOp& op, CUresult result);
    bool is_capturing(CUstream stream, DefaultStream default_stream) const {
        return timeline->capturing() && capture_id(stream, default_stream) != 0;
    }
    /// The capture that the stream is part of; 0: none.
    cuuint64_t capture_id(CUstream stream, DefaultStream default_stream) const;
    /// Keeps what `op` uses alive until the capture, or the graph that comes of it, is done with.
    void name_in_capture(cuuint64_t capture, const PendingOp& op);
    void drop_capture(cuuint64_t capture);
    void forget_captured_graph(CUgraph graph);
    void forget_captures_of(const Residency& residency);
    /// Captures that are over without our having been told.
    void review_captures();
    /// While any thread captures a stream, what the runtime does itself (mapping, waiting) must not count as
    /// the program's: an unsafe call would spoil the capture.
    RelaxedCapture outside_captures() const { return RelaxedCapture(api, timeline->capturing()); }
    void add_use(PendingOp& op, Buffer* buffer, Access access, bool overwrites = false);
    template <class Change>
    void change_graph(CUgraphExec exec, Change change);
    template <class Change>
    void change_node(CUgraphExec exec, CUgraphNode node, Change change);
    template <class Set>
    void readdress_node(CUgraphExec exec, CUgraphNode node, Set set);
    OpToken launch_node_by_node(PendingOp& op, GraphWork& work, CUstream stream,
                                DefaultStream default_stream);
    void note_gates(const GraphNode& node, QueueId queue);
    /// What was just put on the queue goes on only when the program does something.
    void gate(QueueId queue);
    template <class Use>
    void with_queue(CUstream stream, DefaultStream default_stream, Use use);
    void note_graph_launch(GraphWork& work, QueueId queue);
    CUresult map_for_capture(PendingOp& op);
    void tell_name(Residency* owner, FunctionInfo& info);
    /// Calls f(Buffer*) for everything that the arguments name. False: they may name anything.
    template <class F>
    bool named_by(const FunctionInfo& info, void** params, void** extra, F&& f) const;
    void add_kernel_uses(PendingOp& op, const FunctionInfo& info, void** params, void** extra);
    void add_whatever_fits(PendingOp& op, const FunctionInfo& info, const char* why);

    /// Memory that is not ours, by words that kernels were given.
    enum class Foreign : std::uint8_t { unknown, nothing, host, device };
    FlatMap<Foreign> foreign_words;
    Foreign foreign_kind(std::uint64_t word);
    // --- what the host could see: cuMemFree waits for that, as the driver's does for all
    MarkSet seen_by_host;              ///< ops of which the host can read what they write
    bool unknown_to_timeline = false;  ///< there is such work that names nothing of ours
    void wait_for_what_host_sees(std::unique_lock<std::mutex>& lock);

    struct Part {
        CUdeviceptr address;
        std::uint64_t bytes;  ///< 0: up to the end of the allocation
    };
    /// What of this kernel's memory the host can change without a call: by its arguments, and managed variables.
    bool given_host_memory(const FunctionInfo& info, void** params, void** extra, std::vector<Part>& given,
                           bool& host_sees);
    void look_at_host_memory(const std::vector<Part>& given);  ///< takes the lock
    /// Variables of modules: kernels reach them without an argument.
    struct Variable {
        void* code;  ///< the CUmodule or CUlibrary that it goes with
        Part part;
        bool managed;
    };
    std::vector<Variable> variables;
    /// Memory of a context is managed from here on: what is known already is looked through for it, too.
    void foreign_known_to(Residency& residency);
    /// With the lock held: it is about to go (Runtime::foreign_memory_goes).
    void drop_foreign(CUdeviceptr address, std::size_t bytes);
    std::atomic<bool> any_foreign{false};  ///< was ever given to a kernel
    /// What turned out to be named while it was away.
    void bring_named_back();
    CUresult keep_in_place(Buffer& buffer, const char* reason);
    /// `table`: of data that are rather addresses than something else.
    CUresult keep_named(std::uint64_t address, WordForm form, bool table);
    CUresult keep_found(const PayloadFindings& findings);
    bool is_table(const CopySpan& destination, const CopySpan& source) const;
    CUresult look_through_copies(const GraphWork& work);
    // These take the lock themselves.
    CUresult look_through_payload(const CopySpan& destination, const CopySpan& source);
    CUresult wrote_words(std::uint64_t address, const void* data, std::size_t bytes);
    CUresult filled_with(std::uint64_t address, std::size_t bytes, std::uint32_t value,
                         unsigned element_bytes);

    /// From a thread at its end, without the lock: its per-thread default streams are gone.
    void thread_ended(std::uint64_t number);
    void close_ended_threads();

    /// A thread that holds the lock waits without it: for `event`, or (null) until something was released, at
    /// most `step`.
    CUresult pause(CUevent event, std::chrono::microseconds step);

    mutable std::mutex mutex;
    std::condition_variable released;  ///< a call that held buffers is over
    /// Some work of the program may be behind a gate (replayer/timeline.h): its events are looked at.
    std::atomic<bool> gates{false};
    std::mutex ended_mutex;  ///< guards `ended_threads` alone; never held for long
    std::vector<std::uint64_t> ended_threads;
    std::atomic<bool> any_ended{false};
    DriverApi api;
    std::unique_ptr<Timeline> timeline;
    std::unique_ptr<FunctionTable> functions;
    std::vector<std::unique_ptr<ManagedContext>> contexts;
    std::vector<std::unique_ptr<ManagedContext>> ending;  ///< from context_going to context_gone
    std::atomic<std::uint64_t> live{0};  ///< live managed buffers: 0 means that ops need no look
    /// All managed addresses lie in between.
    std::atomic<std::uint64_t> low{~0ull}, high{0};
    SmallWrites small_writes;
    BufferId next_buffer = 1;
    struct LeftAllocation {
        CUcontext context;
        std::size_t bytes;
        const char* reason;
    };
    std::unordered_map<CUdeviceptr, LeftAllocation> left;
    std::atomic<std::uint64_t> left_count{0};  ///< its size: 0 means that frees need no look
    void forget_left(CUdeviceptr address);
    std::unordered_map<CUcontext, int> attached;               ///< uses beyond the first
    std::unordered_map<CUcontext, const char*> left_contexts;  ///< never managed, and why
    std::vector<Buffer*> deferred_frees;  ///< freed while something that is to come still named them
    struct CapturedNames {
        cuuint64_t capture;
        CUgraph graph;  ///< what came of it, from its end to its first instantiation; null: it is open
        std::vector<Buffer*> buffers;
    };
    std::vector<CapturedNames> captured;
    std::unordered_map<CUgraphExec, std::unique_ptr<GraphWork>> graphs;
    std::uint64_t unrolled_graphs = 0;
    std::vector<std::pair<std::string, std::int64_t>>
        events;  ///< for the report: what was served in a simpler way
    void count(const std::string& what);
    /// Where the run stands, into the page that outlives this process. No allocation, no system call.
    void note_progress(const ManagedContext& managed) const;
    std::vector<std::string> notes;
};

template <class F>
bool RuntimeState::named_by(const FunctionInfo& info, void** params, void** extra, F&& f) const {
    bool all = true;
    const std::uint64_t from = low.load(std::memory_order_relaxed), to = high.load(std::memory_order_relaxed);
    const bool known =
        scan_arguments(info, params, extra, from, to, [&](std::uint64_t address, WordForm form) {
            Buffer* buffer = find(address);
            // A start is no accident, as a small number beside the upper half of an address may be.
            const bool certain = buffer != nullptr && address == buffer->address;
            if (buffer == nullptr && form == WordForm::whole) {
                // Shifted, or of something that is gone.
                buffer = find_near(address);
                for (const auto& m : contexts)
                    all = all && !(m->residency && m->residency->addresses().never_taken(address));
            }
            if (buffer != nullptr) f(buffer);
            return certain;
        });
    return known && all;
}

/// This thread's op in progress.
PendingOp& thread_op();
/// A number for this thread, from 1: names its per-thread default stream.
std::uint64_t thread_number();
/// The same, for a thread that uses that stream: the runtime hears of its end.
std::uint64_t thread_with_stream();

}  // namespace swapadvisor
