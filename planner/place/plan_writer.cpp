// Writes stays, queue orders and places down as a plan.
#include <algorithm>
#include <numeric>

#include "planner/place/placement.h"

namespace swapadvisor::planner {

namespace {

/// Actions with what must be listed before them; taken out smallest key first.
class ActionOrder {
  public:
    std::int32_t add(Action action, std::int32_t key) {
        nodes_.push_back({std::move(action), key, 0, {}});
        return static_cast<std::int32_t>(nodes_.size()) - 1;
    }
    void precede(std::int32_t first, std::int32_t second) {
        if (first < 0 || second < 0 || first == second) return;
        nodes_[static_cast<std::size_t>(first)].next.push_back(second);
        ++nodes_[static_cast<std::size_t>(second)].waits;
    }
    std::vector<Action> sorted() {
        auto later = [&](std::int32_t a, std::int32_t b) {
            const Node &x = nodes_[static_cast<std::size_t>(a)], &y = nodes_[static_cast<std::size_t>(b)];
            return x.key != y.key ? x.key > y.key : a > b;
        };
        std::vector<std::int32_t> ready;
        for (std::size_t i = 0; i < nodes_.size(); ++i)
            if (nodes_[i].waits == 0) ready.push_back(static_cast<std::int32_t>(i));
        std::make_heap(ready.begin(), ready.end(), later);
        std::vector<Action> actions;
        actions.reserve(nodes_.size());
        while (!ready.empty()) {
            std::pop_heap(ready.begin(), ready.end(), later);
            const auto at = static_cast<std::size_t>(ready.back());
            ready.pop_back();
            actions.push_back(std::move(nodes_[at].action));
            for (const std::int32_t next : nodes_[at].next)
                if (--nodes_[static_cast<std::size_t>(next)].waits == 0) {
                    ready.push_back(next);
                    std::push_heap(ready.begin(), ready.end(), later);
                }
        }
        return actions;
    }

  private:
    struct Node {
        Action action;
        std::int32_t key = 0, waits = 0;
        std::vector<std::int32_t> next;
    };
    std::vector<Node> nodes_;
};

/// What each `in` waits for: the last release of its chunks in this iteration, and its own tensor's.
std::vector<std::int32_t> earliest_starts(const Setting& setting, std::span<const Stay> stays,
                                          const Places& places) {
    std::vector<std::size_t> by_begin(stays.size());
    std::iota(by_begin.begin(), by_begin.end(), std::size_t{0});
    std::stable_sort(by_begin.begin(), by_begin.end(), [&](std::size_t a, std::size_t b) {
        if (stays[a].initial != stays[b].initial) return stays[a].initial;
        return stays[a].begin < stays[b].begin;
    });
    std::vector<std::int32_t> released(static_cast<std::size_t>(setting.problem.chunks), -1);
    std::vector<std::int32_t> after(stays.size(), -1);
    for (const std::size_t i : by_begin) {
        const Stay& s = stays[i];
        for (const ChunkRange& r : places.at[i])
            for (std::int32_t c = r.first; c < r.first + r.count; ++c) {
                after[i] = std::max(after[i], released[static_cast<std::size_t>(c)]);
                released[static_cast<std::size_t>(c)] = s.release;
            }
        if (s.by_in && i > 0 && stays[i - 1].tensor == s.tensor)
            after[i] = std::max(after[i], stays[i - 1].release);
    }
    return after;
}

Action action(ActionKind kind, TensorId tensor, std::int32_t after, std::int32_t before, Placement at = {}) {
    Action a;
    a.kind = kind;
    a.tensor = tensor;
    a.after = after;
    a.before = before;
    a.at = std::move(at);
    return a;
}

}  // namespace

Plan write_plan(const Setting& setting, std::span<const Stay> stays, const Dispatch& dispatch,
                const Places& places) {
    const Problem& problem = setting.problem;
    const std::int32_t n = setting.ops;
    Plan plan;
    plan.graph = problem.graph.name;
    plan.limit_bytes = problem.limit_bytes;
    plan.schedule = setting.sequence.order;
    plan.chunk_bytes = problem.chunk_bytes;
    plan.chunks = problem.chunks;
    plan.arena_bytes = problem.arena_bytes;
    plan.arena = problem.arena;
    for (std::size_t i = 0; i < stays.size(); ++i)
        if (stays[i].initial) plan.initial.push_back({stays[i].tensor, places.at[i]});

    // Both queues keep the dispatcher's order and each tensor its own; otherwise actions are listed by
    // position.
    const auto after = earliest_starts(setting, stays, places);
    std::vector<std::int32_t> take(stays.size(), -1), save(stays.size(), -1), release(stays.size(), -1);
    ActionOrder order;
    std::int32_t floor = -1, previous = -1;
    for (const std::int32_t k : dispatch.in_order) {
        const auto i = static_cast<std::size_t>(k);
        floor = std::max(floor, after[i]);
        take[i] = order.add(action(ActionKind::in, stays[i].tensor, after[i], stays[i].begin, places.at[i]),
                            2 * floor + 1);
        order.precede(previous, take[i]);
        previous = take[i];
    }
    floor = previous = -1;
    for (const std::int32_t k : dispatch.out_order) {
        const auto i = static_cast<std::size_t>(k);
        const Stay& s = stays[i];
        const bool leaves = s.release < n && s.save_after >= s.release;
        const std::int32_t when = leaves ? s.release : s.save_after;
        floor = std::max(floor, when);
        save[i] =
            order.add(action(leaves ? ActionKind::out : ActionKind::save, s.tensor, when, 0), 2 * floor);
        if (leaves) release[i] = save[i];
        order.precede(previous, save[i]);
        previous = save[i];
    }
    for (std::size_t i = 0; i < stays.size(); ++i) {
        const Stay& s = stays[i];
        if (s.birth)
            take[i] =
                order.add(action(ActionKind::alloc, s.tensor, -1, s.begin, places.at[i]), 2 * s.begin - 1);
        if (s.release < n && release[i] < 0)
            release[i] = order.add(
                action(s.dead ? ActionKind::free : ActionKind::drop, s.tensor, s.release, 0), 2 * s.release);
        order.precede(take[i], save[i]);
        order.precede(take[i], release[i]);
        order.precede(save[i], release[i]);
        if (i > 0 && stays[i - 1].tensor == s.tensor) order.precede(release[i - 1], take[i]);
    }
    plan.actions = order.sorted();
    return plan;
}

}  // namespace swapadvisor::planner
