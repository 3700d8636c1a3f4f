// Which chunks are ever taken during a span of time: a segment tree of chunk sets.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/model/plan.h"

namespace swapadvisor::planner {

/// A set of chunks as bits, for unions; scratch space.
class ChunkBits {
  public:
    explicit ChunkBits(std::int32_t chunks)
        : chunks_(chunks), words_((static_cast<std::size_t>(chunks) + 63) / 64) {}
    void clear() { words_.assign(words_.size(), 0); }
    void add(const ChunkRange& range);
    void add(const Placement& at) {
        for (const ChunkRange& r : at) add(r);
    }
    /// Runs of chunks not in the set.
    void free_runs(Placement& into) const;

  private:
    std::int32_t chunks_;
    std::vector<std::uint64_t> words_;
};

/// Times are 0 .. length-1.
class Occupancy {
  public:
    explicit Occupancy(std::int32_t length);
    void add(std::int32_t begin, std::int32_t end, const Placement& at);  ///< taken during [begin, end)
    void taken(std::int32_t begin, std::int32_t end, ChunkBits& into) const;

  private:
    struct Node {
        Placement inside;   // taken at some time of this node
        Placement through;  // taken all of the node's time, by spans that end here
    };
    void add(std::size_t node, std::int32_t lo, std::int32_t hi, std::int32_t begin, std::int32_t end,
             const Placement& at);
    void taken(std::size_t node, std::int32_t lo, std::int32_t hi, std::int32_t begin, std::int32_t end,
               ChunkBits& into) const;
    std::int32_t length_;
    std::vector<Node> nodes_;
};

}  // namespace swapadvisor::planner
