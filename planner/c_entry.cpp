// The C entry that the runtime finds by name.
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "planner/bound/bound.h"
#include "planner/planner.h"

namespace swapadvisor::planner {
namespace {

char* copy_text(const std::string& text) {
    char* copy = static_cast<char*>(std::malloc(text.size() + 1));
    if (copy) std::memcpy(copy, text.c_str(), text.size() + 1);
    return copy;
}

template <class T>
void read_field(const nlohmann::json& from, const char* name, T& into) {
    const auto it = from.find(name);
    if (it == from.end()) return;
    try {
        into = it->get<T>();
    } catch (const nlohmann::json::exception&) {
        throw PlanError(std::string("options: field '") + name + "' has the wrong type");
    }
}

PlanOptions parse_options(const char* text) {
    const auto json = nlohmann::json::parse(text ? text : "{}", nullptr, false);
    if (!json.is_object()) throw PlanError("options: not a JSON object");
    PlanOptions o;
    read_field(json, "planner", o.planner);
    read_field(json, "limit_bytes", o.limit_bytes);
    read_field(json, "chunk_bytes", o.chunk_bytes);
    read_field(json, "arena_below_bytes", o.arena_below_bytes);
    read_field(json, "choose_arena", o.choose_arena);
    read_field(json, "seconds", o.seconds);
    read_field(json, "processor_seconds", o.processor_seconds);
    read_field(json, "generations", o.generations);
    read_field(json, "threads", o.threads);
    read_field(json, "seed", o.seed);
    read_field(json, "reorder", o.reorder);
    read_field(json, "no_remaps", o.no_remaps);
    read_field(json, "classes", o.classes);
    return o;
}

}  // namespace
}  // namespace swapadvisor::planner

extern "C" __attribute__((visibility("default"))) int swapadvisor_plan(
    const char* graph_json, const char* options_json, const std::atomic<bool>* cancel,
    void (*on_better)(void* user, const char* plan_json), void* user, char** plan_json, char** error) {
    using namespace swapadvisor::planner;
    std::string why;
    try {
        PlanOptions options = parse_options(options_json);
        options.cancel = cancel;
        if (on_better)
            options.on_better = [&](const Plan& best, Spent) { on_better(user, to_json(best).c_str()); };
        const Graph graph = parse_graph(graph_json ? graph_json : "");
        const std::string text = to_json(make_plan(graph, options));
        if (plan_json) *plan_json = copy_text(text);
        return 0;
    } catch (const std::exception& e) {
        why = e.what();
    } catch (...) {
        why = "planning failed for an unknown reason";
    }
    if (error) *error = copy_text(why);
    return 1;
}

/// The quick lower bound on one iteration, in nanoseconds; -1 if there is none (the limit is too small, the
/// graph malformed).
extern "C" __attribute__((visibility("default"))) std::int64_t swapadvisor_bound(const char* graph_json,
                                                                                 std::int64_t limit_bytes) {
    using namespace swapadvisor::planner;
    try {
        const Graph graph = parse_graph(graph_json ? graph_json : "");
        return bound(graph, quick_bound(graph, limit_bytes)).best_ns();
    } catch (...) {
        return -1;
    }
}
