// Entry points of the planner library. Pure: no CUDA, no clock except the time budget given, no globals.
// All functions are re-entrant; results depend on the arguments alone (for search: on the seed and the number of
// generations done, never on the thread count).
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "planner/graph.h"
#include "planner/plan.h"

namespace swapadvisor::planner {

struct PlanOptions {
    std::string planner = "ga";      ///< ga, fast, lru, belady, belady-prefetch
    std::int64_t limit_bytes = 0;    ///< device memory the plan may use, arena included
    std::int64_t chunk_bytes = 0;    ///< 0: chosen by the planner (2 MiB multiples for plans that will run)
    std::int64_t arena_below_bytes = 0;  ///< tensors smaller than this always go to the arena (runtime: 1 MiB)
    double seconds = 10;             ///< search budget
    int threads = 0;                 ///< 0: all
    std::uint64_t seed = 1;
    bool reorder = true;
    bool no_remaps = false;          ///< true: every tensor keeps one place for good, or PlanError
    int generations = 0;             ///< search: stop after so many (0: when time is up); same result on any machine
    // What the search may change (for comparison; all by default). `reorder` is the order of ops.
    bool vary_allocation = true;     ///< size classes and their slots
    bool vary_swaps = true;          ///< which gaps are evicted, beyond what the simple ranks say
    bool guided = true;              ///< seeds from the lower bound's linear programme as well
    bool genetic = true;             ///< false: local search from the seeds alone, no populations, no crossover
    std::int64_t bound_ns = 0;       ///< a known lower bound: the search stops when it gets there
    std::string classes = "ours";    ///< or "paper": strict same-class reuse
    std::function<void(const Plan& best, double elapsed_s)> on_better;  ///< called from one thread at a time
    const std::atomic<bool>* cancel = nullptr;
};

/// Thrown for input that cannot be planned (limit too small, ...); what() is one line that says what to do next.
struct PlanError : std::exception {
    explicit PlanError(std::string text) : text_(std::move(text)) {}
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    std::string text_;
};

Plan make_plan(const Graph& graph, const PlanOptions& options);

/// About the smallest limit that has a plan under these options: the largest working set of an op with what chunks
/// and the arena round up. More than the device's memory where that is too little.
std::int64_t least_limit_bytes(const Graph& graph, PlanOptions options);

// Text forms (JSON). Throw PlanError with one line naming the field on anything wrong.
Graph parse_graph(const std::string& json);
Plan parse_plan(const std::string& json);
std::string to_json(const Graph& graph);
std::string to_json(const Plan& plan);

}  // namespace swapadvisor::planner

/// C entry of libswapadvisor_planner.so for the runtime, which opens the library with RTLD_LOCAL when first needed.
/// `graph_json` in; on success returns 0 and sets *plan_json to a malloc'ed text the caller frees with free();
/// on failure returns non-zero and sets *error to a malloc'ed line. `options_json`: {"planner","limit_bytes",
/// "chunk_bytes","arena_below_bytes","seconds","generations","threads","seed","reorder","no_remaps","classes"}, each
/// optional but limit_bytes.
/// `cancel`, if given, is polled; `on_better`, if given, gets each improvement.
extern "C" int swapadvisor_plan(const char* graph_json, const char* options_json, const std::atomic<bool>* cancel,
                                void (*on_better)(void* user, const char* plan_json), void* user, char** plan_json,
                                char** error);
