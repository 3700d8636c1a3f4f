// Executable graphs: what they touch, and how to issue them node by node when their buffers together would
// not fit.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "interpose/runtime_state.h"

namespace swapadvisor {

struct GraphNode {
    CUgraphNode node = nullptr;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    KernelLaunch launch;  ///< params/extra point into `storage`
    std::vector<std::byte> storage;
    std::vector<std::size_t>
        offsets;          ///< of each parameter in `storage`; empty: `storage` is an `extra` buffer
    bool packed = false;  ///< `storage` is an `extra` buffer
    CUDA_MEMCPY3D copy{};
    CUDA_MEMSET_NODE_PARAMS fill{};
    std::vector<Buffer*> uses;
};

struct GraphWork {
    std::vector<GraphNode> nodes;                      ///< in an order that keeps all dependencies
    bool opaque = false;                               ///< has nodes that cannot be issued one by one
    bool unread = false;                               ///< could not even be read
    std::vector<Buffer*> uses;                         ///< each counted once in Buffer::graphs
    std::unordered_map<Buffer*, std::uint32_t> named;  ///< by how many nodes

    void name(Buffer* buffer);
    /// True if no node names it any more.
    bool unname(Buffer* buffer);
    void drop_uses();
};

/// The buffers of a context are gone: no graph names them any more.
void forget_graphs_of(RuntimeState& state, const Residency& residency);

}  // namespace swapadvisor
