// "swapadvisor-plan" version 1 as JSON text. What can be judged without the graph is refused here; the rest
// is the checker's.
#include <algorithm>
#include <limits>

#include "planner/format/format.h"
#include "planner/format/json_fields.h"

namespace swapadvisor::planner {
namespace {

constexpr std::int64_t any_size = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t any_id = std::numeric_limits<std::int32_t>::max();

constexpr std::initializer_list<const char*> plan_fields = {
    "format", "version", "graph",   "limit_bytes", "schedule",    "pool",
    "arena",  "initial", "actions", "arena_bytes", "predicted_ns"};
constexpr std::initializer_list<const char*> pool_fields = {"chunk_bytes", "chunks"};
constexpr std::initializer_list<const char*> initial_fields = {"tensor", "at"};
constexpr const char* action_names[] = {"alloc", "free", "save", "out", "drop", "in"};

bool has_place(ActionKind kind) {
    return kind == ActionKind::alloc || kind == ActionKind::in;
}
bool has_after(ActionKind kind) {
    return kind != ActionKind::alloc;
}

// A field that an action of this kind does not have is an unknown field like any other.
std::initializer_list<const char*> action_fields(ActionKind kind) {
    static constexpr std::initializer_list<const char*> alloc = {"action", "tensor", "at", "before"};
    static constexpr std::initializer_list<const char*> in = {"action", "tensor", "at", "after", "before"};
    static constexpr std::initializer_list<const char*> rest = {"action", "tensor", "after"};
    return kind == ActionKind::alloc ? alloc : kind == ActionKind::in ? in : rest;
}

Placement read_placement(const Field& list, std::int32_t chunks) {
    Placement at;
    for (std::size_t i = 0, count = list.size(); i < count; ++i) {
        const Field range = list[i];
        if (range.size() != 2) range.fail("expected [first_chunk, count]");
        const std::int64_t first = range[0].integer(0, any_id);
        const std::int64_t length = range[1].integer(0, any_id);
        if (first + length > chunks)
            range.fail("chunks " + std::to_string(first) + " to " + std::to_string(first + length - 1) +
                       " do not exist (the pool has " + std::to_string(chunks) + ")");
        at.push_back({static_cast<std::int32_t>(first), static_cast<std::int32_t>(length)});
    }
    Placement sorted = at;
    std::sort(sorted.begin(), sorted.end(), [](auto a, auto b) { return a.first < b.first; });
    std::int32_t end = 0;
    for (const ChunkRange& range : sorted) {
        if (range.count == 0) continue;
        if (range.first < end) list.fail("chunk " + std::to_string(range.first) + " appears twice");
        end = range.first + range.count;
    }
    return at;
}

ActionKind read_kind(const Field& field) {
    const std::string name = field.text();
    for (std::size_t i = 0; i < std::size(action_names); ++i)
        if (name == action_names[i]) return static_cast<ActionKind>(i);
    field.fail("expected alloc, free, save, out, drop or in, found " + short_text(name));
}

Action read_action(const Field& field, const Plan& plan) {
    const auto n = static_cast<std::int64_t>(plan.schedule.size());
    const auto position = [&](const char* key, std::int64_t least, std::int64_t most) {
        const Field value = field.at(key);
        const std::int64_t found = value.integer(std::numeric_limits<std::int64_t>::min(), any_size);
        if (found < least || found > most)
            value.fail("position " + std::to_string(found) + " is not in " + std::to_string(least) + " to " +
                       std::to_string(most));
        return static_cast<std::int32_t>(found);
    };
    Action action;
    action.kind = read_kind(field.at("action"));
    action.tensor = static_cast<TensorId>(field.at("tensor").integer(0, any_id));
    if (has_after(action.kind))
        action.after = position("after", action.kind == ActionKind::in ? -1 : 0, n - 1);
    if (has_place(action.kind)) {
        action.before = position("before", 0, action.kind == ActionKind::in ? n : n - 1);
        action.at = read_placement(field.at("at"), plan.chunks);
    }
    return action;
}

void read_schedule(const Field& list, Plan& plan) {
    const std::size_t count = list.size();
    if (count > static_cast<std::size_t>(any_id)) list.fail("too many ops");
    std::vector<bool> seen(count);
    plan.schedule.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const Field field = list[i];
        const std::int64_t id = field.integer(0, any_size);
        if (id >= static_cast<std::int64_t>(count))
            field.fail("op " + std::to_string(id) + " does not exist (the schedule has " +
                       std::to_string(count) + ")");
        if (seen[id]) field.fail("op " + std::to_string(id) + " appears twice");
        seen[id] = true;
        plan.schedule.push_back(static_cast<OpId>(id));
    }
}

template <class List, class Id>
void refuse_twice(const Field& field, const List& list, Id id_of) {
    std::vector<TensorId> ids;
    ids.reserve(list.size());
    for (const auto& element : list) ids.push_back(id_of(element));
    std::sort(ids.begin(), ids.end());
    if (auto it = std::adjacent_find(ids.begin(), ids.end()); it != ids.end())
        field.fail("tensor " + std::to_string(*it) + " appears twice");
}

void append_placement(std::string& out, const Placement& at) {
    out += ",\"at\":[";
    const char* separator = "";
    for (const ChunkRange& range : at) {
        out += separator;
        out += "[" + std::to_string(range.first) + "," + std::to_string(range.count) + "]";
        separator = ",";
    }
    out += "]";
}

template <class Ids>
std::string id_list(const Ids& ids) {
    std::string out = "[";
    const char* separator = "";
    for (auto id : ids) {
        out += separator;
        out += std::to_string(id);
        separator = ",";
    }
    return out + "]";
}

}  // namespace

