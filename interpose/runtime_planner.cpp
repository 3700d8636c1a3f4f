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
#include "recorder/export.h"
#include "recorder/late_frees.h"
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
    PlannerLibrary functions{reinterpret_cast<PlanFunction>(dlsym(library, "swapadvisor_plan")),
                             reinterpret_cast<BoundFunction>(dlsym(library, "swapadvisor_bound"))};
    if (functions.plan == nullptr) error = path + " has no swapadvisor_plan";
    return functions;
}

planner::Placement placement(const json& at) {
    planner::Placement result;
    for (const json& range : at)
        result.push_back({range.at(0).get<std::int32_t>(), range.at(1).get<std::int32_t>()});
    return result;
}

/// Throws json exceptions or std::runtime_error on anything malformed.
planner::Plan parse(const std::string& text, const std::vector<std::int32_t>& ids) {
    const json j = json::parse(text);
    if (j.at("format") != "swapadvisor-plan" || j.at("version") != 1)
        throw std::runtime_error("not a plan of version 1");
    auto tensor = [&](const json& value) {
        const auto id = value.get<std::int64_t>();
        if (id < 0 || id >= static_cast<std::int64_t>(ids.size()))
            throw std::runtime_error("tensor " + std::to_string(id) + " is out of range");
        return ids[static_cast<std::size_t>(id)];
    };
    planner::Plan plan;
    plan.graph = j.at("graph").get<std::string>();
    plan.limit_bytes = j.at("limit_bytes").get<std::int64_t>();
    plan.schedule = j.at("schedule").get<std::vector<planner::OpId>>();
    plan.chunk_bytes = j.at("pool").at("chunk_bytes").get<std::int64_t>();
    plan.chunks = j.at("pool").at("chunks").get<std::int32_t>();
    plan.arena_bytes = j.at("arena_bytes").get<std::int64_t>();
    for (const json& value : j.at("arena")) plan.arena.push_back(tensor(value));
    for (const json& value : j.at("initial"))
        plan.initial.push_back({tensor(value.at("tensor")), placement(value.at("at"))});
    static const std::pair<const char*, planner::ActionKind> kinds[] = {
        {"alloc", planner::ActionKind::alloc}, {"free", planner::ActionKind::free},
        {"save", planner::ActionKind::save},   {"out", planner::ActionKind::out},
        {"drop", planner::ActionKind::drop},   {"in", planner::ActionKind::in}};
    for (const json& value : j.at("actions")) {
        planner::Action action;
        const auto name = value.at("action").get<std::string>();
        const auto* kind =
            std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& k) { return name == k.first; });
        if (kind == std::end(kinds)) throw std::runtime_error("unknown action " + name);
        action.kind = kind->second;
        action.tensor = tensor(value.at("tensor"));
        if (action.kind == planner::ActionKind::alloc || action.kind == planner::ActionKind::in) {
            action.at = placement(value.at("at"));
            action.before = value.at("before").get<std::int32_t>();
        }
        if (action.kind != planner::ActionKind::alloc) action.after = value.at("after").get<std::int32_t>();
        plan.actions.push_back(std::move(action));
    }
    plan.predicted_ns = j.at("predicted_ns").get<std::int64_t>();
    return plan;
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
        const planner::Plan plan = parse(text, *o.ids);
        if (o.request->on_better) o.request->on_better(plan.predicted_ns);
        (*o.offer)(plan, o.gain_percent);
    } catch (const std::exception& e) {
        if (first_time(0x91a7)) say("a plan cannot be used: %s", e.what());
    }
}

