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

/// Help whose usage line has the program in it.
class LaunchHelp : public CLI::Formatter {
  public:
    explicit LaunchHelp(std::string positionals) : positionals_(std::move(positionals)) {}
    std::string make_usage(const CLI::App* app, std::string) const override {
        return fmt::format("Usage: {} [options] {}-- PROGRAM [arguments]\n", app->get_name(), positionals_);
    }

  private:
    std::string positionals_;
};

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

Launch::Launch(CLI::App& app, const std::string& positionals) : app_(app), positionals_(positionals) {
    settings_.reserve(24);
    add_options();
}

std::string& Launch::setting(const char* option, const char* variable) {
    return settings_.emplace_back(Setting{option, variable, ""}).value;
}

std::string Launch::value_of(const char* variable) const {
    for (const Setting& setting : settings_)
        if (setting.variable == variable && !setting.value.empty()) return setting.value;
    return "";
}

void Launch::add_options() {
    const auto add = [&](const char* names, const char* variable, const char* text) {
        app_.add_option(names, setting(names, variable), text);
    };
    const auto add_flag = [&](const char* name, const char* variable, const char* text) {
        std::string& value = setting(name, variable);
        app_.add_flag_callback(
            name, [&value] { value = "1"; }, text);
    };
    add("--memory", "SWAPADVISOR_MEMORY", "device memory to stay within: 16GiB, 512MiB, 50% (all there is)");
    add("--host-memory", "SWAPADVISOR_HOST_MEMORY", "pinned host memory to use at most");
    add("--planner", "SWAPADVISOR_PLANNER",
        "ga, fast, belady-prefetch, belady, lru; none: swap on demand only (ga)");
    add("--seconds", "SWAPADVISOR_SECONDS", "search time in the background (10)");
    add("--threads", "SWAPADVISOR_THREADS", "threads of the search (chosen)");
    add("--seed", "SWAPADVISOR_SEED", "seed of the search (1)");
    add("--timing", "SWAPADVISOR_TIMING",
        "how operations are timed: cupti, events, auto (CUPTI where it works)");
    add("--log", "SWAPADVISOR_LOG", "routes, memory, ops, plan or all; several with commas");
    add("--plain", "SWAPADVISOR_PLAIN",
        "sizes of allocations to leave to the driver, such as memory for other processes");
    add_flag("--sync-free", "SWAPADVISOR_SYNC_FREE",
             "freeing waits for the device, as the driver's own does");
    add_flag("--prove-reads", "SWAPADVISOR_PROVE_READS",
             "find out what kernels only read, and copy it out only if it did change after all");
    app_.add_flag("-q,--quiet", quiet_, "nothing on standard error but errors");
    app_.add_flag("--strict", strict_,
                  "absent buffers stay unmapped for good, not only in a plan's first two iterations; a "
                  "program that the shim "
                  "cannot be loaded into is refused");
    app_.add_flag("--no-settings", no_settings_, "leave the framework's allocator settings as they are");
}

int Launch::parse(int argc, char** argv) {
    app_.name(argv[0]);
    app_.prefix_command();
    app_.formatter(std::make_shared<LaunchHelp>(positionals_));
    std::vector<std::string> ours(argv + 1, argv + argc);
    const auto split = std::find(ours.begin(), ours.end(), "--");
    std::vector<std::string> rest(split == ours.end() ? split : split + 1, ours.end());
    ours.erase(split, ours.end());
    std::reverse(ours.begin(), ours.end());  // CLI11 takes the words from the back
    try {
        app_.parse(ours);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app_.exit(error);
        return fail(2, fmt::format("{} ({} --help)", error.what(), app_.get_name()));
    }
    program_ = app_.remaining();
    if (!program_.empty() && program_.front().starts_with("-")) {
        return fail(2, fmt::format("unknown option {} ({} --help)", program_.front(), app_.get_name()));
    }
    program_.insert(program_.end(), rest.begin(), rest.end());
    if (program_.empty()) {
        return fail(2, fmt::format("no program given: {} [options] {}-- PROGRAM [arguments]", app_.get_name(),
                                   positionals_));
    }
    return apply_settings();
}

/// Options into variables, checked as the shim will read them. Returns -1 to go on.
int Launch::apply_settings() {
    for (const Setting& setting : settings_) {
        if (!setting.value.empty()) setenv(setting.variable.c_str(), setting.value.c_str(), 1);
    }
    if (quiet_) setenv("SWAPADVISOR_QUIET", "1", 1);
    if (strict_) setenv("SWAPADVISOR_STRICT", "1", 1);
    std::vector<std::string> problems;
    const Config config =
        parse_config([](const char* name) -> const char* { return std::getenv(name); }, problems);
    quiet_ |= config.quiet;
    enabled_ = config.enabled;
    report_ = config.report_path;
    trace_ = config.trace_path;
    for (std::string problem : problems) {
        for (const Setting& setting : settings_) {
            const std::string start = setting.variable + "=";
            if (!setting.value.empty() && problem.starts_with(start)) {
                problem = setting.option + " " + problem.substr(start.size());
            }
        }
        fail(2, problem);
    }
    return problems.empty() ? -1 : 2;
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