Plan parse_plan(const std::string& json) {
    const Json document = parse_document(json, "plan");
    const Field root(document, "plan");
    check_header(root, "swapadvisor-plan", 1);

    Plan plan;
    plan.graph = root.at("graph").text();
    plan.limit_bytes = root.at("limit_bytes").integer(0, any_size);
    read_schedule(root.at("schedule"), plan);

    const Field pool = root.at("pool");
    plan.chunks = static_cast<std::int32_t>(pool.at("chunks").integer(0, any_id));
    plan.chunk_bytes = pool.at("chunk_bytes").integer(plan.chunks > 0 ? 1 : 0, any_size);
    if (plan.chunks > 0 && plan.chunk_bytes > any_size / plan.chunks)
        pool.at("chunk_bytes").fail("the pool is larger than 2^63 bytes");
    keep_unknown(pool, pool_fields, plan.element_extra);

    plan.arena_bytes = root.at("arena_bytes").integer(0, any_size);
    const Field arena = root.at("arena");
    for (std::size_t i = 0, count = arena.size(); i < count; ++i)
        plan.arena.push_back(static_cast<TensorId>(arena[i].integer(0, any_id)));
    refuse_twice(arena, plan.arena, [](TensorId id) { return id; });

    const Field initial = root.at("initial");
    for (std::size_t i = 0, count = initial.size(); i < count; ++i) {
        const Field field = initial[i];
        plan.initial.push_back({static_cast<TensorId>(field.at("tensor").integer(0, any_id)),
                                read_placement(field.at("at"), plan.chunks)});
        keep_unknown(field, initial_fields, plan.element_extra);
    }
    refuse_twice(initial, plan.initial, [](const InitialTensor& entry) { return entry.tensor; });

    const Field actions = root.at("actions");
    const std::size_t count = actions.size();
    plan.actions.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const Field field = actions[i];
        plan.actions.push_back(read_action(field, plan));
        keep_unknown(field, action_fields(plan.actions.back().kind), plan.element_extra);
    }
    plan.predicted_ns = root.at("predicted_ns").integer(0, any_size);
    plan.extra = root.unknown(plan_fields);
    return plan;
}

std::string to_json(const Plan& plan) {
    const ExtraLookup extras(plan.element_extra);
    std::string out;
    out.reserve(1024 + 8 * plan.schedule.size() + 80 * plan.actions.size());
    out += "{\"format\":\"swapadvisor-plan\",\"version\":1,\"graph\":" + json_text(plan.graph) +
           ",\"limit_bytes\":" + std::to_string(plan.limit_bytes);
    out += ",\n\"schedule\":" + id_list(plan.schedule);
    out += ",\n\"pool\":{\"chunk_bytes\":" + std::to_string(plan.chunk_bytes) +
           ",\"chunks\":" + std::to_string(plan.chunks) + extras("pool", pool_fields) + "}";
    out += ",\n\"arena_bytes\":" + std::to_string(plan.arena_bytes) + ",\"arena\":" + id_list(plan.arena);
    out += ",\n\"initial\":[";
    for (std::size_t i = 0; i < plan.initial.size(); ++i) {
        out += i == 0 ? "\n{" : ",\n{";
        out += "\"tensor\":" + std::to_string(plan.initial[i].tensor);
        append_placement(out, plan.initial[i].at);
        out += extras("initial", i, initial_fields) + "}";
    }
    out += "],\n\"actions\":[";
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
        const Action& action = plan.actions[i];
        out += i == 0 ? "\n{" : ",\n{";
        out += "\"action\":\"" + std::string(action_names[static_cast<int>(action.kind)]) +
               "\",\"tensor\":" + std::to_string(action.tensor);
        if (has_place(action.kind)) append_placement(out, action.at);
        if (has_after(action.kind)) out += ",\"after\":" + std::to_string(action.after);
        if (has_place(action.kind)) out += ",\"before\":" + std::to_string(action.before);
        out += extras("actions", i, action_fields(action.kind)) + "}";
    }
    out +=
        "],\n\"predicted_ns\":" + std::to_string(plan.predicted_ns) + splice(plan.extra, plan_fields) + "}\n";
    return out;
}

}  // namespace swapadvisor::planner
