#include "planner/machine/checker.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/machine/checker_model.h"

namespace swapadvisor::planner {
namespace checker {
namespace {

__extension__ using Wide = __int128;
using Origin = Residency::Origin;

struct TooMany {};

class Rules {
  public:
    Rules(const Graph& graph, const Plan& plan, CheckResult& result)
        : graph_(graph), plan_(plan), result_(result), model_{graph, plan, {}, {}, {}, {}, {}, {}, 0} {}

    void judge() {
        for (auto rule :
             {&Rules::memory, &Rules::schedule, &Rules::arena, &Rules::places, &Rules::residencies,
              &Rules::accesses, &Rules::clean_drops, &Rules::closing, &Rules::chunk_order}) {
            (this->*rule)();
            if (!result_.violations.empty()) return;
        }
        figures();
        if (result_.violations.empty()) run_machine(model_, result_);
    }

  private:
    void violation(std::string line) {
        result_.violations.push_back(std::move(line));
        if (result_.violations.size() >= CheckResult::most_violations) throw TooMany{};
    }
    static std::string number(std::int64_t value) { return std::to_string(value); }
    std::string tensor_name(TensorId tensor) const { return "tensor " + number(tensor); }
    int n() const { return model_.n(); }

    void memory() {
        if (plan_.graph != graph_.name) violation("graph: the plan is for another graph");
        if (plan_.limit_bytes > graph_.device.memory_bytes)
            violation("limit_bytes: " + number(plan_.limit_bytes) + " is more than the device's memory, " +
                      number(graph_.device.memory_bytes));
        if (plan_.chunks < 0 || plan_.chunk_bytes < 0 || plan_.arena_bytes < 0)
            return violation("pool: negative size");
        if (Wide(plan_.chunk_bytes) * plan_.chunks + plan_.arena_bytes > plan_.limit_bytes)
            violation("pool: its chunks and the arena together exceed limit_bytes");
    }

    void schedule() {
        const int ops = static_cast<int>(graph_.ops.size());
        if (n() != ops)
            return violation("schedule: has " + number(n()) + " ops, the graph has " + number(ops));
        model_.position.assign(ops, -1);
        for (int p = 0; p < n(); ++p) {
            const OpId id = plan_.schedule[p];
            if (id < 0 || id >= ops)
                return violation("schedule[" + number(p) + "]: op " + number(id) + " does not exist");
            if (model_.position[id] >= 0)
                return violation("schedule[" + number(p) + "]: op " + number(id) + " appears twice");
            model_.position[id] = p;
        }
        // Program order decides the direction of every data hazard.
        struct Hazard {
            OpId writer = -1;
            std::vector<OpId> readers;  // since that write
        };
        std::vector<Hazard> hazards(graph_.tensors.size());
        for (OpId id = 0; id < ops; ++id) {
            const Op& op = graph_.ops[id];
            for (OpId earlier : op.after) must_follow(id, earlier, "it is in its `after`");
            for (TensorId t : op.reads) {
                if (hazards[t].writer >= 0)
                    must_follow(id, hazards[t].writer, "it reads " + tensor_name(t) + " written there");
            }
            for (TensorId t : op.writes) {
                if (hazards[t].writer >= 0)
                    must_follow(id, hazards[t].writer, "both write " + tensor_name(t));
                for (OpId reader : hazards[t].readers)
                    must_follow(id, reader, "it overwrites " + tensor_name(t) + " read there");
            }
            for (TensorId t : op.reads) hazards[t].readers.push_back(id);
            for (TensorId t : op.writes) hazards[t] = {id, {}};
        }
        launch_window();
        model_.accesses.resize(graph_.tensors.size());
        for (int p = 0; p < n(); ++p) {
            const Op& op = graph_.ops[plan_.schedule[p]];
            for (TensorId t : op.reads) note_access(t, p, false);
            for (TensorId t : op.writes) note_access(t, p, true);
        }
    }
    // What the host may hold back of its launches.
    void launch_window() {
        std::map<std::int64_t, OpId> newest;
        for (OpId id = 0; id < n(); ++id) {
            const Op& op = graph_.ops[id];
            if (op.host_waits)
                for (int p = 0; p < id; ++p)
                    if (plan_.schedule[p] >= id)
                        violation("schedule: op " + number(plan_.schedule[p]) + " cannot come before op " +
                                  number(id) + "'s host wait, after which it is issued");
            if (op.keeps_order < 0) continue;
            if (const auto before = newest.find(op.keeps_order); before != newest.end())
                must_follow(id, before->second, "both keep the order of group " + number(op.keeps_order));
            newest[op.keeps_order] = id;
        }
    }
    void must_follow(OpId later, OpId earlier, const std::string& why) {
        if (later != earlier && model_.position[later] < model_.position[earlier])
            violation("schedule: op " + number(later) + " must come after op " + number(earlier) + ": " +
                      why);
    }
    void note_access(TensorId tensor, int position, bool write) {
        auto& list = model_.accesses[tensor];
        if (list.empty() || list.back().position != position) list.push_back({position, false});
        list.back().write |= write;
    }

