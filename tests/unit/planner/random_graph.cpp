#include "random_graph.h"

#include <algorithm>
#include <numeric>

namespace swapadvisor::planner::testing {

namespace {

void random_device(Rng& rng, Device& device, const GraphShape& shape) {
    device.memory_bytes = std::int64_t{1} << 40;
    const auto rate = [&] { return chance(rng, 50) ? 1'000'000'000 : pick(rng, 200'000'000, 4'000'000'000); };
    device.h2d_bytes_per_s = rate();
    device.d2h_bytes_per_s = chance(rng, 50) ? device.h2d_bytes_per_s : rate();
    const std::int64_t sum = device.h2d_bytes_per_s + device.d2h_bytes_per_s;
    device.duplex_bytes_per_s = chance(rng, 40) ? sum : pick(rng, sum / 4, sum);
    device.transfer_latency_ns = shape.zeros && chance(rng, 30) ? 0 : pick(rng, 1, shape.most_latency_ns);
}

// A topological order of the data hazards and `after`, chosen op by op.
std::vector<OpId> random_order(Rng& rng, const Graph& graph) {
    const int n = static_cast<int>(graph.ops.size());
    const auto touches = [](const std::vector<TensorId>& list, TensorId t) {
        return std::find(list.begin(), list.end(), t) != list.end();
    };
    std::vector<std::vector<bool>> needs(n, std::vector<bool>(n));
    for (int b = 0; b < n; ++b) {
        for (OpId a : graph.ops[b].after) needs[b][a] = true;
        for (int a = 0; a < b; ++a) {
            for (TensorId t : graph.ops[a].writes)
                if (touches(graph.ops[b].reads, t) || touches(graph.ops[b].writes, t)) needs[b][a] = true;
            for (TensorId t : graph.ops[a].reads)
                if (touches(graph.ops[b].writes, t)) needs[b][a] = true;
        }
    }
    std::vector<OpId> order;
    std::vector<bool> done(n);
    while (static_cast<int>(order.size()) < n) {
        std::vector<OpId> ready;
        for (int b = 0; b < n; ++b) {
            bool free = !done[b];
            for (int a = 0; a < n && free; ++a) free = !needs[b][a] || done[a];
            if (free) ready.push_back(b);
        }
        const OpId next = ready[pick(rng, 0, static_cast<int>(ready.size()) - 1)];
        done[next] = true;
        order.push_back(next);
    }
    return order;
}

// Walks the schedule as an on-demand machine with whims would, noting what keeps the result free of races.
class Walk {
  public:
    Walk(Rng& rng, Graph& graph) : rng_(rng), graph_(graph) {}

    Plan plan() {
        n_ = static_cast<int>(graph_.ops.size());
        plan_.graph = graph_.name;
        plan_.schedule = chance(rng_, 50) ? random_order(rng_, graph_) : program_order();
        const int tensors = static_cast<int>(graph_.tensors.size());
        state_.resize(tensors);
        accesses_.resize(tensors);
        for (int p = 0; p < n_; ++p) {
            for (TensorId t : graph_.ops[plan_.schedule[p]].reads) touch(t, p, false);
            for (TensorId t : graph_.ops[plan_.schedule[p]].writes) touch(t, p, true);
        }
        plan_.chunk_bytes = pick(rng_, 1, 3) * 256;
        for (int t = 0; t < tensors; ++t)
            if (chance(rng_, 8)) {
                state_[t].arena = true;
                plan_.arena.push_back(t);
                plan_.arena_bytes += (graph_.tensors[t].bytes + 511) / 512 * 512;
            }
        std::int64_t least = 0, all = 0;
        for (int p = 0; p < n_; ++p) {
            least = std::max(least, needed_at(p));
        }
        for (int t = 0; t < tensors; ++t)
            if (!state_[t].arena) {
                all += chunks_of(t);
                least = std::max(least, chunks_of(t));
            }
        plan_.chunks = static_cast<std::int32_t>(
            pick(rng_, least, std::max(least, chance(rng_, 20) ? all : least + (all - least) / 3)));
        plan_.limit_bytes = plan_.chunks * plan_.chunk_bytes + plan_.arena_bytes;
        chunk_.resize(plan_.chunks);
        choose_initial();
        for (int p = 0; p < n_; ++p) step(p);
        close();
        plan_.predicted_ns = 1;
        return plan_;
    }

