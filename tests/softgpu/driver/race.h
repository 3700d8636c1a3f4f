// The race check: accesses to the same physical bytes, at least one a write, that neither stream order,
// events nor synchronisation put in order, are reported with both operations named. Physical, so aliases of
// one chunk conflict.
#pragma once

#include <map>
#include <set>

#include "tests/softgpu/driver/core.h"

namespace softgpu {

class RaceCheck {
  public:
    /// op touches [first, last) of span.
    void access(const Op& op, const Span& span, std::uint64_t first, std::uint64_t last, bool write);

  private:
    struct Access {
        unsigned slot = 0;
        std::uint64_t sequence = 0;
        Name name;
    };
    struct Cell {
        std::uint64_t end = 0;
        Access writer;
        std::vector<Access> readers;
    };
    using Cells = std::map<std::uint64_t, Cell>;
    Cells::iterator split(Cells& cells, std::uint64_t at);
    void report(const Op& op, const Access& other, const Span& span, std::uint64_t first, bool write,
                bool other_wrote);

    std::map<const void*, Cells> files_;
    std::set<std::pair<std::uint64_t, std::uint64_t>> reported_;
};

/// Use of stream-ordered memory: after its allocation and before its free, by stream order or events.
void check_stream_order(const Op& op, const Span& span);

}  // namespace softgpu
