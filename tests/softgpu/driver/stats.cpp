#include "tests/softgpu/driver/stats.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/softgpu/driver/core.h"

namespace softgpu {
namespace {

std::string expand(std::string path) {
    if (const auto at = path.find("%p"); at != std::string::npos)
        path.replace(at, 2, std::to_string(getpid()));
    return path;
}

/// A process that ran no kernel does not replace what another one (of the same run) wrote a moment ago.
bool give_way(const std::string& path, std::uint64_t kernels) {
    struct stat status {};
    return kernels == 0 && stat(path.c_str(), &status) == 0 && status.st_mtime >= driver().started;
}

/// Readers see the old file or the whole new one.
void replace_file(const std::string& path, const std::string& text) {
    const std::string temporary = path + "." + std::to_string(getpid());
    std::ofstream file(temporary);
    file << text;
    file.close();
    if (!file || std::rename(temporary.c_str(), path.c_str()) != 0)
        say("error: cannot write %s", path.c_str());
}

nlohmann::json figures(const Stats& s) {
    Driver& d = driver();
    nlohmann::json out;
    out["virtual_ns"] = d.sim.now();
    out["host_ns"] = thread_state().time;
    out["calls"] = s.calls;
    out["kernels"] = s.kernels;
    out["thread_instructions"] = s.thread_instructions;
    out["global_bytes"] = s.global_bytes;
    out["d2d_bytes"] = s.d2d_bytes;
    out["memset_bytes"] = s.memset_bytes;
    out["strictness_errors"] = s.strictness_errors;
    out["races"] = s.races;
    out["illegal_accesses"] = s.illegal_accesses;
    out["faults_injected"] = s.faults_injected;
    out["findings"] = s.findings;
    out["pinned_bytes"] = d.memory.host_used();
    out["peak_pinned_bytes"] = d.memory.host_peak();
    out["devices"] = nlohmann::json::array();
    for (const Device& device : d.devices) {
        nlohmann::json one;
        for (const Engine e : {Engine::compute, Engine::h2d, Engine::d2h}) {
            const EngineUse& use = d.sim.use(device.index, e);
            one[engine_name(e)] = {{"busy_ns", use.busy}, {"ops", use.ops}, {"bytes", use.bytes}};
        }
        one["used_bytes"] = d.memory.used(device.index);
        one["peak_bytes"] = d.memory.peak(device.index);
        out["devices"].push_back(one);
    }
    return out;
}

}  // namespace

std::string Stats::json() const {
    return figures(*this).dump();
}

void Stats::write() {
    const Options& o = options();
    if (!driver().initialised) return;
    if (!o.stats.empty()) {
        nlohmann::json all = figures(*this);
        all["snapshots"] = nlohmann::json::array();
        for (const Snapshot& s : snapshots) {
            nlohmann::json one = nlohmann::json::parse(s.json);
            one["label"] = s.label;
            all["snapshots"].push_back(one);
        }
        const std::string path = expand(o.stats);
        if (!give_way(path, kernels)) replace_file(path, all.dump(1) + "\n");
    }
    if (!o.timeline.empty()) {
        // Chrome trace events; times in microseconds. One row per engine and device.
        const std::string path = expand(o.timeline);
        if (give_way(path, kernels)) return;
        std::ostringstream file;
        file << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
        bool first = true;
        for (const TimelineEntry& e : timeline) {
            nlohmann::json name = *e.name;
            char rest[300];
            std::snprintf(rest, sizeof rest,
                          ",\"ph\":\"X\",\"pid\":%d,\"tid\":\"%s\",\"ts\":%llu.%03llu,\"dur\":%llu.%03llu,"
                          "\"args\":{\"stream\":%u,\"bytes\":%llu}}",
                          e.device, engine_name(e.engine), static_cast<unsigned long long>(e.start / 1000),
                          static_cast<unsigned long long>(e.start % 1000),
                          static_cast<unsigned long long>((e.end - e.start) / 1000),
                          static_cast<unsigned long long>((e.end - e.start) % 1000), e.slot,
                          static_cast<unsigned long long>(e.bytes));
            file << (first ? "\n" : ",\n") << "{\"name\":" << name.dump() << rest;
            first = false;
        }
        file << "\n]}\n";
        replace_file(path, file.str());
    }
}

}  // namespace softgpu