  private:
    struct Access {
        int position;
        bool write;
    };
    struct State {
        bool arena = false, born = false, resident = false, dirty = false, has_host = false;
        bool came_by_in = false;
        int since = 0;         // position from which it may be used
        int last_access = -1;  // in this stay
        std::vector<std::int32_t> chunks;
    };
    struct Chunk {
        TensorId holder = -1;
        int free_after = -1;  // position after which its last holder left
        int born_at = -1;     // last holder, if born: its op
        int in_before = 0;    // last holder, if by `in`: its `before`
    };

    std::vector<OpId> program_order() const {
        std::vector<OpId> order(graph_.ops.size());
        std::iota(order.begin(), order.end(), 0);
        return order;
    }
    void touch(TensorId t, int p, bool write) {
        auto& list = accesses_[t];
        if (list.empty() || list.back().position != p) list.push_back({p, false});
        list.back().write |= write;
    }
    std::int64_t chunks_of(TensorId t) const {
        return (graph_.tensors[t].bytes + plan_.chunk_bytes - 1) / plan_.chunk_bytes;
    }
    std::vector<TensorId> touched(int p) const {
        const Op& op = graph_.ops[plan_.schedule[p]];
        std::vector<TensorId> list = op.reads;
        list.insert(list.end(), op.writes.begin(), op.writes.end());
        std::sort(list.begin(), list.end());
        list.erase(std::unique(list.begin(), list.end()), list.end());
        std::erase_if(list, [&](TensorId t) { return state_[t].arena; });
        return list;
    }
    std::int64_t needed_at(int p) const {
        std::int64_t need = 0;
        for (TensorId t : touched(p)) need += chunks_of(t);
        return need;
    }
    bool room_beside_arrivals(TensorId more, int p) const {
        std::int64_t taken = chunks_of(more), need = 0;
        for (TensorId t = 0; t < static_cast<TensorId>(state_.size()); ++t)
            if (state_[t].resident && state_[t].since > p) taken += chunks_of(t);
        for (int q = p; q < n_; ++q) need = std::max(need, needed_at(q));
        return taken + need <= plan_.chunks;
    }
    bool ever_written(TensorId t) const {
        return std::any_of(accesses_[t].begin(), accesses_[t].end(), [](Access a) { return a.write; });
    }
    bool dead_after(TensorId t, int p) const {
        return !graph_.tensors[t].persistent && (accesses_[t].empty() || accesses_[t].back().position <= p);
    }

    static Placement as_ranges(const std::vector<std::int32_t>& chunks) {
        Placement at;
        for (std::int32_t c : chunks)
            if (!at.empty() && at.back().first + at.back().count == c)
                ++at.back().count;
            else
                at.push_back({c, 1});
        return at;
    }
    std::vector<std::int32_t> free_chunks() const {
        std::vector<std::int32_t> list;
        for (std::int32_t c = 0; c < plan_.chunks; ++c)
            if (chunk_[c].holder < 0) list.push_back(c);
        return list;
    }

