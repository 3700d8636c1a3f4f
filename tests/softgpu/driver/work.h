// What a stream operation (or graph node) does, apart from where it stands: the same value is captured into
// graphs, put together by hand, updated in executables, and turned into a simulated operation.
#pragma once

#include <cstddef>
#include <optional>
#include <variant>

#include "tests/softgpu/driver/core.h"

namespace softgpu {

struct Graph;
class Call;

struct KernelWork {
    CUfunction function = nullptr;  ///< as the caller named it: a CUfunction or a CUkernel
    CUfunc_st* resolved = nullptr;
    unsigned grid[3]{1, 1, 1}, block[3]{1, 1, 1}, cluster[3]{1, 1, 1};
    unsigned shared_bytes = 0;
    bool cooperative = false;
    std::vector<std::byte> params;      ///< the parameter block
    std::vector<void*> param_pointers;  ///< into params, for cuGraphKernelNodeGetParams
    CUlaunchAttributeValue attributes[24]{};
};

/// One side of a copy. Rows of `width` bytes, `pitch` apart, slices `pitch * height` apart.
struct CopySide {
    std::uint64_t address = 0;  ///< of the first byte, offsets included
    std::uint64_t pitch = 0, height = 0;
    CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
};

struct CopyWork {
    CopySide from, to;
    std::uint64_t width = 0, height = 1, depth = 1;
    CUDA_MEMCPY3D original{};  ///< as given, for the getters of graph nodes
    bool peer = false;         ///< cuMemcpyPeer*: each side is reached through its own device
    std::shared_ptr<std::vector<std::byte>> staged;  ///< contents of a pageable source, taken at the call
    /// Of a graph's node: which sides are device memory, as it was when the node was made. The memory may
    /// have gone since.
    struct Sides {
        bool from_device, to_device;
        bool operator==(const Sides&) const = default;
    };
    std::optional<Sides> sides;
    bool linear() const { return height == 1 && depth == 1; }
    std::uint64_t bytes() const { return width * height * depth; }
};

struct MemsetWork {
    std::uint64_t to = 0, pitch = 0;
    unsigned value = 0, element = 1;
    std::uint64_t width = 0, height = 1;  ///< in elements, in rows
};

struct HostWork {
    CUhostFn function = nullptr;
    CUstreamCallback callback = nullptr;  ///< cuStreamAddCallback
    CUstream stream = nullptr;
    void* user = nullptr;
};

struct RecordWork {
    EventRef event;
};
struct WaitWork {
    EventRef event;
};
struct BatchWork {
    std::vector<CUstreamBatchMemOpParams> ops;
};
struct EmptyWork {};
struct ChildWork {
    std::shared_ptr<Graph> graph;
};
struct AllocWork {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    std::vector<CUmemAccessDesc> access;
};
struct FreeWork {
    std::uint64_t address = 0;
};

using Work = std::variant<EmptyWork, KernelWork, CopyWork, MemsetWork, HostWork, RecordWork, WaitWork,
                          BatchWork, ChildWork, AllocWork, FreeWork>;

/// From the first byte of a copy's side to past the last one.
std::uint64_t extent(const CopySide& side, const CopyWork& work);

/// Checks what can be checked when the call is made.
CUresult validate(CUctx_st* context, const Work& work);
/// An operation for `stream` that does it (not for graphs, allocations and event waits, which have their own
/// ways).
OpRef make_op(const StreamRef& stream, const Work& work);

/// The whole way of a stream call: capture it, or validate and enqueue. `op`, if given, is set when it was
/// enqueued.
CUresult submit(Call& call, const StreamRef& stream, Work work, OpRef* op = nullptr);

/// Strictness: remembers what an enqueued operation will touch, as far as it is known beforehand.
void note_work(const OpRef& op, const Work& work);
/// Waits while the host is further ahead of the device than the queue is long.
void bound_queue(Call& call);

/// The caller's description of a shaped copy as work; CUDA_ERROR_NOT_SUPPORTED for arrays.
CUresult copy_from_3d(const CUDA_MEMCPY3D& params, CopyWork* work);

/// For "pageable" rules: true when every byte is memory the driver knows.
bool known_memory(std::uint64_t address, std::uint64_t bytes);
/// Where a copy's side lies, by the spans under it.
bool on_device(std::uint64_t address);

/// Duration from the table of options (first regular expression that matches), or nothing.
bool table_duration(const std::string& kernel, Time* ns);

}  // namespace softgpu
