// The one narrow interface between the hooks and the rest: hooks are a few lines that call it, unit tests
// link it without any preloading. Implemented by interpose/runtime.cpp on the recorder and the residency
// manager.
//
// Convention: a call that returns std::optional<CUresult> either handled the program's call (value: what the
// program gets) or leaves it to the driver (nullopt: the hook forwards the arguments untouched). Ops:
// begin_*() before the real call makes everything the op touches resident, ordered on its stream; end_op()
// after it notes the outcome. Between the two the runtime's lock is held, so that order of issue is order of
// record. Thread-safe; never leaves a CUDA error, context or capture mode behind that the program did not
// have.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace swapadvisor {

/// What begin_* hands to end_op. `fail` set: do not make the real call, return it (working set over the
/// limit; or CUDA_SUCCESS when the work has been issued in another way, such as a graph node by node).
struct OpToken {
    std::optional<CUresult> fail;
    void* state = nullptr;  ///< the runtime's own; null when nothing managed is touched
};

/// How per-thread-default-stream twins differ: a null stream means the thread's own stream.
enum class DefaultStream : std::uint8_t { legacy, per_thread };

struct KernelLaunch {
    CUfunction function = nullptr;  ///< may be a CUkernel passed as CUfunction
    unsigned grid[3] = {1, 1, 1};
    unsigned block[3] = {1, 1, 1};
    unsigned shared_bytes = 0;
    CUstream stream = nullptr;
    void** params = nullptr;
    void** extra = nullptr;
};

/// One side of a copy: a linear or pitched span of memory that may or may not be managed.
struct CopySpan {
    CUdeviceptr address = 0;  ///< device or unified address; 0 if `host` or an array is meant
    const void* host = nullptr;
    std::size_t bytes = 0;  ///< distance from the first to past the last byte touched
    bool pitched = false;   ///< not every byte in between is touched
    // What is touched, row by row; made by linear() or pitched_span().
    std::size_t row_bytes = bytes, rows = 1, pitch = 0, slices = 1, slice_pitch = 0;
};

class Runtime {
  public:
    /// Null while the runtime is inert (switched off, shutting down, unusable driver).
    /// Self-initialising: safe as the very first CUDA-related call of a process.
    static Runtime* get() {
        Runtime* runtime = instance_.load(std::memory_order_acquire);
        return runtime != nullptr || inert_.load(std::memory_order_relaxed) ? runtime : create();
    }

