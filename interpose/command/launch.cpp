// Programs under the preload object.
#include "interpose/command/launch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "interpose/command/framework_settings.h"
#include "interpose/command/machine.h"
#include "interpose/command/preload.h"
#include "interpose/command/run_folder.h"
#include "interpose/command/supervise.h"
#include "interpose/config.h"

namespace swapadvisor::command {

namespace {

constexpr int kCannotStart = 125;  // as env, timeout and nohup say that they themselves failed

int fail(int status, const std::string& text) {
    fmt::print(stderr, "error: {}\n", text);
    return status;
}

void apply_framework_settings(const FrameworkAdvice& advice, bool quiet) {
    std::string said;
    for (const FrameworkSetting& setting : advice.set) {
        setenv(setting.name.c_str(), setting.value.c_str(), 1);
        said += fmt::format(" {}={}", setting.name, setting.value);
    }
    if (!said.empty() && !quiet) {
        fmt::print(stderr,
                   "swapadvisor: set{} (so that each tensor is an allocation of its own; --no-settings "
                   "leaves them)\n",
                   said);
    }
    said.clear();
    std::string needed;
    for (const FrameworkSetting& setting : advice.contrary) {
        said += fmt::format(" {}={}", setting.name, std::getenv(setting.name.c_str()));
        needed += fmt::format(" {}={} ({})", setting.name, setting.value, setting.framework);
    }
    if (!said.empty() && !quiet) {
        fmt::print(stderr, "swapadvisor:{} left as you set it; tensors can be moved one by one only with{}\n",
                   said, needed);
    }
}

/// True, and one line, if the program wants a driver and there is none. The shim itself would not learn of it
/// where a framework looks through folders of its own choice, or where the loader does not find what the
/// program is linked to.
bool say_if_driver_is_missing(const std::string& path, const FrameworkAdvice& advice, bool quiet) {
    const std::string why = driver_missing();
    if (why.empty() || (advice.wanted.empty() && !names_driver(path))) return false;
    if (!quiet) {
        fmt::print(
            stderr,
            "swapadvisor: no CUDA driver was found ({}): install NVIDIA's driver or name its folder in "
            "LD_LIBRARY_PATH; swapadvisor doctor tells what else is missing\n",
            why);
    }
    return true;
}

}  // namespace

Launch::Launch(const std::string& command, const std::string& description, const std::string& positionals,
               const std::string& examples)
    : Options(command, description, positionals + "-- PROGRAM [arguments]", examples) {
    settings_.reserve(24);
    prefix_command();
    add_options();
}

CLI::Option* Launch::add_setting(const char* names, const char* variable, const char* kind,
                                 const char* text) {
    Setting& setting = settings_.emplace_back(Setting{names, variable, "", nullptr});
    setting.given = add_option(names, setting.value, text)->type_name(kind);
    return setting.given;
}

void Launch::add_switch(const char* name, const char* variable, const char* text) {
    Setting& setting = settings_.emplace_back(Setting{name, variable, "", nullptr});
    setting.given = add_flag_callback(
        name, [&setting] { setting.value = "1"; }, text);
}

std::string Launch::value_of(const char* variable) const {
    for (const Setting& setting : settings_)
        if (setting.variable == variable) return setting.value;
    return "";
}

void Launch::add_options() {
    add_setting("--memory", "SWAPADVISOR_MEMORY", "SIZE",
                "device memory to stay within: 16GiB, 512MiB, 50% (all there is)");
    add_setting("--host-memory", "SWAPADVISOR_HOST_MEMORY", "SIZE", "pinned host memory to use at most");
    add_setting("--info", "SWAPADVISOR_INFO", "WHAT",
                "what the program is told it has: device, or host for host memory as well, where it would refuse to start "
                "(device)");
    add_setting("--planner", "SWAPADVISOR_PLANNER", "NAME",
                "ga, fast, belady-prefetch, belady, lru; none: swap on demand only (ga)");
    add_setting("--seconds", "SWAPADVISOR_SECONDS", "S", "search time in the background (10)");
    add_setting("--threads", "SWAPADVISOR_THREADS", "N", "threads of the search (chosen)");
    add_setting("--seed", "SWAPADVISOR_SEED", "N", "seed of the search (1)");
    add_setting("--timing", "SWAPADVISOR_TIMING", "SOURCE",
                "how operations are timed: cupti, events, auto (CUPTI where it works)");
    add_setting("--log", "SWAPADVISOR_LOG", "TOPICS",
                "routes, memory, ops, plan or all; several with commas");
    add_setting("--plain", "SWAPADVISOR_PLAIN", "SIZES",
                "sizes of allocations to leave to the driver, such as memory for other processes");
    add_switch("--sync-free", "SWAPADVISOR_SYNC_FREE",
               "freeing waits for the device, as the driver's own does");
    add_switch("--prove-reads", "SWAPADVISOR_PROVE_READS",
               "find out what kernels only read, and copy it out only if it did change after all");
    add_switch("--strict", "SWAPADVISOR_STRICT",
               "absent buffers stay unmapped for good, not only in a plan's first two iterations; a program "
               "that the shim cannot be loaded into is refused");
    add_switch("-q,--quiet", "SWAPADVISOR_QUIET", "nothing on standard error but errors");
    add_flag("--no-settings", no_settings_, "leave the framework's allocator settings as they are");
}

int Launch::parse_launch(int argc, char** argv) {
    std::vector<std::string> ours(argv + 1, argv + argc);
    const auto split = std::find(ours.begin(), ours.end(), "--");
    const std::vector<std::string> rest(split == ours.end() ? split : split + 1, ours.end());
    ours.erase(split, ours.end());
    if (const int status = parse_words(ours); status >= 0) return status;
    program_ = remaining();
    if (!program_.empty() && program_.front().starts_with("-"))
        return refuse("unknown option " + program_.front());
    program_.insert(program_.end(), rest.begin(), rest.end());
    if (program_.empty()) return refuse("no program given: " + get_name() + " [options] " + usage());
    return apply_settings();
}

/// Options into variables, checked as the shim will read them. Returns -1 to go on.
int Launch::apply_settings() {
    for (const Setting& setting : settings_) {
        if (setting.given->count() > 0 && setting.value.empty())
            return refuse(setting.option + ": empty (leave it out for what holds without it)");
        if (!setting.value.empty()) setenv(setting.variable.c_str(), setting.value.c_str(), 1);
    }
    std::vector<std::string> problems;
    const Config config =
        parse_config([](const char* name) -> const char* { return std::getenv(name); }, problems);
    quiet_ = config.quiet;
    strict_ = config.strict;
    enabled_ = config.enabled;
    report_ = config.report_path;
    trace_ = config.trace_path;
    for (std::string problem : problems) {  // one line: the first says enough
        for (const Setting& setting : settings_) {
            const std::string start = setting.variable + "=";
            if (!setting.value.empty() && problem.starts_with(start))
                problem = setting.option + " " + problem.substr(start.size());
        }
        return refuse(problem);
    }
    return -1;
}

int Launch::start() {
    std::string problem;
    const std::string object = find_preload_object(problem);
    if (object.empty()) return fail(kCannotStart, problem);
    Supervision supervision;
    supervision.program = program_;
    const std::string path = find_program(program_.front());
    if (path.empty() || access(path.c_str(), F_OK) != 0) {
        return fail(127, program_.front() + ": no such program");
    }
    if (access(path.c_str(), X_OK) != 0)
        return fail(126, fmt::format("cannot start {}: {}", path, std::strerror(errno)));
    if (const std::string obstacle = preload_obstacle(path); !obstacle.empty()) {
        if (strict_)
            return fail(kCannotStart, fmt::format("{}: the shim cannot be loaded: {}", path, obstacle));
        fmt::print(stderr, "swapadvisor: {}: the shim cannot be loaded, {}: it runs without SwapAdvisor\n",
                   path, obstacle);
    } else {
        const FrameworkAdvice advice = framework_advice(program_);
        // At exit the shim looks whether these took effect, whoever set them or did not.
        if (!advice.wanted.empty()) setenv("SWAPADVISOR_WANTED_SETTINGS", advice.wanted.c_str(), 1);
        if (!no_settings_) {
            if (!advice.refusal.empty()) return fail(2, advice.refusal);
            apply_framework_settings(advice, quiet_);
        }
        const bool without_driver = say_if_driver_is_missing(path, advice, quiet_);
        if (without_driver) setenv("SWAPADVISOR_NO_DRIVER_SAID", "1", 1);
        setenv("NVTX_INJECTION64_PATH", object.c_str(),
               0);  // the program's ranges name its ops; what is set stays
        setenv("LD_PRELOAD", preload_list(object, std::getenv("LD_PRELOAD")).c_str(), 1);
        supervision.confirm = true;
        supervision.may_be_silent = without_driver;
    }
    supervision.path = path;
    OutputFiles files;
    if (const std::string cannot = files.open(report_, trace_); !cannot.empty()) return fail(2, cannot);
    RunFolder folder;
    const bool asked = enabled_ && !(report_.empty() && trace_.empty());
    supervision.afterwards = [&](const ProgramEnd& end) {
        folder.conclude(end, asked, quiet_);
        files.remove_unused();
    };
    supervision.not_started = [&] {
        folder.remove();
        files.remove_unused();
    };
    return supervise(supervision);
}

}  // namespace swapadvisor::command
