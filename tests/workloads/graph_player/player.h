// Plays a graph on a CUDA device through the driver API.
#pragma once

#include <cuda.h>

#include <map>
#include <string>
#include <vector>

#include "graph.h"

namespace player {

struct CudaError {
    std::string text;
};

struct Settings {
    std::uint64_t op_speedup = 1;
    bool mark = false;  // call swapadvisor_iteration() before each iteration, where something provides it
};

class Player {
  public:
    Player(const Graph& graph, const Settings& settings);
    /// One iteration; returns its device time in ns when `timed` (waits for it then).
    double iterate(bool timed);
    /// FNV-1a over the digest of all ops so far and the stamps of the persistent tensors.
    std::uint64_t stamps();

  private:
    void load_kernels();
    void allocate(std::size_t tensor);
    void launch(std::size_t index);
    CUfunction kernel_of(const Op& op) const;
    std::uint64_t duration_of(const Op& op) const;

    const Graph& graph_;
    Settings settings_;
    CUcontext context_ = nullptr;
    CUstream stream_ = nullptr;
    CUmodule module_ = nullptr;
    CUevent start_ = nullptr, end_ = nullptr;
    CUdeviceptr digest_ = 0;
    std::vector<CUdeviceptr> address_;
    std::vector<bool> defined_;  // holds a stamp
    std::map<std::string, CUfunction> kernels_;
};

}  // namespace player