    void arena() {
        model_.in_arena.assign(graph_.tensors.size(), false);
        Wide bytes = 0;
        for (std::size_t i = 0; i < plan_.arena.size(); ++i) {
            const TensorId t = plan_.arena[i];
            const std::string where = "arena[" + number(i) + "]: ";
            if (!exists(t)) return violation(where + tensor_name(t) + " does not exist");
            if (model_.in_arena[t]) return violation(where + tensor_name(t) + " appears twice");
            model_.in_arena[t] = true;
            bytes += (Wide(graph_.tensors[t].bytes) + 511) / 512 * 512;
        }
        if (bytes > plan_.arena_bytes)
            violation("arena_bytes: " + number(plan_.arena_bytes) + " is too small for the arena's tensors");
    }
    bool exists(TensorId t) const { return t >= 0 && t < static_cast<TensorId>(graph_.tensors.size()); }

    // Every single entry on its own: tensors, positions, chunks.
    void places() {
        std::vector<bool> seen(graph_.tensors.size());
        for (std::size_t i = 0; i < plan_.initial.size(); ++i) {
            const std::string where = "initial[" + number(i) + "]: ";
            const TensorId t = plan_.initial[i].tensor;
            if (!check_tensor(where, t)) continue;
            if (!graph_.tensors[t].persistent) violation(where + tensor_name(t) + " is not persistent");
            if (seen[t]) violation(where + tensor_name(t) + " appears twice");
            seen[t] = true;
            check_place(where, t, plan_.initial[i].at);
        }
        for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
            const Action& action = plan_.actions[i];
            const std::string where = action_name(model_, static_cast<int>(i)) + ": ";
            if (!check_tensor(where, action.tensor)) continue;
            const bool in = action.kind == ActionKind::in;
            if (action.kind != ActionKind::alloc && (action.after < (in ? -1 : 0) || action.after >= n()))
                violation(where + "position after = " + number(action.after) + " does not exist");
            if (in || action.kind == ActionKind::alloc) {
                if (action.before < 0 || action.before > (in ? n() : n() - 1))
                    violation(where + "position before = " + number(action.before) + " does not exist");
                check_place(where, action.tensor, action.at);
            }
            if (in && action.after >= action.before)
                violation(where + "cannot be done before the op at " + number(action.before) +
                          ", as it waits for the op at " + number(action.after));
        }
    }
    bool check_tensor(const std::string& where, TensorId t) {
        if (!exists(t)) {
            violation(where + tensor_name(t) + " does not exist");
            return false;
        }
        if (model_.in_arena[t]) {
            violation(where + tensor_name(t) + " is in the arena");
            return false;
        }
        return true;
    }
    void check_place(const std::string& where, TensorId t, Placement at) {
        Wide chunks = 0;
        std::sort(at.begin(), at.end(), [](auto a, auto b) { return a.first < b.first; });
        std::int64_t end = 0;
        for (const ChunkRange& range : at) {
            if (range.first < 0 || range.count < 0 || std::int64_t{range.first} + range.count > plan_.chunks)
                return violation(where + "chunks [" + number(range.first) + ", " + number(range.count) +
                                 "] are not in the pool");
            if (range.count == 0) continue;
            if (range.first < end)
                return violation(where + "chunk " + number(range.first) + " appears twice");
            end = std::int64_t{range.first} + range.count;
            chunks += range.count;
        }
        if (chunks * plan_.chunk_bytes < graph_.tensors[t].bytes)
            violation(where + "its " + number(static_cast<std::int64_t>(chunks)) +
                      " chunks are smaller than " + tensor_name(t) + " (" + number(graph_.tensors[t].bytes) +
                      " bytes)");
    }

