#include <algorithm>
#include <utility>

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

namespace {

/// Topological orders, op by op: among those that may come next, the one that `better` prefers.
class ListOrder {
  public:
    explicit ListOrder(const Problem& problem)
        : problem_(problem),
          waits_(problem.graph.ops.size()),
          left_(problem.size.size(), 0),
          born_(problem.size.size(), 0) {
        for (std::size_t i = 0; i < waits_.size(); ++i) {
            const auto op = static_cast<OpId>(i);
            waits_[i] = static_cast<std::int32_t>(problem.dependencies.before(op).size());
            if (waits_[i] == 0) ready_.push_back(op);
            for (const auto& u : problem.uses(op)) ++left_[static_cast<std::size_t>(u.tensor)];
        }
    }
    /// `key` of an op and the memory that it leaves taken beyond what was; the least goes first.
    template <class Key>
    std::vector<OpId> run(Key&& key) {
        std::vector<OpId> order;
        while (!ready_.empty()) {
            std::size_t best = 0;
            auto least = key(ready_[0], growth(ready_[0]));
            for (std::size_t k = 1; k < ready_.size(); ++k)
                if (auto other = key(ready_[k], growth(ready_[k])); other < least) {
                    best = k;
                    least = other;
                }
            const OpId op = ready_[best];
            ready_[best] = ready_.back();
            ready_.pop_back();
            order.push_back(op);
            for (const auto& u : problem_.uses(op)) {
                --left_[static_cast<std::size_t>(u.tensor)];
                born_[static_cast<std::size_t>(u.tensor)] = 1;
            }
            for (const OpId next : problem_.dependencies.after(op))
                if (--waits_[static_cast<std::size_t>(next)] == 0) ready_.push_back(next);
        }
        return order;
    }

  private:
    std::int64_t growth(OpId op) const {
        std::int64_t sum = 0;
        for (const auto& u : problem_.uses(op)) {
            const auto t = static_cast<std::size_t>(u.tensor);
            if (problem_.graph.tensors[t].persistent) continue;
            if (!born_[t]) sum += problem_.size[t];
            if (left_[t] == 1) sum -= problem_.size[t];
        }
        return sum;
    }

    const Problem& problem_;
    std::vector<std::int32_t> waits_, left_;
    std::vector<char> born_;
    std::vector<OpId> ready_;
};

}  // namespace

std::vector<OpId> frugal_order(const Problem& problem) {
    return ListOrder(problem).run([](OpId op, std::int64_t growth) { return std::pair(growth, op); });
}

std::vector<OpId> early_release_order(const Problem& problem) {
    return ListOrder(problem).run([](OpId op, std::int64_t growth) { return std::pair(growth >= 0, op); });
}

}  // namespace swapadvisor::planner
