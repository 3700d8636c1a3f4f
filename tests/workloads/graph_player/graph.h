// A graph of planner/format/FORMATS.md as the player needs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace player {

struct Tensor {
    std::uint64_t bytes = 0;
    bool persistent = false;
    std::size_t first = 0,
                last = 0;  // ops that touch it first and last; a tensor that none touches has last < first
};

struct Use {
    std::size_t tensor = 0;
    bool read = false, write = false;
};

struct Op {
    std::uint64_t duration_ns = 0;
    std::vector<Use> uses;
};

struct Graph {
    std::string name;
    std::vector<Tensor> tensors;
    std::vector<Op> ops;
    std::uint64_t duration_ns() const;
    std::uint64_t peak_bytes(std::uint64_t granularity) const;  // of live tensors, each rounded up
};

/// Throws std::runtime_error with one line that names the file and the field.
Graph read_graph(const std::string& path);

}  // namespace player