    // Follows each tensor through its actions in listed order.
    void residencies() {
        model_.of_tensor.resize(graph_.tensors.size());
        model_.of_action.assign(plan_.actions.size(), -1);
        std::vector<bool> born(graph_.tensors.size());
        for (const InitialTensor& entry : plan_.initial)
            begin(entry.tensor, Origin::initial, -1, 0, entry.at);
        for (int i = 0; i < static_cast<int>(plan_.actions.size()); ++i) {
            const Action& action = plan_.actions[i];
            const TensorId t = action.tensor;
            const std::string where = action_name(model_, i) + ": ";
            Residency* now = current(t);
            if (action.kind == ActionKind::alloc) {
                if (graph_.tensors[t].persistent)
                    violation(where + tensor_name(t) + " is persistent: it is not born in an iteration");
                else if (born[t])
                    violation(where + tensor_name(t) + " was born before");
                born[t] = true;
                if (now != nullptr) continue;  // can only follow one of the violations above
                begin(t, Origin::alloc, i, action.before, action.at);
            } else if (action.kind == ActionKind::in) {
                if (now != nullptr)
                    violation(where + tensor_name(t) + " is resident already");
                else if (!graph_.tensors[t].persistent && !born[t])
                    violation(where + tensor_name(t) + " is not born yet");
                else
                    begin(t, Origin::in, i, action.before, action.at);
            } else if (now == nullptr) {
                violation(where + tensor_name(t) + " is not resident");
            } else {
                use(*now, i, where);
            }
        }
        for (std::size_t t = 0; t < model_.of_tensor.size(); ++t) {
            const auto& list = model_.of_tensor[t];
            for (std::size_t j = 0; j < list.size(); ++j) {
                Residency& r = model_.residencies[list[j]];
                if (r.released_by < 0) r.end = n() - 1;
                r.previous = j > 0 ? list[j - 1] : graph_.tensors[t].persistent ? list.back() : -1;
                r.previous_is_last_iteration = j == 0;
                if (j > 0 && r.begin <= model_.residencies[list[j - 1]].end)
                    violation(action_name(model_, r.acquired_by) + ": must be done before the op at " +
                              number(r.begin) + ", but the stay before it ends after the op at " +
                              number(model_.residencies[list[j - 1]].end));
            }
        }
    }
    Residency* current(TensorId t) {
        if (model_.of_tensor[t].empty()) return nullptr;
        Residency& last = model_.residencies[model_.of_tensor[t].back()];
        return last.released_by < 0 ? &last : nullptr;
    }
    void begin(TensorId t, Origin origin, int action, int position, const Placement& at) {
        Residency r;
        r.tensor = t;
        r.origin = origin;
        r.acquired_by = action;
        r.begin = position;
        for (const ChunkRange& range : at) {
            if (range.count == 0) continue;
            if (!r.place.empty() && r.place.back().first + r.place.back().count == range.first)
                r.place.back().count += range.count;
            else
                r.place.push_back(range);
        }
        model_.of_tensor[t].push_back(static_cast<int>(model_.residencies.size()));
        if (action >= 0) model_.of_action[action] = static_cast<int>(model_.residencies.size());
        model_.residencies.push_back(std::move(r));
    }
    void use(Residency& r, int i, const std::string& where) {
        const Action& action = plan_.actions[i];
        model_.of_action[i] = static_cast<int>(&r - model_.residencies.data());
        if (r.origin == Origin::alloc && action.after < r.begin)
            violation(where + "comes after the op at " + number(action.after) + ", but " +
                      tensor_name(r.tensor) + " is born at the op at " + number(r.begin));
        if (action.kind == ActionKind::save) {
            r.saves.push_back(i);
            return;
        }
        if (action.kind == ActionKind::free && graph_.tensors[r.tensor].persistent)
            violation(where + tensor_name(r.tensor) + " is persistent: the next iteration expects it");
        r.released_by = i;
        r.end = action.after;
    }

