// The pool of an installed plan: every tensor's address range is mapped to its place once; from then on a
// swap is a copy between the host and that place, ordered by events, and no mapping, synchronising or
// allocating call is made.
//
// Ranges are mapped when they are first claimed, the rest of them a few at a time (map_some), so that an
// iteration boundary does not stall on it. While the pool is strict a range is mapped only as long as its
// tensor is on the device, at the latest until someone else takes its atoms: a use that nobody saw coming
// faults instead of touching someone else's bytes. That costs what on demand costs: taking over an atom
// waits for the device and unmaps, an arrival maps.
//
// The pool is cut into atoms, the longest runs of chunks that no placement splits: one handle each. An atom
// has at most one holder at a time; whoever takes it over waits for its guard (the former holder's last uses
// and copies). The plan only advises: claim() always gets a tensor its atoms, evicting (with write-back)
// whoever is there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/model/plan.h"
#include "replayer/buffer.h"
#include "replayer/outcome.h"

namespace swapadvisor {

class Residency;

/// What the pool needs to know of one tensor of the plan.
struct PoolTensor {
    std::uint64_t bytes = 0;
    planner::Placement at;     ///< empty: not in the pool (arena, or never placed)
    Buffer* buffer = nullptr;  ///< live at the moment of installation
    bool copies = false;       ///< the plan copies it to or from the host: it gets a block there at once
};

class PlannedPool {
  public:
    /// Makes no driver call but for addresses: memory comes to an atom when it is first claimed, from what
    /// the residency still holds on demand; until then a live buffer stays usable where it is. On failure
    /// nothing is left mapped or bound. `chunk_pages`: pages of one chunk.
    static std::unique_ptr<PlannedPool> create(Residency& residency, std::vector<PoolTensor> tensors,
                                               std::int32_t chunks, std::uint64_t chunk_pages, bool strict,
                                               CUresult& result, std::string& error);
    ~PlannedPool();

    // --- allocations of the program
    // ---------------------------------------------------------------------------------
    bool bindable(std::int32_t tensor, std::uint64_t bytes) const;
    bool bind(std::int32_t tensor, Buffer& buffer);
    /// The program frees it. False if it is not bound here, or has not come here yet: then it keeps its
    /// address range and its block on the host, and the tensor gets others.
    bool unbind(Buffer& buffer, const MarkSet& guard);
    /// Its host block is about to be given back.
    void forget_host(const Buffer& buffer) {
        if (buffer.tensor >= 0 && static_cast<std::size_t>(buffer.tensor) < bindings_.size() &&
            bindings_[static_cast<std::size_t>(buffer.tensor)].buffer == &buffer)
            bindings_[static_cast<std::size_t>(buffer.tensor)].host = {};
    }
    Buffer* buffer(std::int32_t tensor) const { return bindings_[static_cast<std::size_t>(tensor)].buffer; }

    // --- moves
    // ------------------------------------------------------------------------------------------------------
    /// True if all its atoms are free (or its own) without evicting anyone.
    bool vacant(std::int32_t tensor) const;
    /// Takes the atoms; `buffer.ready` gets what a first use or arrival must wait for.
    /// Outcome::elsewhere when that cannot be: not bound, or an atom is in use by the very same op;
    /// crowded: an atom has no memory yet, and what could give it some is in use by the op; wait: an atom is in
    /// use by a call or by work that waits for the program; later: the same, if it may not wait.
    Outcome claim(Buffer& buffer, bool may_wait = true);
    /// Contents to the host if need be, atoms free. One that has not come here yet starts to leave. wait: its
    /// last uses wait for the program, and no copy of ours may get behind them.
    Outcome evict(Buffer& buffer, Mark after = {});
    /// Device memory that the pool takes once every atom has its own.
    std::uint64_t pages() const { return pages_; }
    /// The device did not give all of that.
    bool refused() const { return refused_; }

    // --- mappings
    // ---------------------------------------------------------------------------------------------------
    bool strict() const { return strict_; }
    void end_strictness();
    /// Strict: unmaps the ranges of what has left and is done.
    void hide_finished();
    /// Every range is mapped for good: from here on there is no mapping call.
    bool settled() const { return !strict_ && next_unmapped_ == bindings_.size(); }
    /// Maps `count` more of the ranges that are not yet, if not strict.
    void map_some(std::size_t count);

    /// Everything to the host, unmapped and released; bound buffers keep their addresses and become absent.
    /// What a call or work that waits for the program still uses stays where it is, as on demand.
    CUresult dissolve();
    void abandon() { abandoned_ = true; }
    std::size_t atoms() const { return atoms_.size(); }

  private:
    struct Binding {
        std::uint64_t bytes = 0;
        AddressRange range;
        std::vector<std::uint32_t> atoms;
        HostBlock host;
        Buffer* buffer = nullptr;
        bool mapped = false;
        bool leaving = false;  ///< strict: to be unmapped once `last` is done
        MarkSet last;
        MarkSet freed;  ///< last uses of a buffer that was freed behind a gate: the mapping stays until then
    };
    struct Atom : Slot {
        bool there = false;  ///< it has memory
    };
    explicit PlannedPool(Residency& residency) : residency_(residency) {}
    CUresult build(std::vector<PoolTensor>& tensors, std::int32_t chunks, std::uint64_t chunk_pages,
                   std::string& error);
    void take_host_blocks(const std::vector<PoolTensor>& tensors);
    Outcome furnish(Binding& binding, bool may_wait);
    CUresult take_range(Binding& binding);
    CUresult map(Binding& binding);
    void hide(Binding& binding, const MarkSet& uses);
    Outcome finish_hiding(Binding& binding, bool may_wait);
    bool keep(Binding& binding, Buffer* buffer);
    CUresult keep_what_is_gated();
    void stay(Binding& binding);
    CUresult unmap_all();

    Residency& residency_;
    std::vector<Binding> bindings_;
    std::vector<Atom> atoms_;
    std::uint64_t pages_ = 0;
    bool refused_ = false;
    std::vector<Binding*> leaving_;  ///< strict: by atom, whose range is still mapped to it; null: nobody's
    std::size_t leaving_count_ = 0;
    std::size_t next_unmapped_ = 0;  ///< all before it are mapped, once the pool is not strict
    bool strict_ = false;
    /// There is less host memory than a block for each tensor that is copied: a block is taken when contents
    /// leave, and given back with the buffer.
    bool sparing_ = false;
    bool abandoned_ = false;
};

}  // namespace swapadvisor
