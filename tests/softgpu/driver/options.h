// Settings of the software GPU, read once from the environment variable SOFTGPU_OPTIONS
// ("memory=16GiB,cc=7.5,..."; scripts/softgpu writes it from its command line). Sizes take KiB/MiB/GiB/TiB
// and kB/MB/GB, rates also "12GB/s".
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace softgpu {

using Time = std::uint64_t;  ///< virtual nanoseconds since cuInit
constexpr Time kNever = ~Time{0};

/// The n-th call (from 1) of an entry point fails; `from_then_on` keeps it failing.
struct CallFault {
    std::string entry;
    std::uint64_t nth = 1;
    bool from_then_on = false;
    CUresult error = CUDA_ERROR_UNKNOWN;
};

/// The n-th copy takes `factor` times as long as it would, or never ends.
struct CopyFault {
    std::uint64_t nth = 1;
    double factor = 1;
    bool stuck = false;
};

struct Options {
    std::uint64_t memory = 16ull << 30;  ///< bytes of device memory, per device
    int devices = 1;
    int cc_major = 7, cc_minor = 5;
    double h2d = 12e9, d2h = 12e9, duplex = 20e9;  ///< bytes per second
    Time latency = 10'000;                         ///< fixed cost of one transfer
    double instructions_per_s = 2e11;              ///< thread-instructions
    double memory_bytes_per_s = 300e9;
    Time launch = 2'000;        ///< fixed cost of one kernel on the device
    Time call = 1'000;          ///< host cost of a driver call
    Time map_call = 20'000;     ///< of cuMemMap, cuMemSetAccess, cuMemUnmap, each
    Time create_call = 50'000;  ///< of cuMemCreate, cuMemRelease of the last reference, cuMemAlloc, cuMemFree
    Time host_function = 2'000;  ///< from a stream reaching a host function to going on behind it
    double pinning_bytes_per_s = 5e9;
    int threads = 0;  ///< of the PTX engine; 0 = all cores
    std::string kernel_table, stats, timeline;
    bool racecheck = false;
    bool strict = true;
    bool vmm = true;  ///< cuMemCreate and friends supported
    bool verbose = false;
    std::uint64_t host_memory = 0;     ///< limit on pinned memory, 0 = none
    std::uint64_t max_allocation = 0;  ///< larger device allocations fail, 0 = none
    std::uint64_t queue = 1024;        ///< operations a host thread may run ahead
    Time idle = 10'000'000'000;  ///< real time without a driver call after which queued work runs; 0 = never
    std::vector<CallFault> call_faults;
    std::vector<CopyFault> copy_faults;
};

/// Throws std::invalid_argument with one line that names the setting.
Options parse_options(const std::string& text);
/// The settings of this process; exits with a line on a bad SOFTGPU_OPTIONS.
const Options& options();

/// CUresult by name or number.
std::optional<CUresult> result_from_text(const std::string& text);
const char* result_name(CUresult r);         ///< nullptr when unknown
const char* result_description(CUresult r);  ///< nullptr when unknown

}  // namespace softgpu
