// `doctor`: what this machine offers, and what would not work.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "interpose/command/commands.h"
#include "interpose/command/machine.h"
#include "interpose/command/options.h"
#include "interpose/command/sizes.h"
#include "interpose/config.h"

namespace swapadvisor::command {

namespace {

std::string version_text(int version) {
    return version ? fmt::format("{}.{}", version / 1000, version % 1000 / 10) : "unknown";
}

std::string rate_text(std::uint64_t bytes_per_s) {
    return bytes_per_s ? fmt::format("{:.1f} GB/s", static_cast<double>(bytes_per_s) * 1e-9) : "not measured";
}

std::string bytes_text(std::uint64_t bytes) {
    return format_bytes(static_cast<std::int64_t>(bytes));
}

std::string or_missing(const std::string& path) {
    return path.empty() ? "not found" : path;
}

void print_text(const MachineFacts& facts) {
    const auto row = [](const char* what, const std::string& value) {
        fmt::print("  {:<22} {}\n", what, value);
    };
    fmt::print("software\n");
    row("preload object", or_missing(facts.preload_path));
    row("planner", or_missing(facts.planner_path));
    row("CUDA driver", facts.driver_path.empty() ? "not found"
                                                 : fmt::format("{}, CUDA {}", facts.driver_path,
                                                               version_text(facts.driver_version)));
    row("kernel arguments", facts.parameter_layouts ? "layout known" : "layout unknown");
    row("CUPTI", or_missing(facts.cupti_path));
    fmt::print("host\n");
    row("free memory", bytes_text(facts.host_available_bytes));
    row("may be locked", facts.locked_limit_bytes ? bytes_text(facts.locked_limit_bytes) : "no limit");
    for (const DeviceFacts& device : facts.devices) {
        fmt::print("device {}: {}\n", device.ordinal, device.name);
        row("compute capability",
            fmt::format("{}.{}", device.compute_capability / 10, device.compute_capability % 10));
        row("memory",
            fmt::format("{}, {} free", bytes_text(device.memory_bytes), bytes_text(device.free_bytes)));
        row("virtual memory",
            device.vmm ? fmt::format("yes, in pieces of {}", bytes_text(device.granularity_bytes)) : "no");
        if (device.vmm) {
            row("aliased mappings", device.aliasing ? "work" : "do not work");
            row("map and set access", format_ns(device.map_ns));
            row("unmap", format_ns(device.unmap_ns));
        }
        row("copy to the device", rate_text(device.h2d_bytes_per_s));
        row("copy from the device", rate_text(device.d2h_bytes_per_s));
        row("both ways at once", rate_text(device.duplex_bytes_per_s));
        row("allocate pinned", rate_text(device.pinned_bytes_per_s));
    }
    std::puts("settings (swapadvisor run --help has them as options)");
    std::vector<std::string> problems;
    parse_config([](const char* name) -> const char* { return std::getenv(name); }, problems);
    for (const SettingInfo& setting : kSettings) {
        const char* value = std::getenv(setting.name);
        fmt::print("  {:<26} {}\n", setting.name,
                   value && *value ? value : fmt::format("({})", setting.standard));
    }
    auto lines = shortcomings(facts);
    for (const std::string& problem : problems) lines.push_back(problem + "; ignored");
    std::puts(lines.empty() ? "nothing stands in the way" : "what to know");
    for (const std::string& line : lines) fmt::print("  - {}\n", line);
}

void print_json(const MachineFacts& facts) {
    nlohmann::ordered_json out;
    out["format"] = "swapadvisor-doctor";
    out["version"] = 1;
    out["can_manage"] = can_manage(facts);
    out["driver"] = {{"path", facts.driver_path},
                     {"version", facts.driver_version},
                     {"problem", facts.driver_problem},
                     {"parameter_layouts", facts.parameter_layouts}};
    out["preload_path"] = facts.preload_path;
    out["planner_path"] = facts.planner_path;
    out["cupti_path"] = facts.cupti_path;
    out["host_available_bytes"] = facts.host_available_bytes;
    out["locked_limit_bytes"] = facts.locked_limit_bytes;
    out["devices"] = nlohmann::ordered_json::array();
    for (const DeviceFacts& device : facts.devices) {
        out["devices"].push_back({{"ordinal", device.ordinal},
                                  {"name", device.name},
                                  {"compute_capability", device.compute_capability},
                                  {"memory_bytes", device.memory_bytes},
                                  {"free_bytes", device.free_bytes},
                                  {"vmm", device.vmm},
                                  {"granularity_bytes", device.granularity_bytes},
                                  {"aliasing", device.aliasing},
                                  {"map_ns", device.map_ns},
                                  {"unmap_ns", device.unmap_ns},
                                  {"h2d_bytes_per_s", device.h2d_bytes_per_s},
                                  {"d2h_bytes_per_s", device.d2h_bytes_per_s},
                                  {"duplex_bytes_per_s", device.duplex_bytes_per_s},
                                  {"pinned_bytes_per_s", device.pinned_bytes_per_s},
                                  {"problem", device.problem}});
    }
    for (const SettingInfo& setting : kSettings)
        if (const char* value = std::getenv(setting.name)) out["settings"][setting.name] = value;
    out["shortcomings"] = shortcomings(facts);
    fmt::print("{}\n", out.dump(1));
}

}  // namespace

int cmd_doctor(int argc, char** argv) {
    Options app(
        "swapadvisor doctor",
        "Says what this machine offers to SwapAdvisor, what would not work, and which settings hold. Exit "
        "status 1: nothing can be managed here.",
        "", "  swapadvisor doctor\n  swapadvisor doctor --json");
    bool json = false;
    app.add_flag("--json", json, "machine-readable");
    return app.run(argc, argv, [&] {
        const MachineFacts facts = find_machine_facts();
        json ? print_json(facts) : print_text(facts);
        return can_manage(facts) ? 0 : 1;
    });
}

}  // namespace swapadvisor::command
