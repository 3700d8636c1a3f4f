// What one process of a launched program says of itself while it runs, in a file that it shares with the
// launcher: what is in there outlives it, however it ends. SWAPADVISOR_RUN names the launcher's folder; the
// file's name is the process's id.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace swapadvisor {

constexpr std::uint64_t kRunPageMagic = 0x3130474150415753;  // "SWAPAG01"

enum class RunStage : std::uint32_t {
    running = 0,
    ended = 1,    ///< its exit handlers ran: what it had to write is written
    refused = 2,  ///< ended by the runtime, which has said why
};

/// Bytes and nanoseconds; -1: unknown. Texts end with a zero. One writer; who reads while the process lives
/// may see figures of two moments.
struct RunPage {
    std::uint64_t magic;
    std::int64_t pid, rank;
    std::atomic<RunStage> stage;
    std::uint32_t swapped;  ///< 1: memory has moved
    std::int64_t iterations, planned_iterations, ops, ops_per_iteration, divergences;
    std::int64_t limit_bytes, peak_bytes, peak_resident_bytes, pinned_bytes;
    std::int64_t in_bytes_total, out_bytes_total;
    std::int64_t predicted_ns, measured_ns, infinite_ns, lower_bound_ns;
    std::int64_t device_bytes;
    char device[128];
    char mode[24];
    char program[320];
    char report[1024], trace[1024];  ///< where it writes; empty: nowhere
    char problem[512];               ///< why something could not be written
};
static_assert(sizeof(RunPage) <= 4096);

/// "120 iterations, 100 of them by a plan; 35.0 MiB held at most, within 16.0 MiB".
std::string summary_text(const RunPage& page);

}  // namespace swapadvisor