    // --- allocation families
    // -------------------------------------------------------------------------------------
    std::optional<CUresult> mem_alloc(CUdeviceptr* out, std::size_t bytes);
    std::optional<CUresult> mem_alloc_pitch(CUdeviceptr* out, std::size_t* pitch, std::size_t width,
                                            std::size_t height, unsigned element_bytes);
    std::optional<CUresult> mem_alloc_async(CUdeviceptr* out, std::size_t bytes, CUstream stream,
                                            DefaultStream);
    std::optional<CUresult> mem_free(CUdeviceptr address);
    std::optional<CUresult> mem_free_async(CUdeviceptr address, CUstream stream, DefaultStream);
    /// Memory that is not ours, and that kernels may have been given, is about to be freed, unmapped or unregistered.
    /// `bytes`: 0 for all of the allocation.
    void foreign_memory_goes(CUdeviceptr address, std::size_t bytes);
    /// A variable of a module or library; it goes with that code.
    void variable_found(void* code, CUdeviceptr address, std::size_t bytes, bool managed);
    void variables_go(void* code);
    /// For the report: an allocation that the driver made, and why it cannot be moved.
    void left_to_driver(CUdeviceptr address, std::size_t bytes, const char* reason);
    std::optional<CUresult> mem_get_info(std::size_t* free_bytes, std::size_t* total_bytes);
    std::optional<CUresult> mem_get_address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address);
    /// The program's memory may not move from here on (IPC export, tensor map, registration, graph
    /// capture...).
    /// CUDA_ERROR_OUT_OF_MEMORY: it cannot stay, for there is no room; the call has to fail.
    CUresult escape(CUdeviceptr address, const char* reason);
    /// What is about to be written into memory that kernels can read, by something else than the ops below:
    /// addresses in it escape (same result). `bytes` is at most 8.
    CUresult wrote(CUdeviceptr address, std::uint64_t value, unsigned bytes);
    CUresult copies(const CopySpan& destination, const CopySpan& source);
    bool is_managed(CUdeviceptr address) const;
    /// For memory that may have no mapping at the moment the driver cannot answer.
    std::optional<CUresult> pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address);

    // --- ops
    // --------------------------------------------------------------------------------------------------------
    OpToken begin_kernel(const KernelLaunch& launch, DefaultStream);
    OpToken begin_copy(const CopySpan& destination, const CopySpan& source, CUstream stream, DefaultStream,
                       bool synchronous);
    /// `value` is what each `element_bytes` are set to.
    OpToken begin_memset(const CopySpan& destination, std::uint32_t value, unsigned element_bytes,
                         CUstream stream, DefaultStream, bool synchronous);
    OpToken begin_graph_launch(CUgraphExec graph, CUstream stream, DefaultStream);
    void end_op(OpToken& token, CUresult result);

    // --- what may wait for the program
    // ---------------------------------------------------------------------------------------
    /// What was just put into the stream may end only once the program does something: a host function, a wait
    /// for a value in memory, a semaphore, a graph with such nodes.
    void stream_gated(CUstream stream, DefaultStream);
    /// After the program's own cuEventRecord and cuStreamWaitEvent; of interest only behind a gate.
    void event_recorded(CUevent event, CUstream stream, DefaultStream);
    void event_waited(CUstream stream, DefaultStream, CUevent event);

    // --- capture and graphs
    // -------------------------------------------------------------------------------------
    /// Around cuStreamBeginCapture(ToGraph) and cuStreamEndCapture. In between an op on a capturing stream is
    /// not made resident: the graph's buffers are, before each launch of it. A capture may also end with its
    /// stream, thread or context.
    void capture_begins(CUstream stream, DefaultStream);
    void capture_refused(CUstream stream, DefaultStream);
    /// Which capture `stream` is part of; 0: none.
    cuuint64_t capture_of(CUstream stream, DefaultStream);
    /// `graph`: what came of it, null if nothing did. Nothing changes if the stream goes on capturing.
    void capture_ended(CUstream stream, DefaultStream, cuuint64_t capture, CUgraph graph);
    void graph_instantiated(CUgraphExec exec, CUgraph graph);
    /// Before a copy or memset becomes a graph's node, or a node is changed: the driver checks addresses
    /// then, so there has to be a mapping. A value: there is no memory for it, and this is what the program
    /// gets.
    std::optional<CUresult> map_for_node(const CopySpan& destination, const CopySpan& source);
    /// After cuGraphExecUpdate / cuGraphExec*NodeSetParams: what the new parameters touch is added to the
    /// exec's set.
    void graph_exec_updated(CUgraphExec exec, CUgraph graph);
    void graph_exec_kernel_changed(CUgraphExec exec, CUgraphNode node, const KernelLaunch& launch);
    void graph_exec_copy_changed(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D& copy);
    void graph_exec_memset_changed(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS& fill);
    void graph_exec_host_changed(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS& host);
    void graph_exec_event_changed(CUgraphExec exec, CUgraphNode node, CUevent event);
    void graph_exec_memory_operations_changed(CUgraphExec exec, CUgraphNode node,
                                              const CUDA_BATCH_MEM_OP_NODE_PARAMS& params);
    /// The parameters of all nodes of a child graph are new.
    void graph_exec_child_changed(CUgraphExec exec, CUgraphNode node, CUgraph child);
    void graph_node_enabled(CUgraphExec exec, CUgraphNode node, bool enabled);
    void graph_exec_destroyed(CUgraphExec exec);

    // --- ends
    // -------------------------------------------------------------------------------------------------------
    void stream_destroyed(CUstream stream);   ///< before the real call
    void function_unloaded(CUmodule module);  ///< before the real call: cached parameter layouts go
    void context_going(CUcontext context);    ///< before destroy / primary reset / release
    void context_gone(CUcontext context);
    void context_attached(CUcontext context);
    bool context_detached(CUcontext context);  ///< true: that was the last use of it
    /// Memory that is allocated in this context is not to be managed.
    void leave_context(CUcontext context, const char* reason);
    /// `device` may use the memory of `context` from now on: what is managed there already must be open to
    /// it.
    void peer_reaches_in(CUcontext context, CUdevice device);
    /// The same for what is managed on all devices but `device` itself: a pool of one of them was opened to
    /// it.
    void pool_reached_by(CUdevice device);
    void iteration_mark();  ///< swapadvisor_iteration()

  protected:
    Runtime() = default;

  private:
    static Runtime* create();
    static std::atomic<Runtime*> instance_;
    static std::atomic<bool> inert_;
    friend struct RuntimeState;
};

}  // namespace swapadvisor