    void accesses() {
        for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
            if (model_.in_arena[t]) continue;
            for (const Access& access : model_.accesses[t])
                if (covering(static_cast<TensorId>(t), access.position) < 0)
                    violation("schedule[" + number(access.position) + "]: " + op_at(model_, access.position) +
                              " accesses " + tensor_name(static_cast<TensorId>(t)) +
                              ", which the plan does not keep resident there");
        }
    }
    int covering(TensorId t, int position) const {
        for (int r : model_.of_tensor[t])
            if (model_.residencies[r].begin <= position && position <= model_.residencies[r].end) return r;
        return -1;
    }

    // Positions of the previous iteration count from -n.
    void clean_drops() {
        for (const Residency& r : model_.residencies) {
            if (r.released_by < 0 || plan_.actions[r.released_by].kind != ActionKind::drop) continue;
            int last_write = -2 * n() - 2;
            int last_save = -2 * n() - 1;
            const auto look = [&](const Residency& stay, int shift) {
                for (const Access& access : model_.accesses[stay.tensor])
                    if (access.write && stay.begin <= access.position && access.position <= stay.end)
                        last_write = std::max(last_write, access.position + shift);
                for (int save : stay.saves)
                    last_save = std::max(last_save, plan_.actions[save].after + shift);
            };
            bool saved_or_copied_in = r.origin != Origin::alloc;
            if (r.origin == Origin::initial && r.previous >= 0) look(model_.residencies[r.previous], -n());
            look(r, 0);
            saved_or_copied_in |= !r.saves.empty();
            if (!saved_or_copied_in || last_write > last_save)
                violation(action_name(model_, r.released_by) + ": the host copy of " + tensor_name(r.tensor) +
                          " is not valid: no save since it was written");
        }
    }

    // The iteration ends as it began.
    void closing() {
        for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
            const auto& list = model_.of_tensor[t];
            if (list.empty()) continue;
            const Residency& first = model_.residencies[list.front()];
            const Residency& last = model_.residencies[list.back()];
            const bool starts = first.origin == Origin::initial;
            const bool stays = last.released_by < 0;
            const std::string name = tensor_name(static_cast<TensorId>(t));
            if (!graph_.tensors[t].persistent) {
                if (stays)
                    violation(action_name(model_, last.acquired_by) + ": " + name + " is never released");
            } else if (starts && !stays) {
                violation("initial: " + name +
                          " is resident at the start of the iteration but not at its end");
            } else if (stays && !starts) {
                violation("initial: " + name +
                          " is resident at the end of the iteration but not at its start");
            } else if (starts && first.place != last.place) {
                violation("initial: " + name +
                          " is at another place at the end of the iteration than at its start");
            }
        }
    }

