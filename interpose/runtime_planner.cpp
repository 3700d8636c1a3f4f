#include "interpose/runtime_planner.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "interpose/config.h"
#include "interpose/log.h"
#include "interpose/runtime_plan_file.h"
#include "interpose/runtime_state.h"
#include "recorder/export.h"
#include "recorder/planned_part.h"
#include "replayer/copy_rates.h"

namespace swapadvisor {
namespace {

using PlanFunction = int (*)(const char*, const char*, const std::atomic<bool>*, void (*)(void*, const char*),
                             void*, char**, char**);
using nlohmann::json;

using BoundFunction = std::int64_t (*)(const char*, std::int64_t);

struct PlannerLibrary {
    PlanFunction plan = nullptr;
    BoundFunction bound = nullptr;
};

/// The planner lies beside this object; it brings libraries of its own, which the program must not see. Null
/// functions with an `error` if it cannot be had.
PlannerLibrary open_planner(std::string& error) {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&run_planner), &info) == 0 || info.dli_fname == nullptr) {
        error = "the place of this library is unknown";
        return {};
    }
    std::string path = info.dli_fname;
    const std::size_t slash = path.rfind('/');
    path = (slash == std::string::npos ? std::string(".") : path.substr(0, slash)) +
           "/libswapadvisor_planner.so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* text = dlerror();
        error = text != nullptr ? text : path;
        return {};
    }
    // Registered after what the libraries registered as they were loaded, so it runs before: a search must not
    // outlive what it works with.
    std::atexit(RuntimeState::stop_planning);
    PlannerLibrary functions{reinterpret_cast<PlanFunction>(dlsym(library, "swapadvisor_plan")),
                             reinterpret_cast<BoundFunction>(dlsym(library, "swapadvisor_bound"))};
    if (functions.plan == nullptr) error = path + " has no swapadvisor_plan";
    return functions;
}

constexpr int kGainAtEnd = 1, kGainMeanwhile = 10;  // per cent; a change of plans costs an iteration or two

struct Offer {
    const OfferPlan* offer = nullptr;
    const PlanRequest* request = nullptr;
    const std::vector<std::int32_t>* ids = nullptr;
    int gain_percent = kGainAtEnd;
};

void offer_text(void* user, const char* text) {
    const Offer& o = *static_cast<Offer*>(user);
    try {
        const planner::Plan plan = parse_runtime_plan(text, *o.ids);
        if (o.request->on_better) o.request->on_better(plan.predicted_ns);
        (*o.offer)(plan, o.gain_percent);
    } catch (const std::exception& e) {
        if (first_time(0x91a7)) say("a plan cannot be used: %s", e.what());
    }
}

/// A plan that is made at once, and the graph that it is for.
struct Quick {
    std::vector<std::int32_t> ids;
    std::string graph, plan, error = "unknown reason";
    std::int64_t cost_ns = std::numeric_limits<std::int64_t>::max();
};

std::string graph_text(PlanRequest& request, const Iteration& part) {
    GraphNames names;
    char signature[32];
    std::snprintf(signature, sizeof signature, "%016llx",
                  static_cast<unsigned long long>(request.iteration->signature));
    names.graph = signature;
    names.source = "swapadvisor runtime";
    names.function_name = request.function_name;
    std::string graph = graph_json(part, request.model, names);
    request.infinite_ns = 0;
    const json parsed = json::parse(graph);
    for (const json& op : parsed.at("ops")) request.infinite_ns += op.at("duration_ns").get<std::int64_t>();
    return graph;
}

// What is freed late is either kept until then, which takes room, or has to be copied out for whoever gets
// its place before. Kept wherever it may be, or only where there is plenty of room: what comes out better.
Quick quick_plan(PlanRequest& request, const PlannerLibrary& library, const json& options) {
    Quick best;
    for (const std::int64_t held_bytes : {request.limit_bytes, request.limit_bytes / 2}) {
        Quick one;
        one.graph = graph_text(request, planned_part(*request.iteration, held_bytes, one.ids));
        if (one.graph == best.graph || request.cancel->load()) break;
        char* plan = nullptr;
        char* text = nullptr;
        const int failed = library.plan(one.graph.c_str(), options.dump().c_str(), request.cancel, nullptr,
                                        nullptr, &plan, &text);
        if (failed == 0 && plan != nullptr) {
            const planner::Plan parsed = parse_runtime_plan(plan, one.ids);
            const std::int64_t late = request.late_bytes ? request.late_bytes(parsed) : 0;
            const double rate = std::max<double>(static_cast<double>(request.model.d2h_bytes_per_s), 1);
            if (late >= 0) {
                one.plan = plan;
                one.cost_ns =
                    parsed.predicted_ns + static_cast<std::int64_t>(static_cast<double>(late) / rate * 1e9);
            }
        } else if (text != nullptr) {
            one.error = text;
        }
        std::free(plan);
        std::free(text);
        if (best.graph.empty() || one.cost_ns < best.cost_ns || best.plan.empty()) best = std::move(one);
    }
    return best;
}

