// `run`, `record`, `replay`: start a program under the preload object. The program takes this process's
// place, so that signals, job control and the exit status are its own.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/framework_settings.h"
#include "interpose/command/machine.h"
#include "interpose/command/planner_options.h"
#include "interpose/command/preload.h"
#include "interpose/command/sizes.h"
#include "interpose/config.h"

namespace swapadvisor::command {

namespace {

constexpr int kCannotStart = 125;  // as env, timeout and nohup say that they themselves failed
constexpr int kConfirmSeconds = 20;

int fail(int status, const std::string& text) {
    fmt::print(stderr, "error: {}\n", text);
    return status;
}

/// An option that becomes a variable of the shim's.
struct Setting {
    std::string option, variable, value;
};

struct Launch {
    std::vector<Setting> settings;
    bool quiet = false, strict = false, no_settings = false;
    std::vector<std::string> program;

    /// The storage of an option's value; stays where it is (settings are reserved up front).
    std::string& setting(const char* option, const char* variable) {
        return settings.emplace_back(Setting{option, variable, ""}).value;
    }
};

void add_options(CLI::App& app, Launch& launch) {
    launch.settings.reserve(16);
    const auto add = [&](const char* names, const char* variable, const char* text) {
        app.add_option(names, launch.setting(names, variable), text);
    };
    const auto add_flag = [&](const char* name, const char* variable, const char* text) {
        std::string& value = launch.setting(name, variable);
        app.add_flag_callback(
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
    app.add_flag("-q,--quiet", launch.quiet, "nothing on standard error but errors");
    app.add_flag("--strict", launch.strict,
                 "absent buffers stay unmapped for good, not only in a plan's first two iterations; a "
                 "program that the shim "
                 "cannot be loaded into is refused");
    app.add_flag("--no-settings", launch.no_settings, "leave the framework's allocator settings as they are");
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

/// Parses up to "--"; what follows it, or the first word that is no option, is the program. Returns -1 to go
/// on.
int parse(CLI::App& app, Launch& launch, int argc, char** argv, const std::string& positionals = "") {
    app.name(argv[0]);
    app.prefix_command();
    app.formatter(std::make_shared<LaunchHelp>(positionals));
    std::vector<std::string> ours(argv + 1, argv + argc);
    const auto split = std::find(ours.begin(), ours.end(), "--");
    std::vector<std::string> rest(split == ours.end() ? split : split + 1, ours.end());
    ours.erase(split, ours.end());
    std::reverse(ours.begin(), ours.end());  // CLI11 takes the words from the back
    try {
        app.parse(ours);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        return fail(2, fmt::format("{} ({} --help)", error.what(), app.get_name()));
    }
    launch.program = app.remaining();
    if (!launch.program.empty() && launch.program.front().starts_with("-")) {
        return fail(2, fmt::format("unknown option {} ({} --help)", launch.program.front(), app.get_name()));
    }
    launch.program.insert(launch.program.end(), rest.begin(), rest.end());
    if (launch.program.empty()) {
        return fail(2, fmt::format("no program given: {} [options] {}-- PROGRAM [arguments]", app.get_name(),
                                   positionals));
    }
    return -1;
}

/// Options into variables, checked as the shim will read them. Returns -1 to go on.
int apply_settings(Launch& launch) {
    for (const Setting& setting : launch.settings) {
        if (!setting.value.empty()) setenv(setting.variable.c_str(), setting.value.c_str(), 1);
    }
    if (std::getenv("SWAPADVISOR_TRACE") || std::getenv("SWAPADVISOR_REPORT")) {
        // By this the processes of the program tell which of them has written there already.
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        setenv("SWAPADVISOR_START", std::to_string(std::chrono::nanoseconds(now).count()).c_str(), 1);
    }
    if (launch.quiet) setenv("SWAPADVISOR_QUIET", "1", 1);
    if (launch.strict) setenv("SWAPADVISOR_STRICT", "1", 1);
    std::vector<std::string> problems;
    const Config config =
        parse_config([](const char* name) -> const char* { return std::getenv(name); }, problems);
    launch.quiet |= config.quiet;
    for (std::string problem : problems) {
        for (const Setting& setting : launch.settings) {
            const std::string start = setting.variable + "=";
            if (!setting.value.empty() && problem.starts_with(start)) {
                problem = setting.option + " " + problem.substr(start.size());
            }
        }
        fail(2, problem);
    }
    return problems.empty() ? -1 : 2;
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

/// A process of its own, not a child of the program's, that waits for the shim's word and complains if none
/// comes. Returns the descriptor that the shim is to write to, or -1.
int start_watcher(const std::string& program, bool driver_missing) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    const pid_t middle = fork();
    if (middle == 0) {
        if (fork() != 0) _exit(0);
        close(ends[1]);
        pollfd waiting{ends[0], POLLIN, 0};
        int ready = 0;
        do {
            ready = poll(&waiting, 1, kConfirmSeconds * 1000);
        } while (ready < 0 && errno == EINTR);
        char word = 0;
        if (ready <= 0) {
            fmt::print(stderr, "swapadvisor: {} has not loaded the shim: it runs without SwapAdvisor\n",
                       program);
        } else if (read(ends[0], &word, 1) != 1 && !driver_missing) {
            // Its end is closed. (What is linked to a driver that is not there cannot load anything.)
            fmt::print(stderr, "swapadvisor: {} has not loaded the shim: it ended without SwapAdvisor\n",
                       program);
        }
        _exit(0);
    }
    close(ends[0]);
    if (middle < 0) {
        close(ends[1]);
        return -1;
    }
    waitpid(middle, nullptr, 0);
    return ends[1];
}

/// Becomes the program. Returns only if that fails.
int start(const Launch& launch) {
    std::string problem;
    const std::string object = find_preload_object(problem);
    if (object.empty()) return fail(kCannotStart, problem);
    int descriptor = -1;
    const std::string path = find_program(launch.program.front());
    if (path.empty() || access(path.c_str(), F_OK) != 0) {
        return fail(127, launch.program.front() + ": no such program");
    }
    if (access(path.c_str(), X_OK) != 0)
        return fail(126, fmt::format("cannot start {}: {}", path, std::strerror(errno)));
    if (const std::string obstacle = preload_obstacle(path); !obstacle.empty()) {
        if (launch.strict)
            return fail(kCannotStart, fmt::format("{}: the shim cannot be loaded: {}", path, obstacle));
        fmt::print(stderr, "swapadvisor: {}: the shim cannot be loaded, {}: it runs without SwapAdvisor\n",
                   path, obstacle);
    } else {
        const FrameworkAdvice advice = framework_advice(launch.program);
        // At exit the shim looks whether these took effect, whoever set them or did not.
        if (!advice.wanted.empty()) setenv("SWAPADVISOR_WANTED_SETTINGS", advice.wanted.c_str(), 1);
        if (!launch.no_settings) {
            if (!advice.refusal.empty()) return fail(2, advice.refusal);
            apply_framework_settings(advice, launch.quiet);
        }
        const bool without_driver = say_if_driver_is_missing(path, advice, launch.quiet);
        if (without_driver) setenv("SWAPADVISOR_NO_DRIVER_SAID", "1", 1);
        setenv("NVTX_INJECTION64_PATH", object.c_str(),
               0);  // the program's ranges name its ops; what is set stays
        setenv("LD_PRELOAD", preload_list(object, std::getenv("LD_PRELOAD")).c_str(), 1);
        descriptor = start_watcher(path, without_driver);
        if (descriptor >= 0) {
            setenv("SWAPADVISOR_CONFIRM_FD", std::to_string(descriptor).c_str(), 1);
        }
    }
    std::vector<char*> arguments;
    for (const std::string& word : launch.program) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    const int why = errno;
    if (descriptor >= 0) (void)!write(descriptor, "0", 1);  // the watcher has nothing to add
    return fail(why == ENOENT ? 127 : 126, fmt::format("cannot start {}: {}", path, std::strerror(why)));
}

int run(CLI::App& app, Launch& launch, int argc, char** argv) {
    if (const int status = parse(app, launch, argc, argv); status >= 0) return status;
    if (const int status = apply_settings(launch); status >= 0) return status;
    return start(launch);
}

/// Why the plan file cannot be followed by whatever program; empty: it may be.
std::string plan_problem(const std::string& path, const Launch& launch) {
    try {
        const planner::Plan plan = planner::parse_plan(read_file(path));
        if (is_ideal(plan))
            return path + " was made with --ideal, which no run can follow: plan again without";
        for (const Setting& setting : launch.settings) {
            std::uint64_t bytes = 0;
            if (setting.variable == "SWAPADVISOR_MEMORY" && parse_bytes(setting.value, bytes) &&
                static_cast<std::int64_t>(bytes) < plan.limit_bytes)
                return fmt::format("--memory {} is less than the {} that {} was made for: plan again for it",
                                   setting.value, format_bytes(plan.limit_bytes), path);
        }
        return "";
    } catch (const planner::PlanError& error) {
        return path + " is no plan: " + error.what();
    } catch (const std::exception& error) {
        return error.what();
    }
}

}  // namespace

int cmd_run(int argc, char** argv) {
    CLI::App app(
        "Runs a program within a memory limit: records its first iterations while swapping on demand, plans "
        "in\n"
        "the background, and follows the plan from then on. Results are the same to the last bit.");
    Launch launch;
    add_options(app, launch);
    app.add_option("-o,--output", launch.setting("--output", "SWAPADVISOR_REPORT"),
                   "write the report here at exit");
    app.add_option("--trace", launch.setting("--trace", "SWAPADVISOR_TRACE"), "write a trace here, too");
    app.footer(
        "examples:\n  swapadvisor run -- python train.py\n"
        "  swapadvisor run --memory 16GiB -o report.txt -- ./train --epochs 3\n"
        "  swapadvisor run -q --memory 50% --planner fast -- python -m mypackage.train\n"
        "By hand: LD_PRELOAD=libswapadvisor.so SWAPADVISOR_MEMORY=16GiB ./train");
    return run(app, launch, argc, argv);
}

int cmd_record(int argc, char** argv) {
    CLI::App app("Runs a program and writes a trace of what it does to device memory.");
    Launch launch;
    add_options(app, launch);
    std::string& trace = launch.setting("--output", "SWAPADVISOR_TRACE");
    trace = "swapadvisor.trace";
    app.add_option("-o,--output", trace, "the trace (swapadvisor.trace)");
    app.footer(
        "examples:\n  swapadvisor record -o run.trace -- ./train --epochs 1\n"
        "  swapadvisor plan run.trace -o run.plan --memory 16GiB\n  swapadvisor replay run.plan -- ./train");
    return run(app, launch, argc, argv);
}

int cmd_replay(int argc, char** argv) {
    CLI::App app(
        "Runs a program after a plan made earlier: swapadvisor replay [options] PLAN -- PROGRAM [arguments]");
    Launch launch;
    add_options(app, launch);
    app.add_option("-o,--output", launch.setting("--output", "SWAPADVISOR_REPORT"),
                   "write the report here at exit");
    bool or_search = false;
    app.add_flag(
        "--or-search", or_search,
        "where the plan does not fit the program, search one as `run` does; else the run ends with 2");
    std::string& plan = launch.setting("PLAN", "SWAPADVISOR_PLAN");
    app.add_option("PLAN", plan, "made by `swapadvisor plan` from a trace of the program")->type_name("FILE");
    app.footer(
        "Without --memory the run stays within the memory that the plan was made for.\n"
        "examples:\n  swapadvisor replay run.plan -- ./train --epochs 3\n"
        "  swapadvisor replay run.plan --or-search -o report.txt -- python train.py");
    if (const int status = parse(app, launch, argc, argv, "PLAN "); status >= 0) return status;
    if (plan.empty())
        return fail(2, "no plan given: swapadvisor replay [options] PLAN -- PROGRAM [arguments]");
    if (const std::string problem = plan_problem(plan, launch); !problem.empty()) return fail(2, problem);
    if (const int status = apply_settings(launch); status >= 0) return status;
    if (or_search) setenv("SWAPADVISOR_PLAN_OR_SEARCH", "1", 1);
    return start(launch);
}

}  // namespace swapadvisor::command
