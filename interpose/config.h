// The user's settings, from the environment (the launcher's options become the same variables). Read once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/timing_source.h"

namespace swapadvisor {

/// What cuMemGetInfo counts: the device alone, or the host memory behind it as well.
enum class MemoryInfo : std::uint8_t { device, host };

struct Config {
    bool enabled = true;  ///< SWAPADVISOR=0 turns the shim into pure forwarding
    std::uint64_t memory_bytes =
        0;                       ///< SWAPADVISOR_MEMORY: device memory to stay within; 0: what the device has
    double memory_fraction = 0;  ///< SWAPADVISOR_MEMORY=50%: of the device's memory; 0: not given so
    std::uint64_t host_memory_bytes = 0;  ///< SWAPADVISOR_HOST_MEMORY: pinned host memory at most; 0: chosen
    std::string report_path;              ///< SWAPADVISOR_REPORT: report at exit; "-" or "": see `quiet`
    std::string trace_path;               ///< SWAPADVISOR_TRACE: record into this file
    std::string plan_path;                ///< SWAPADVISOR_PLAN: follow this plan from the start
    bool plan_or_search =
        false;  ///< SWAPADVISOR_PLAN_OR_SEARCH: search where that plan does not fit, instead of ending
    MemoryInfo info = MemoryInfo::device;  ///< SWAPADVISOR_INFO
    bool quiet = false;                    ///< SWAPADVISOR_QUIET: nothing on standard error but errors
    bool strict = false;                   ///< SWAPADVISOR_STRICT: absent buffers stay unmapped for good
    bool sync_free = false;  ///< SWAPADVISOR_SYNC_FREE: cuMemFree waits for the device as the driver's does
    bool prove_reads =
        false;  ///< SWAPADVISOR_PROVE_READS: find out what kernels only read, and do not copy it out
    std::vector<std::uint64_t>
        plain_bytes;                 ///< SWAPADVISOR_PLAIN: allocations of these sizes stay the driver's
    bool plan_in_background = true;  ///< SWAPADVISOR_PLANNER=none turns planning off
    std::string planner = "ga";      ///< SWAPADVISOR_PLANNER: a planner's name, or none
    double plan_seconds = 10;        ///< SWAPADVISOR_SECONDS: search budget
    int plan_threads = 0;            ///< SWAPADVISOR_THREADS: 0: chosen
    std::uint64_t plan_seed = 1;     ///< SWAPADVISOR_SEED
    TimingSource timing = TimingSource::automatic;  ///< SWAPADVISOR_TIMING: auto, cupti or events
    std::uint32_t log_topics = 0;  ///< SWAPADVISOR_LOG: comma-separated LogTopic names, or all
};

/// Parsed on first use; says one line on standard error for each value that cannot be used, and goes on
/// without it.
const Config& config();

/// `look_up(name)` gives a variable's value or null; problems are appended as "NAME=value: what is wrong".
Config parse_config(const char* (*look_up)(const char* name), std::vector<std::string>& problems);

/// Device memory as every command takes it: a size or a share such as "50%", more than nothing. Sets one of
/// the two. Empty: well; else what is wrong with it.
std::string parse_memory(std::string_view text, std::uint64_t& bytes, double& fraction);

/// The names of planners that SWAPADVISOR_PLANNER may have, but for "none".
inline constexpr const char* kPlanners[] = {"ga", "fast", "belady-prefetch", "belady", "lru"};

/// A setting for people: its variable, what holds without it.
struct SettingInfo {
    const char *name, *standard;
};
inline constexpr SettingInfo kSettings[] = {
    {"SWAPADVISOR", "1"},
    {"SWAPADVISOR_MEMORY", "all there is"},
    {"SWAPADVISOR_HOST_MEMORY", "three quarters of the machine's"},
    {"SWAPADVISOR_INFO", "device"},
    {"SWAPADVISOR_REPORT", "none"},
    {"SWAPADVISOR_TRACE", "none"},
    {"SWAPADVISOR_PLAN", "none: searched"},
    {"SWAPADVISOR_PLAN_OR_SEARCH", "0"},
    {"SWAPADVISOR_PLANNER", "ga"},
    {"SWAPADVISOR_SECONDS", "10"},
    {"SWAPADVISOR_THREADS", "0: chosen"},
    {"SWAPADVISOR_SEED", "1"},
    {"SWAPADVISOR_STRICT", "0"},
    {"SWAPADVISOR_PROVE_READS", "0"},
    {"SWAPADVISOR_SYNC_FREE", "0"},
    {"SWAPADVISOR_PLAIN", "none"},
    {"SWAPADVISOR_TIMING", "auto"},
    {"SWAPADVISOR_LOG", "nothing"},
    {"SWAPADVISOR_QUIET", "0"},
};

/// "4096", "512MiB", "1.5G", "16 GB": KiB... are powers of 1024, KB... of 1000, bare letters of
/// `bare_letter`. False: not a size.
bool parse_bytes(std::string_view text, std::uint64_t& bytes, double bare_letter = 1024);

}  // namespace swapadvisor
