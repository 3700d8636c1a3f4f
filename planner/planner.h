// Entry points of the planner library. Pure: no CUDA, no clock except the time budget given, no globals.
// All functions are re-entrant; results depend on the arguments alone (for search: on the seed and the number of
// generations done, never on the thread count).
#pragma once

#include <atomic>

#include "planner/format/format.h"
#include "planner/model/graph.h"
#include "planner/model/plan.h"
#include "planner/model/plan_error.h"
#include "planner/problem/options.h"

namespace swapadvisor::planner {

Plan make_plan(const Graph& graph, const PlanOptions& options);
/// Likewise; `effort` tells what it costs.
Plan make_plan(const Graph& graph, const PlanOptions& options, Effort& effort);

/// About the smallest limit that has a plan under these options: the largest working set of an op with what chunks
/// and the arena round up. More than the device's memory where that is too little.
std::int64_t least_limit_bytes(const Graph& graph, PlanOptions options);

}  // namespace swapadvisor::planner

/// C entry of libswapadvisor_planner.so for the runtime, which opens the library with RTLD_LOCAL when first needed.
/// `graph_json` in; on success returns 0 and sets *plan_json to a malloc'ed text the caller frees with free();
/// on failure returns non-zero and sets *error to a malloc'ed line. `options_json`: {"planner","limit_bytes",
/// "chunk_bytes","arena_below_bytes","choose_arena","seconds","processor_seconds","generations","threads","seed","reorder","no_remaps","classes"}, each
/// optional but limit_bytes.
/// `cancel`, if given, is polled; `on_better`, if given, gets each improvement.
extern "C" int swapadvisor_plan(const char* graph_json, const char* options_json,
                                const std::atomic<bool>* cancel,
                                void (*on_better)(void* user, const char* plan_json), void* user,
                                char** plan_json, char** error);
