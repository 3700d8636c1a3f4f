// One steady-state iteration as the recorder understands it: the bridge between recording, planning and
// replay. Tensor indices are the ids of the exported graph; op indices are its op ids (program order). Plain
// values, immutable once handed out (shared_ptr<const Iteration>).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "recorder/op.h"

namespace swapadvisor {

struct TensorRecord {
    std::int64_t bytes = 0;
    bool persistent = false;      ///< the same allocation is live across iterations
    bool small = false;           ///< lives in the always-resident arena
    bool paged = false;           ///< small: it lies in a page; large: it is a page of small ones
    bool escaped = false;         ///< may not move (see DESIGN: "What can't move")
    BufferId buffer = kNoBuffer;  ///< for persistent tensors: the live allocation
    BufferId observed =
        kNoBuffer;  ///< what it was in the instance that was taken (the one born in it, if it wraps)
    std::uint64_t range = 0;        ///< NVTX range at its allocation (recorder/nvtx.h); 0: none
    std::uint64_t site = 0;         ///< interned call site of the allocation
    std::int32_t birth_event = -1;  ///< index into Iteration::events of its allocation; -1 if persistent
    std::int32_t death_event = -1;  ///< of its release; may be smaller than birth_event when it wraps the
                                    ///< boundary; -1 with a birth: never released (small leaks)
};

struct OpRecord {
    OpKind kind = OpKind::kernel;
    std::uint64_t function = 0;
    std::array<std::uint32_t, 6> geometry{};
    std::int32_t stream = 0;       ///< small index in order of first appearance
    std::int64_t duration_ns = 0;  ///< median over the instances that were timed; 0: never timed
    std::uint64_t range = 0;       ///< NVTX range of the launch; 0: none
    std::uint64_t key = 0;         ///< match_key() (recorder/signature.h)
    struct Use {
        std::int32_t tensor = 0;
        Access access = Access::read_write;
        bool unchanged = false;   ///< of `read_write`: the contents were seen to stay as they were, each time
        std::int32_t touch = -1;  ///< which touch of the op it is; -1: several
    };
    std::vector<Use> uses;
};

enum class EventKind : std::uint8_t { allocate, release, op };

struct IterationEvent {
    EventKind kind = EventKind::op;
    std::int32_t index = 0;  ///< tensor index, or op index
};

struct Iteration {
    std::vector<IterationEvent> events;  ///< in program order: what the host did in one iteration
    std::vector<TensorRecord> tensors;
    std::vector<OpRecord> ops;
    std::uint64_t signature =
        0;  ///< hash of the op and allocation sequence: equal iterations, equal signature
    std::uint64_t first_seq =
        0;  ///< Recorder sequence number of ops[0] in the newest complete instance: as long as
            ///< the loop goes on, instance k starts at first_seq + k * ops.size()
    std::int64_t peak_live_bytes = 0;  ///< large allocations live at once, persistent ones included
    bool marked = false;               ///< the boundary is a mark of the program
};

}  // namespace swapadvisor