    void choose_initial() {
        for (TensorId t = 0; t < static_cast<TensorId>(graph_.tensors.size()); ++t) {
            State& s = state_[t];
            if (!graph_.tensors[t].persistent || s.arena) continue;
            s.born = s.has_host = true;
            auto free = free_chunks();
            // Nothing can be evicted before the first op.
            if (!chance(rng_, 50) || static_cast<std::int64_t>(free.size()) < chunks_of(t) + needed_at(0))
                continue;
            place(t, free);
            s.resident = true;
            s.dirty = ever_written(t);
            s.since = 0;
            s.last_access = -1;
            initial_.push_back({t, as_ranges(s.chunks)});
        }
        plan_.initial = initial_;
    }
    void place(TensorId t, std::vector<std::int32_t> free) {
        if (chance(rng_, 40)) std::shuffle(free.begin(), free.end(), rng_);
        free.resize(chunks_of(t));
        state_[t].chunks = free;
        for (std::int32_t c : free) chunk_[c].holder = t;
    }

    // Makes room for `need` chunks before position p, never evicting `keep`.
    void make_room(std::int64_t need, int p, const std::vector<TensorId>& keep) {
        while (static_cast<std::int64_t>(free_chunks().size()) < need) {
            std::vector<TensorId> victims;
            for (TensorId t = 0; t < static_cast<TensorId>(state_.size()); ++t)
                if (state_[t].resident && state_[t].since <= p && !state_[t].chunks.empty() &&
                    std::find(keep.begin(), keep.end(), t) == keep.end())
                    victims.push_back(t);
            evict(victims[pick(rng_, 0, static_cast<int>(victims.size()) - 1)], p);
        }
    }
    void evict(TensorId t, int p) {
        State& s = state_[t];
        // After the last access of this stay; p - 1 at most. Position 0 has nothing before it: only -1 is too
        // early.
        const int earliest = std::max(
            {s.last_access, s.since > 0 && !s.came_by_in ? s.since : 0, s.came_by_in ? s.since - 1 : 0, 0});
        const int after = static_cast<int>(pick(rng_, std::min(earliest, p - 1), p - 1));
        Action action{ActionKind::out, t, std::max(after, earliest), 0, {}};
        if (dead_after(t, p - 1) && (!graph_.tensors[t].persistent) && chance(rng_, 90)) {
            action.kind = ActionKind::free;
        } else if (!s.dirty && chance(rng_, 85)) {
            action.kind = ActionKind::drop;
        } else if (s.dirty && chance(rng_, 30)) {
            Action save = action;
            save.kind = ActionKind::save;
            save.after = static_cast<int>(pick(rng_, earliest, action.after));
            plan_.actions.push_back(save);
            action.kind = ActionKind::drop;
        }
        plan_.actions.push_back(action);
        s.resident = false;
        s.dirty = false;
        s.has_host = action.kind != ActionKind::free;
        for (std::int32_t c : s.chunks) {
            chunk_[c] = {-1, action.after, s.came_by_in ? -1 : s.since, s.came_by_in ? s.since : 0};
        }
    }
    int next_access(TensorId t, int p) const {
        for (const Access& a : accesses_[t])
            if (a.position >= p) return a.position;
        return n_;
    }
    void bring_in(TensorId t, int p, int before) {
        State& s = state_[t];
        const std::vector<std::int32_t> was = s.chunks;
        const auto free = free_chunks();
        const bool same = !was.empty() && std::all_of(was.begin(), was.end(),
                                                      [&](std::int32_t c) { return chunk_[c].holder < 0; });
        if (same && chance(rng_, 60)) {
            for (std::int32_t c : was) chunk_[c].holder = t;
        } else {
            place(t, free);
        }
        int least = -1;
        for (std::int32_t c : s.chunks) least = std::max(least, chunk_[c].born_at);
        const int after = static_cast<int>(pick(rng_, chance(rng_, 50) ? least : p - 1, p - 1));
        plan_.actions.push_back({ActionKind::in, t, after, before, as_ranges(s.chunks)});
        s.resident = true;
        s.dirty = false;
        s.came_by_in = true;
        s.since = before;
        s.last_access = -1;
    }

