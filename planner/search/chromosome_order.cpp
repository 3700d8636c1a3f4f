#include <algorithm>

#include "planner/search/chromosome.h"

namespace swapadvisor::planner {

bool mutate_order(const Problem& problem, std::vector<OpId>& order, Random& random) {
    const std::size_t n = order.size();
    if (n < 2) return false;
    std::vector<std::int32_t> position(n);
    for (std::size_t p = 0; p < n; ++p)
        position[static_cast<std::size_t>(order[p])] = static_cast<std::int32_t>(p);
    for (int attempt = 0; attempt < 20; ++attempt) {
        const std::size_t p = random.below(n);
        const OpId op = order[p];
        std::int32_t lo = 0, hi = static_cast<std::int32_t>(n) - 1;
        for (const OpId b : problem.dependencies.before(op))
            lo = std::max(lo, position[static_cast<std::size_t>(b)] + 1);
        for (const OpId a : problem.dependencies.after(op))
            hi = std::min(hi, position[static_cast<std::size_t>(a)] - 1);
        if (lo == hi) continue;
        // Half of the moves are short, some go all the way.
        const auto at = static_cast<std::int32_t>(p);
        std::int32_t to = lo + static_cast<std::int32_t>(random.below(static_cast<std::size_t>(hi - lo) + 1));
        if (random.chance(0.4))
            to = std::clamp(
                at + (random.chance(0.5) ? 1 : -1) * (1 + static_cast<std::int32_t>(random.below(8))), lo,
                hi);
        if (random.chance(0.2)) to = random.chance(0.5) ? lo : hi;
        if (to == at) continue;
        const auto begin = order.begin();
        if (to > at)
            std::rotate(begin + at, begin + at + 1, begin + to + 1);
        else
            std::rotate(begin + to, begin + at, begin + at + 1);
        return true;
    }
    return false;
}

std::vector<OpId> cross_orders(const std::vector<OpId>& a, const std::vector<OpId>& b, std::size_t cut) {
    std::vector<OpId> child(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(cut));
    std::vector<char> taken(a.size(), 0);
    for (const OpId op : child) taken[static_cast<std::size_t>(op)] = 1;
    for (const OpId op : b)
        if (!taken[static_cast<std::size_t>(op)]) child.push_back(op);
    return child;
}

std::vector<OpId> frugal_order(const Problem& problem) {
    const std::size_t n = problem.graph.ops.size();
    std::vector<std::int32_t> waits(n), left(problem.size.size(), 0);
    std::vector<char> born(problem.size.size(), 0);
    std::vector<OpId> ready, order;
    for (std::size_t i = 0; i < n; ++i) {
        const auto op = static_cast<OpId>(i);
        waits[i] = static_cast<std::int32_t>(problem.dependencies.before(op).size());
        if (waits[i] == 0) ready.push_back(op);
        for (const auto& u : problem.uses(op)) ++left[static_cast<std::size_t>(u.tensor)];
    }
    while (!ready.empty()) {
        std::size_t best = 0;
        std::int64_t best_growth = INT64_MAX;
        for (std::size_t k = 0; k < ready.size(); ++k) {
            std::int64_t growth = 0;
            for (const auto& u : problem.uses(ready[k])) {
                const auto t = static_cast<std::size_t>(u.tensor);
                if (problem.graph.tensors[t].persistent) continue;
                if (!born[t]) growth += problem.size[t];
                if (left[t] == 1) growth -= problem.size[t];
            }
            if (growth < best_growth || (growth == best_growth && ready[k] < ready[best])) {
                best = k;
                best_growth = growth;
            }
        }
        const OpId op = ready[best];
        ready[best] = ready.back();
        ready.pop_back();
        order.push_back(op);
        for (const auto& u : problem.uses(op)) {
            --left[static_cast<std::size_t>(u.tensor)];
            born[static_cast<std::size_t>(u.tensor)] = 1;
        }
        for (const OpId next : problem.dependencies.after(op))
            if (--waits[static_cast<std::size_t>(next)] == 0) ready.push_back(next);
    }
    return order;
}

}  // namespace swapadvisor::planner
