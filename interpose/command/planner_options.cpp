#include "interpose/command/planner_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "interpose/command/sizes.h"
#include "planner/bound/bound.h"

namespace swapadvisor::command {
namespace {

constexpr std::int64_t kRuntimeChunk = std::int64_t{2} << 20;

std::atomic<bool> interrupted{false};
void on_interrupt(int) {
    interrupted = true;
}

/// One line on a terminal, drawn again a few times a second: time, the best so far, what nothing can beat.
/// Nowhere else.
class Progress {
  public:
    Progress(const planner::Graph& graph, std::int64_t limit_bytes, bool quiet) {
        if (quiet || isatty(STDERR_FILENO) == 0) return;
        planner::BoundOptions options;
        options.limit_bytes = limit_bytes;
        options.seconds = 0;
        bound_ns_ = planner::bound(graph, options).best_ns();
        thread_ = std::thread([this] { draw(); });
    }
    ~Progress() {
        if (!thread_.joinable()) return;
        {
            const std::lock_guard lock(mutex_);
            done_ = true;
        }
        wake_.notify_one();
        thread_.join();
        fmt::print(stderr, "\r\033[K");
    }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    void better(std::int64_t ns) { best_ns_ = ns; }

  private:
    void draw() {
        const auto begin = std::chrono::steady_clock::now();
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, std::chrono::milliseconds(200), [&] { return done_; })) {
            const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
            const std::int64_t best = best_ns_;
            fmt::print(stderr, "\r\033[K{:.0f} s  best {}  bound {}  (Ctrl-C: take the best so far)", s,
                       best > 0 ? format_ns(best) : "none yet", format_ns(bound_ns_));
            std::fflush(stderr);
        }
    }

    std::int64_t bound_ns_ = 0;
    std::atomic<std::int64_t> best_ns_{0};
    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    std::thread thread_;
};

}  // namespace

void PlannerChoice::add_to(CLI::App& app, double default_seconds) {
    options.seconds = default_seconds;
    app.add_option("--planner", options.planner, "ga, fast, lru, belady or belady-prefetch")
        ->check(CLI::IsMember({"ga", "fast", "lru", "belady", "belady-prefetch"}))
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--seconds", options.seconds, "search this long")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_option("--processor-seconds", options.processor_seconds,
                   "or until all processors together have worked this long (0: no such limit)")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--generations", options.generations,
                   "stop after so many generations (0: when the time is up)")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--threads", options.threads, "0: all")->check(CLI::NonNegativeNumber);
    app.add_option("--seed", options.seed, "of the search");
    app.add_flag("--no-reorder", no_reorder, "keep the program's order");
    app.add_option("--vary", vary, "what the search may change: order, allocation, swaps (default: all)")
        ->delimiter(',')
        ->check(CLI::IsMember({"order", "allocation", "swaps"}))
        ->type_name("PARTS");
    app.add_flag("--no-genetic", no_genetic, "local search alone, for comparison");
    app.add_flag("--no-guide", no_guide, "no seeds from the lower bound's programme, for comparison");
    app.add_flag("--no-remaps", options.no_remaps, "every tensor keeps one place for good");
    app.add_option("--classes", options.classes, "ours, or paper: strict reuse within size classes")
        ->check(CLI::IsMember({"ours", "paper"}))
        ->type_name("KIND");
    add_size(app, "--chunk", options.chunk_bytes, "size of the pool's pieces (default: chosen)");
    add_size(app, "--arena-below", arena_below,
             "smaller tensors stay resident (default: 1 MiB for traces, else none)");
}

void PlannerChoice::fit(const GraphInput& input, std::int64_t limit) {
    options.limit_bytes = input.room(limit);
    const auto varies = [&](const char* part) {
        return vary.empty() || std::find(vary.begin(), vary.end(), part) != vary.end();
    };
    options.reorder = !no_reorder && varies("order");
    options.vary_allocation = varies("allocation");
    options.vary_swaps = varies("swaps");
    options.genetic = !no_genetic;
    options.guided = !no_guide;
    options.arena_below_bytes = arena_below >= 0 ? arena_below : input.is_trace ? 1 << 20 : 0;
    if (!input.runnable) return;
    // In an order that the runtime can bring about, every tensor at one place, in pieces of the driver's granularity.
    options.reorder = options.reorder && input.may_reorder;
    options.no_remaps = true;
    options.choose_arena = false;
    options.arena_below_bytes = 0;
    if (options.chunk_bytes == 0) options.chunk_bytes = kRuntimeChunk;
    if (options.chunk_bytes % kRuntimeChunk != 0)
        throw std::runtime_error(
            "--chunk: a plan that is to run has pieces of a multiple of 2MiB (--ideal: any)");
}

void PlannerChoice::finish(const GraphInput& input, std::int64_t limit, planner::Plan& plan) {
    plan.limit_bytes = limit;
    nlohmann::json extra = nlohmann::json::object();
    if (input.ideal) extra["ideal"] = true;
    if (input.runnable) {
        extra["resident_bytes"] = input.resident_bytes;
        extra["program"] = nlohmann::json::parse(input.program);
    }
    if (!extra.empty()) plan.extra = extra.dump();
}

bool is_ideal(const planner::Plan& plan) {
    const auto extra = nlohmann::json::parse(plan.extra, nullptr, false);
    return extra.is_object() && extra.contains("ideal") && extra.at("ideal") == true;
}

planner::Plan search(const planner::Graph& graph, planner::PlanOptions options, bool quiet, Effort& effort) {
    Progress progress(graph, options.limit_bytes, quiet);
    options.on_better = [&](const planner::Plan& best, planner::Spent spent) {
        progress.better(best.predicted_ns);
        effort.best_ns.emplace_back(spent, best.predicted_ns);
    };
    options.cancel = &interrupted;
    const auto previous_interrupt = std::signal(SIGINT, on_interrupt);
    const auto previous_termination = std::signal(SIGTERM, on_interrupt);
    planner::Effort whole;
    planner::Plan plan = planner::make_plan(graph, options, whole);
    effort.spent = whole.spent();
    effort.interrupted = interrupted;
    std::signal(SIGINT, previous_interrupt);
    std::signal(SIGTERM, previous_termination);
    return plan;
}

}  // namespace swapadvisor::command