    void step(int p) {
        const auto need = touched(p);
        for (TensorId t : need) {
            State& s = state_[t];
            if (s.resident) continue;
            make_room(chunks_of(t), p, need);
            if (!s.born) {
                place(t, free_chunks());
                plan_.actions.push_back({ActionKind::alloc, t, -1, p, as_ranges(s.chunks)});
                s.born = s.resident = s.dirty = true;
                s.came_by_in = false;
                s.since = p;
            } else {
                bring_in(t, p, p);
            }
        }
        for (TensorId t : need) {
            state_[t].last_access = p;
            for (const Access& a : accesses_[t])
                if (a.position == p && a.write) state_[t].dirty = true;
        }
        if (p + 1 >= n_) return;
        for (TensorId t = 0; t < static_cast<TensorId>(state_.size()); ++t) {
            State& s = state_[t];
            if (!s.resident) {
                // A transfer ahead of need.
                if (s.born && s.has_host && !s.arena && chance(rng_, 5) && !dead_after(t, p) &&
                    static_cast<std::int64_t>(free_chunks().size()) >= chunks_of(t) &&
                    room_beside_arrivals(t, p)) {
                    const int next = next_access(t, p + 1);
                    if (next < n_) bring_in(t, p + 1, static_cast<int>(pick(rng_, p + 1, next)));
                }
                continue;
            }
            if (s.since > p) continue;  // still arriving: nothing to decide yet
            if (dead_after(t, p) && chance(rng_, 70)) {
                evict(t, p + 1);
            } else if (chance(rng_, 4)) {
                plan_.actions.push_back({ActionKind::save, t, p, 0, {}});
                s.dirty = false;
            } else if (chance(rng_, 3)) {
                evict(t, p + 1);
            }
        }
    }

    void close() {
        std::vector<bool> stays(state_.size());
        for (const InitialTensor& entry : initial_) {
            const State& s = state_[entry.tensor];
            stays[entry.tensor] = s.resident && as_ranges(s.chunks) == entry.at;
        }
        for (TensorId t = 0; t < static_cast<TensorId>(state_.size()); ++t)
            if (state_[t].resident && !stays[t]) evict(t, n_);
        for (const InitialTensor& entry : initial_) {
            if (stays[entry.tensor]) continue;
            int least = -1;
            for (const ChunkRange& range : entry.at)
                for (std::int32_t c = range.first; c < range.first + range.count; ++c)
                    least = std::max(least, chunk_[c].born_at);
            plan_.actions.push_back({ActionKind::in, entry.tensor,
                                     static_cast<std::int32_t>(pick(rng_, least, n_ - 1)), n_, entry.at});
        }
    }

    Rng& rng_;
    Graph& graph_;
    Plan plan_;
    int n_ = 0;
    std::vector<State> state_;
    std::vector<std::vector<Access>> accesses_;
    std::vector<Chunk> chunk_;
    std::vector<InitialTensor> initial_;
};

}  // namespace

Graph random_graph(Rng& rng, const GraphShape& shape) {
    Graph graph;
    graph.name = "random";
    graph.source = "generated";
    random_device(rng, graph.device, shape);
    const int tensors = static_cast<int>(pick(rng, shape.least_tensors, shape.most_tensors));
    const int ops = static_cast<int>(pick(rng, shape.least_ops, shape.most_ops));
    for (int t = 0; t < tensors; ++t) {
        Tensor tensor;
        tensor.bytes = shape.zeros && chance(rng, 3) ? 0 : pick(rng, 1, shape.most_bytes);
        tensor.persistent = chance(rng, 35);
        graph.tensors.push_back(tensor);
    }
    for (int i = 0; i < ops; ++i) {
        Op op;
        op.name = "op" + std::to_string(i);
        op.duration_ns = shape.zeros && chance(rng, 5) ? 0 : pick(rng, 1, shape.most_duration_ns);
        for (int k = static_cast<int>(pick(rng, 0, 2)); k > 0; --k)
            op.reads.push_back(static_cast<TensorId>(pick(rng, 0, tensors - 1)));
        for (int k = static_cast<int>(pick(rng, op.reads.empty() ? 1 : 0, 2)); k > 0; --k)
            op.writes.push_back(static_cast<TensorId>(pick(rng, 0, tensors - 1)));
        if (i > 0 && chance(rng, 8)) op.after.push_back(static_cast<OpId>(pick(rng, 0, i - 1)));
        graph.ops.push_back(op);
    }
    return graph;
}