/// A plan file made from a trace of this program (by `swapadvisor plan`): its tensors are those of the whole
/// iteration. Throws if it cannot be read or was made for another iteration.
planner::Plan load_plan(const std::string& path, const Iteration& iteration) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("it cannot be read");
    std::stringstream text;
    text << file.rdbuf();
    std::vector<std::int32_t> ids(iteration.tensors.size());
    for (std::size_t t = 0; t < ids.size(); ++t) ids[t] = static_cast<std::int32_t>(t);
    planner::Plan plan = parse(text.str(), ids);
    if (plan.schedule.size() != iteration.ops.size())
        throw std::runtime_error("it has " + std::to_string(plan.schedule.size()) +
                                 " ops, the program's iteration has " + std::to_string(iteration.ops.size()));
    auto check = [&](planner::TensorId tensor, const planner::Placement& at) {
        std::int64_t chunks = 0;
        for (const planner::ChunkRange& range : at) chunks += range.count;
        const std::int64_t bytes = iteration.tensors[static_cast<std::size_t>(tensor)].bytes;
        if (plan.chunk_bytes <= 0 || chunks != (bytes + plan.chunk_bytes - 1) / plan.chunk_bytes)
            throw std::runtime_error("its tensor " + std::to_string(tensor) +
                                     " is not of the size of the program's");
    };
    for (const planner::InitialTensor& initial : plan.initial) check(initial.tensor, initial.at);
    for (const planner::Action& action : plan.actions)
        if (action.kind == planner::ActionKind::alloc || action.kind == planner::ActionKind::in)
            check(action.tensor, action.at);
    return plan;
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
            const planner::Plan parsed = parse(plan, one.ids);
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

Iteration planned_part(const Iteration& iteration, std::int64_t held_bytes, std::vector<std::int32_t>& ids) {
    Iteration part = iteration;
    std::vector<std::int32_t> fresh(iteration.tensors.size(), -1);
    std::vector<bool> used(iteration.tensors.size(), false);
    for (const OpRecord& op : iteration.ops)
        for (const OpRecord::Use& use : op.uses) used[static_cast<std::size_t>(use.tensor)] = true;
    ids.clear();
    part.tensors.clear();
    for (std::size_t t = 0; t < iteration.tensors.size(); ++t) {
        const TensorRecord& tensor = iteration.tensors[t];
        if (tensor.small || tensor.escaped || !used[t]) continue;
        fresh[t] = static_cast<std::int32_t>(ids.size());
        ids.push_back(static_cast<std::int32_t>(t));
        part.tensors.push_back(tensor);
    }
    for (OpRecord& op : part.ops) {
        std::erase_if(op.uses, [&](const OpRecord::Use& use) {
            return fresh[static_cast<std::size_t>(use.tensor)] < 0;
        });
        for (OpRecord::Use& use : op.uses) use.tensor = fresh[static_cast<std::size_t>(use.tensor)];
    }
    std::erase_if(part.events, [&](const IterationEvent& event) {
        return event.kind != EventKind::op && fresh[static_cast<std::size_t>(event.index)] < 0;
    });
    for (IterationEvent& event : part.events)
        if (event.kind != EventKind::op) event.index = fresh[static_cast<std::size_t>(event.index)];
    keep_until_freed(part, held_bytes);
    return part;
}

std::uint64_t plan_file_memory(const std::string& path, std::uint64_t page_bytes) try {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("it cannot be read");
    const json j = json::parse(file);
    const auto pool =
        j.at("pool").at("chunk_bytes").get<std::uint64_t>() * j.at("pool").at("chunks").get<std::uint64_t>();
    const auto arena = j.at("arena_bytes").get<std::uint64_t>();
    // Small memory comes in pages here, and not all of it is in the plan.
    return (pool + page_bytes - 1) / page_bytes * page_bytes + (arena / page_bytes + 2) * page_bytes;
} catch (const std::exception& e) {
    say("plan %s cannot be used: %s", path.c_str(), e.what());
    return 0;
}

void run_planner(PlanRequest& request, const OfferPlan& offer) try {
    if (!config().plan_path.empty() && request.use_file) try {
            if (offer(load_plan(config().plan_path, *request.iteration), kGainAtEnd)) return;
        } catch (const std::exception& e) {
            say("plan %s does not fit this program (%s): planning anew", config().plan_path.c_str(),
                e.what());
        }
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
