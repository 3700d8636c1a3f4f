// Figures of a run: call counts, engine use, peaks, findings; the JSON behind --stats and the trace behind
// --timeline.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/softgpu/driver/sim.h"

namespace softgpu {

struct TimelineEntry {
    Name name;
    int device;
    unsigned slot;
    Engine engine;
    Time start, end;
    std::uint64_t bytes;
};

struct Stats {
    std::map<std::string, std::uint64_t> calls;
    std::uint64_t kernels = 0, thread_instructions = 0, global_bytes = 0;
    std::uint64_t d2d_bytes = 0, memset_bytes = 0;
    std::uint64_t strictness_errors = 0, races = 0, faults_injected = 0, illegal_accesses = 0;
    std::vector<std::string> findings;  ///< first lines of strictness errors and races
    std::vector<TimelineEntry> timeline;
    struct Snapshot {
        std::string label, json;
    };
    std::vector<Snapshot> snapshots;

    std::string json() const;  ///< one JSON object, of now
    void write();              ///< --stats and --timeline files
};

}  // namespace softgpu