Graph random_training_graph(Rng& rng, int layers) {
    Graph graph;
    graph.name = "layers";
    graph.source = "generated";
    random_device(rng, graph.device, {});
    const auto tensor = [&](std::int64_t bytes, bool persistent) {
        graph.tensors.push_back({bytes, persistent, "", ""});
        return static_cast<TensorId>(graph.tensors.size() - 1);
    };
    const auto op = [&](const char* name, std::vector<TensorId> reads, std::vector<TensorId> writes) {
        Op entry;
        entry.name = name;
        entry.duration_ns = pick(rng, 100, 5000);
        entry.reads = std::move(reads);
        entry.writes = std::move(writes);
        graph.ops.push_back(std::move(entry));
    };
    std::vector<TensorId> weights, states, activations = {tensor(pick(rng, 500, 3000), false)};
    op("load", {}, {activations[0]});
    for (int l = 0; l < layers; ++l) {
        weights.push_back(tensor(pick(rng, 200, 4000), true));
        states.push_back(tensor(pick(rng, 200, 4000), true));
        activations.push_back(tensor(pick(rng, 500, 5000), false));
        op("forward", {activations[l], weights[l]}, {activations[l + 1]});
    }
    TensorId gradient = tensor(pick(rng, 500, 5000), false);
    op("loss", {activations[layers]}, {gradient});
    for (int l = layers - 1; l >= 0; --l) {
        const TensorId next = tensor(pick(rng, 500, 5000), false);
        const TensorId of_weight = tensor(pick(rng, 200, 4000), false);
        op("backward", {gradient, activations[l], weights[l]}, {next, of_weight});
        op("update", {of_weight, states[l], weights[l]}, {states[l], weights[l]});
        gradient = next;
    }
    return graph;
}

Plan random_plan(Rng& rng, Graph& graph) {
    Plan plan = Walk(rng, graph).plan();
    graph.device.memory_bytes = std::max(graph.device.memory_bytes, plan.limit_bytes);
    return plan;
}

void spoil(Rng& rng, const Graph& graph, Plan& plan) {
    const auto shift = [&](std::int32_t& value) {
        value +=
            static_cast<std::int32_t>(chance(rng, 50) ? 1 : -1) * static_cast<std::int32_t>(pick(rng, 1, 3));
    };
    const auto last = static_cast<std::int64_t>(plan.actions.size()) - 1;
    if (last < 0) return shift(plan.chunks);
    Action& action = plan.actions[pick(rng, 0, last)];
    switch (pick(rng, 0, 9)) {
        case 0:
            shift(action.after);
            break;
        case 1:
            shift(action.before);
            break;
        case 2:
            std::swap(action, plan.actions[pick(rng, 0, last)]);
            break;
        case 3:
            plan.actions.erase(plan.actions.begin() + pick(rng, 0, last));
            break;
        case 4:
            action.kind = static_cast<ActionKind>(pick(rng, 0, 5));
            break;
        case 5:
            action.tensor =
                static_cast<TensorId>(pick(rng, 0, static_cast<std::int64_t>(graph.tensors.size()) - 1));
            break;
        case 6:
            if (!action.at.empty()) shift(action.at[0].first);
            break;
        case 7:
            if (!plan.initial.empty()) plan.initial.pop_back();
            break;
        case 8:
            std::swap(plan.schedule.front(),
                      plan.schedule[pick(rng, 0, static_cast<std::int64_t>(plan.schedule.size()) - 1)]);
            break;
        default:
            shift(plan.chunks);
            break;
    }
}

}  // namespace swapadvisor::planner::testing