    // Successive holders of every chunk. The pool is cut where any placement begins or ends.
    void chunk_order() {
        std::vector<std::int32_t> cuts;
        for (const Residency& r : model_.residencies)
            for (const ChunkRange& range : r.place) {
                cuts.push_back(range.first);
                cuts.push_back(range.first + range.count);
            }
        std::sort(cuts.begin(), cuts.end());
        cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
        model_.pieces = static_cast<int>(cuts.size());
        std::size_t total = 0;
        std::vector<std::vector<int>> holders(cuts.size());
        for (std::size_t i = 0; i < model_.residencies.size(); ++i) {
            Residency& r = model_.residencies[i];
            for (const ChunkRange& range : r.place) {
                const auto at = [&](std::int32_t chunk) {
                    return static_cast<int>(std::lower_bound(cuts.begin(), cuts.end(), chunk) - cuts.begin());
                };
                const int end = at(range.first + range.count);
                for (int piece = at(range.first); piece < end; ++piece) {
                    r.pieces.push_back(piece);
                    holders[piece].push_back(static_cast<int>(i));
                }
            }
            total += r.pieces.size();
            if (total > 100'000'000)
                return violation("actions: the placements are cut into too many pieces to check");
        }
        // The queue of `in`s is first in, first out: none starts before the op that an earlier one waits for.
        std::vector<int> starts_after(plan_.actions.size(), -1);
        int latest = -1;
        for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
            if (plan_.actions[i].kind != ActionKind::in) continue;
            latest = std::max(latest, plan_.actions[i].after);
            starts_after[i] = latest;
        }
        const auto key = [&](int i) {
            const Residency& r = model_.residencies[i];
            if (r.origin == Origin::initial) return std::make_tuple(-2, 0, 0);
            if (r.origin == Origin::alloc) return std::make_tuple(r.begin, 0, r.acquired_by);
            return std::make_tuple(starts_after[r.acquired_by], 1, r.acquired_by);
        };
        for (std::size_t piece = 0; piece < holders.size(); ++piece) {
            auto& list = holders[piece];
            std::sort(list.begin(), list.end(), [&](int a, int b) { return key(a) < key(b); });
            for (std::size_t j = 1; j < list.size(); ++j)
                check_successive(cuts[piece], model_.residencies[list[j - 1]], model_.residencies[list[j]]);
            // The last holder stays into the next iteration only if it is the first there.
            if (!list.empty()) {
                const Residency& first = model_.residencies[list.front()];
                const Residency& last = model_.residencies[list.back()];
                if (last.released_by < 0 && first.tensor != last.tensor)
                    violation("chunk " + number(cuts[piece]) + ": " + tensor_name(last.tensor) +
                              " still holds it when the next iteration gives it to " +
                              tensor_name(first.tensor));
            }
        }
    }
    void check_successive(std::int32_t chunk, const Residency& a, const Residency& b) {
        const std::string where = "chunk " + number(chunk) + ": ";
        if (b.origin == Origin::initial)
            return violation(where + tensor_name(a.tensor) + " and " + tensor_name(b.tensor) +
                             " both start there");
        if (a.origin == Origin::alloc && b.origin == Origin::in &&
            plan_.actions[b.acquired_by].after < a.begin)
            violation(where + "race: " + action_name(model_, b.acquired_by) + " may start before " +
                      tensor_name(a.tensor) + " is born at the op at " + number(a.begin));
        if (a.origin == Origin::in && b.origin == Origin::alloc && a.begin > b.begin)
            violation(where + "race: " + action_name(model_, a.acquired_by) +
                      " may still be under way when " + tensor_name(b.tensor) + " is born at the op at " +
                      number(b.begin));
        if (a.released_by < 0)
            return violation(where + tensor_name(a.tensor) + " still holds it when " + tensor_name(b.tensor) +
                             " takes it");
        if (b.origin == Origin::alloc && a.end >= b.begin)
            violation(where + tensor_name(a.tensor) + " holds it until after the op at " + number(a.end) +
                      ", but " + tensor_name(b.tensor) + " is born at the op at " + number(b.begin));
    }

    void figures() {
        for (const Op& op : graph_.ops) result_.compute_ns += op.duration_ns;
        std::vector<Wide> held(n() + 2), lost(n() + 2);
        Wide in_bytes = 0, out_bytes = 0;
        for (const Action& action : plan_.actions) {
            const std::int64_t bytes = graph_.tensors[action.tensor].bytes;
            if (action.kind == ActionKind::in)
                in_bytes += bytes;
            else if (action.kind == ActionKind::save || action.kind == ActionKind::out)
                out_bytes += bytes;
            else
                continue;
            ++result_.transfers;
        }
        constexpr Wide most_ns = Wide(1) << 56;  // 64 iterations then fit 64 bits with room to spare
        const Device& device = graph_.device;
        const Wide rate =
            std::max<Wide>(1, std::min<Wide>(std::min(device.h2d_bytes_per_s, device.d2h_bytes_per_s),
                                             device.duplex_bytes_per_s) /
                                  2);
        const Wide ns = Wide(device.transfer_latency_ns) * result_.transfers +
                        (in_bytes + out_bytes) * 1'000'000'000 / rate + result_.compute_ns;
        if (ns > most_ns || in_bytes + out_bytes > (Wide(1) << 62))
            return violation("actions: one iteration would take longer than 2^56 ns");
        result_.in_bytes = static_cast<std::int64_t>(in_bytes);
        result_.out_bytes = static_cast<std::int64_t>(out_bytes);
        for (const Residency& r : model_.residencies) {
            if (r.origin == Origin::in && r.previous >= 0 && model_.residencies[r.previous].place != r.place)
                ++result_.remaps;
            const int from =
                std::clamp(r.origin == Origin::in ? plan_.actions[r.acquired_by].after + 1 : r.begin, 0, n());
            std::int64_t chunks = 0;
            for (const ChunkRange& range : r.place) chunks += range.count;
            const Wide bytes = Wide(chunks) * plan_.chunk_bytes;
            const int to = std::max(from, r.end + 1);
            held[from] += bytes;
            held[to] -= bytes;
            lost[from] += bytes - graph_.tensors[r.tensor].bytes;
            lost[to] -= bytes - graph_.tensors[r.tensor].bytes;
        }
        Wide held_now = 0, lost_now = 0;
        for (int p = 0; p < n(); ++p) {
            held_now += held[p];
            lost_now += lost[p];
            if (held_now <= result_.pool_peak_bytes) continue;
            result_.pool_peak_bytes = static_cast<std::int64_t>(std::min(held_now, Wide(plan_.limit_bytes)));
            result_.rounding_peak_bytes =
                static_cast<std::int64_t>(std::min(lost_now, Wide(plan_.limit_bytes)));
        }
    }

    const Graph& graph_;
    const Plan& plan_;
    CheckResult& result_;
    Model model_;
};

}  // namespace

std::string op_at(const Model& model, int p) {
    return "op " + std::to_string(model.plan.schedule[p]) + " (position " + std::to_string(p) + ")";
}

std::string action_name(const Model& model, int action) {
    static constexpr const char* names[] = {"alloc", "free", "save", "out", "drop", "in"};
    return "actions[" + std::to_string(action) + "] (" +
           names[static_cast<int>(model.plan.actions[action].kind)] + " of tensor " +
           std::to_string(model.plan.actions[action].tensor) + ")";
}

}  // namespace checker

CheckResult check_plan(const Graph& graph, const Plan& plan) {
    CheckResult result;
    try {
        checker::Rules(graph, plan, result).judge();
    } catch (const checker::TooMany&) {
        result.violations.push_back("... and more");
    }
    return result;
}

}  // namespace swapadvisor::planner