// For those who want to see what was planned for: whole or not at all, as the process may end at any moment.
void keep_graph(const std::string& graph) {
    const char* path = std::getenv("SWAPADVISOR_KEEP_GRAPH");
    if (path == nullptr || graph.empty()) return;
    const std::string unfinished = std::string(path) + ".new";
    std::ofstream file(unfinished);
    file << graph;
    file.close();
    if (file) std::rename(unfinished.c_str(), path);
}

}  // namespace

namespace {

/// False: there is to be a search all the same.
bool follow_file(PlanRequest& request, const OfferPlan& offer) {
    const char* path = config().plan_path.c_str();
    try {
        const FilePlan file = load_plan(path, *request.iteration, request.function_name);
        if (file.other_loop) {
            say("a loop of %zu operations is not that of the plan %s: it gets a plan of its own",
                request.iteration->ops.size(), path);
            return false;
        }
        request.from_file = true;
        const bool taken = offer(file.plan, kGainAtEnd);
        if (taken || request.refusal.empty()) return true;
    } catch (const std::exception& e) {
        request.refusal = e.what();
    }
    request.from_file = false;
    const std::string problem =
        std::string("plan ") + path + " does not fit this program: " + request.refusal;
    if (!config().plan_or_search && request.on_misfit) {
        request.on_misfit(problem);
        return true;
    }
    say("%s; searching another", problem.c_str());
    return false;
}

}  // namespace

void run_planner(PlanRequest& request, const OfferPlan& offer) try {
    if (!config().plan_path.empty() && request.use_file && follow_file(request, offer)) return;
    std::string error;
    static PlannerLibrary library;
    if (library.plan == nullptr) library = open_planner(error);
    if (library.plan == nullptr) {
        say("no plans, swapping stays on demand: %s", error.c_str());
        return;
    }
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    json options = {{"planner", "fast"},
                    {"limit_bytes", request.limit_bytes},
                    {"chunk_bytes", request.chunk_bytes},
                    {"arena_below_bytes", 0},
                    {"choose_arena", false},
                    {"seconds", config().plan_seconds},
                    {"threads", config().plan_threads > 0 ? config().plan_threads
                                                          : std::max(1, static_cast<int>(cores / 2))},
                    {"seed", config().plan_seed},
                    {"reorder", false},
                    {"no_remaps", true}};
    // A quick plan first, so that the program leaves on demand early; the search replaces it if it finds
    // better.
    const Quick quick = quick_plan(request, library, options);
    if (!quick.plan.empty()) {
        Offer first{&offer, &request, &quick.ids, kGainAtEnd};
        offer_text(&first, quick.plan.c_str());
    } else if (!request.cancel->load() && !request.another_try) {
        say("no plan (fast): %s", quick.error.c_str());
    }
    keep_graph(quick.graph);
    if (library.bound != nullptr && request.on_bound && !request.cancel->load())
        request.on_bound(library.bound(quick.graph.c_str(), request.limit_bytes));
    if (config().planner == "fast" || request.cancel->load()) return;

    options["planner"] = config().planner;
    Offer at_end{&offer, &request, &quick.ids, kGainAtEnd},
        meanwhile{&offer, &request, &quick.ids, kGainMeanwhile};
    char* plan = nullptr;
    char* text = nullptr;
    if (request.on_search) request.on_search();
    const int failed = library.plan(quick.graph.c_str(), options.dump().c_str(), request.cancel, offer_text,
                                    &meanwhile, &plan, &text);
    if (failed == 0 && plan != nullptr)
        offer_text(&at_end, plan);
    else if (!request.cancel->load() && !request.another_try)
        say("no plan (%s): %s", config().planner.c_str(), text != nullptr ? text : "unknown reason");
    std::free(plan);
    std::free(text);
} catch (const std::exception& e) {
    say("planning failed, swapping stays on demand: %s", e.what());
}

bool measure_device(Residency& residency, DeviceModel& model) {
    if (model.h2d_bytes_per_s > 0) return true;
    const CopyRates rates = measure_copy_rates(residency);
    model.h2d_bytes_per_s = rates.h2d_bytes_per_s;
    model.d2h_bytes_per_s = rates.d2h_bytes_per_s;
    model.duplex_bytes_per_s = rates.duplex_bytes_per_s;
    model.transfer_latency_ns = rates.latency_ns;
    return rates.measured;
}

}  // namespace swapadvisor
