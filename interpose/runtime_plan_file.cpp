#include "interpose/runtime_plan_file.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <unordered_set>

#include "interpose/log.h"
#include "recorder/export.h"
#include "recorder/planned_part.h"

namespace swapadvisor {
namespace {

using nlohmann::json;
using planner::ActionKind;

planner::Placement placement(const json& at) {
    planner::Placement result;
    for (const json& range : at)
        result.push_back({range.at(0).get<std::int32_t>(), range.at(1).get<std::int32_t>()});
    return result;
}

}  // namespace

planner::Plan parse_runtime_plan(const std::string& text, const std::vector<std::int32_t>& ids) {
    const json j = json::parse(text);
    if (j.at("format") != "swapadvisor-plan" || j.at("version") != 1)
        throw std::runtime_error("not a plan of version 1");
    auto tensor = [&](const json& value) {
        const auto id = value.get<std::int64_t>();
        if (id < 0 || id >= static_cast<std::int64_t>(ids.size()))
            throw std::runtime_error("tensor " + std::to_string(id) + " is out of range");
        if (ids[static_cast<std::size_t>(id)] < 0)
            throw std::runtime_error("tensor " + std::to_string(id) + " is used by no operation");
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

namespace {

/// An op as a plan file knows it.
struct KnownOp {
    std::string key, name;
    std::vector<std::int32_t> tensors;
};

std::vector<KnownOp> read_program(const json& program) {
    std::vector<KnownOp> ops;
    for (const json& op : program)
        ops.push_back({op.at(0).get<std::string>(), op.at(1).get<std::string>(),
                       op.at(2).get<std::vector<std::int32_t>>()});
    return ops;
}

std::vector<KnownOp> ops_of(const Iteration& iteration,
                            const std::function<std::string(std::uint64_t)>& function_name) {
    GraphNames names;
    names.function_name = function_name;
    std::vector<KnownOp> ops;
    for (const OpRecord& op : iteration.ops) {
        KnownOp known;
        known.name = op_display_name(op, names);
        known.key = stable_key(iteration, op, known.name);
        for (const OpRecord::Use& use : op.uses)
            if (!iteration.tensors[static_cast<std::size_t>(use.tensor)].small)
                known.tensors.push_back(use.tensor);
        ops.push_back(std::move(known));
    }
    return ops;
}

/// Tensor of the plan -> tensor of the iteration, where its op `i` is the plan's op `i + shift`; empty if the
/// two do not agree on who is who.
std::vector<std::int32_t> same_tensors(const std::vector<KnownOp>& planned, const std::vector<KnownOp>& seen,
                                       std::size_t shift) {
    std::vector<std::int32_t> ids(1, -1);
    for (std::size_t i = 0; i < seen.size(); ++i) {
        const KnownOp& op = planned[(i + shift) % planned.size()];
        if (op.key != seen[i].key || op.tensors.size() != seen[i].tensors.size()) return {};
        for (std::size_t use = 0; use < op.tensors.size(); ++use) {
            const std::int32_t id = op.tensors[use];
            if (id < 0) continue;
            if (static_cast<std::size_t>(id) >= ids.size()) ids.resize(static_cast<std::size_t>(id) + 1, -1);
            std::int32_t& known = ids[static_cast<std::size_t>(id)];
            if (known >= 0 && known != seen[i].tensors[use]) return {};
            known = seen[i].tensors[use];
        }
    }
    return ids;
}

/// The same plan for an iteration that begins at its position `shift`.
planner::Plan begun_at(const planner::Plan& plan, std::int32_t shift) {
    const auto n = static_cast<std::int32_t>(plan.schedule.size());
    planner::Plan turned = plan;
    turned.initial.clear();
    turned.actions.clear();
    const auto now = [&](std::int32_t position) { return (position - shift + n) % n; };
    // What is on the device, or on its way to it, when the op before `shift` is done.
    std::vector<planner::InitialTensor> resident = plan.initial;
    for (const planner::Action& action : plan.actions) {
        const bool comes = action.kind == ActionKind::alloc || action.kind == ActionKind::in;
        const std::int32_t begins = action.kind == ActionKind::alloc ? action.before : action.after;
        if (action.kind == ActionKind::save || begins >= shift) continue;
        std::erase_if(resident, [&](const planner::InitialTensor& r) { return r.tensor == action.tensor; });
        if (comes) resident.push_back({action.tensor, action.at});
    }
    turned.initial = std::move(resident);
    // In the order in which they are issued: from `shift` on, then what waits for the last op, then the rest.
    for (int round = 0; round < 3; ++round)
        for (planner::Action action : plan.actions) {
            const std::int32_t begins = action.kind == ActionKind::alloc ? action.before : action.after;
            if (round != (begins >= shift ? 0 : begins < 0 ? 1 : 2)) continue;
            if (action.kind != ActionKind::alloc) action.after = now(begins < 0 ? n - 1 : begins);
            if (action.kind == ActionKind::alloc) action.before = now(action.before);
            if (action.kind == ActionKind::in) {
                action.before = now(action.before % n);
                if (action.before <= action.after) action.before = n;
            }
            turned.actions.push_back(std::move(action));
        }
    return turned;
}

std::string difference(const std::vector<KnownOp>& planned, const std::vector<KnownOp>& seen) {
    if (planned.size() != seen.size())
        return "it is for iterations of " + std::to_string(planned.size()) +
               " operations, the program's have " + std::to_string(seen.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
        if (planned[i].name != seen[i].name)
            return "operation " + std::to_string(i) + " is " + seen[i].name + ", not " + planned[i].name;
        if (planned[i].key != seen[i].key)
            return "operation " + std::to_string(i) + " (" + seen[i].name +
                   ") has another grid or buffers of other sizes";
    }
    return "the same operations use other buffers";
}

/// A loop that is much shorter than the planned one and made of the same operations: an evaluation.
bool is_lesser_loop(const std::vector<KnownOp>& planned, const std::vector<KnownOp>& seen) {
    if (seen.size() * 5 >= planned.size() * 3) return false;
    std::unordered_set<std::string> keys;
    for (const KnownOp& op : planned) keys.insert(op.key);
    const auto common =
        std::count_if(seen.begin(), seen.end(), [&](const KnownOp& op) { return keys.count(op.key) != 0; });
    return static_cast<std::size_t>(common) * 2 >= seen.size();
}

std::string read_text(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("it cannot be read");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// Of a plan that does not say of which program it is: by its numbers alone.
planner::Plan by_numbers(const std::string& text, const Iteration& iteration) {
    std::vector<std::int32_t> ids(iteration.tensors.size());
    for (std::size_t t = 0; t < ids.size(); ++t) ids[t] = static_cast<std::int32_t>(t);
    planner::Plan plan = parse_runtime_plan(text, ids);
    if (plan.schedule.size() != iteration.ops.size())
        throw std::runtime_error("it is for iterations of " + std::to_string(plan.schedule.size()) +
                                 " operations, the program's have " + std::to_string(iteration.ops.size()));
    return plan;
}

void check_sizes(const planner::Plan& plan, const Iteration& iteration) {
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
        if (action.kind == ActionKind::alloc || action.kind == ActionKind::in)
            check(action.tensor, action.at);
}

}  // namespace

FilePlan load_plan(const std::string& path, const Iteration& iteration,
                   const std::function<std::string(std::uint64_t)>& function_name) {
    const std::string text = read_text(path);
    const json document = json::parse(text);
    if (document.contains("ideal"))
        throw std::runtime_error("it was made with --ideal, which no run can follow: plan again without");
    if (!document.contains("program")) {
        FilePlan result{by_numbers(text, iteration)};
        check_sizes(result.plan, iteration);
        return result;
    }
    const std::vector<KnownOp> planned = read_program(document.at("program")),
                               seen = ops_of(iteration, function_name);
    if (planned.size() != seen.size()) {
        if (is_lesser_loop(planned, seen)) return {{}, true};
        throw std::runtime_error(difference(planned, seen));
    }
    for (std::size_t shift = 0; shift < planned.size(); ++shift) {
        if (planned[shift].key != seen[0].key) continue;
        const std::vector<std::int32_t> ids = same_tensors(planned, seen, shift);
        if (ids.empty()) continue;
        FilePlan result{parse_runtime_plan(text, ids)};
        if (result.plan.schedule.size() != seen.size())
            throw std::runtime_error("its schedule and its program differ in length");
        if (shift > 0) result.plan = begun_at(result.plan, static_cast<std::int32_t>(shift));
        // What was found out since not to move stays on the device.
        const auto stays = [&](planner::TensorId tensor) {
            const TensorRecord& t = iteration.tensors[static_cast<std::size_t>(tensor)];
            return t.escaped || t.small;
        };
        std::erase_if(result.plan.initial, [&](const auto& initial) { return stays(initial.tensor); });
        std::erase_if(result.plan.actions, [&](const auto& action) { return stays(action.tensor); });
        check_sizes(result.plan, iteration);
        return result;
    }
    throw std::runtime_error(difference(planned, seen));
}

std::uint64_t plan_file_memory(const std::string& path, std::uint64_t page_bytes) try {
    const json j = json::parse(read_text(path));
    // The limit that it was made for, everything included.
    if (j.contains("program")) return j.at("limit_bytes").get<std::uint64_t>();
    const auto pool =
        j.at("pool").at("chunk_bytes").get<std::uint64_t>() * j.at("pool").at("chunks").get<std::uint64_t>();
    const auto arena = j.at("arena_bytes").get<std::uint64_t>();
    // Small memory comes in pages here, and not all of it is in the plan.
    return (pool + page_bytes - 1) / page_bytes * page_bytes + (arena / page_bytes + 2) * page_bytes;
} catch (const std::exception& e) {
    say("plan %s cannot be used: %s", path.c_str(), e.what());
    return 0;
}

}  // namespace swapadvisor
