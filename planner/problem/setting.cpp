#include "planner/problem/setting.h"

#include <algorithm>
#include <numeric>

namespace swapadvisor::planner {

Sequence::Sequence(const Problem& problem, std::vector<OpId> schedule) : order(std::move(schedule)) {
    position.resize(problem.use_count());
    writes.resize(problem.use_count());
    std::vector<std::uint32_t> next(problem.size.size());
    for (std::size_t t = 0; t < next.size(); ++t) next[t] = problem.first_use(static_cast<TensorId>(t));
    for (std::size_t p = 0; p < order.size(); ++p)
        for (const Problem::Use& u : problem.uses(order[p])) {
            const std::uint32_t at = next[u.tensor]++;
            position[at] = static_cast<std::int32_t>(p);
            writes[at] = u.write;
        }
}

Allocation::Allocation(const Problem& problem)
    : regions{{1, problem.chunks, 0}}, region(problem.size.size(), 0), units(problem.size) {}

Allocation::Allocation(const Problem& problem, std::span<const std::int32_t> distinct,
                       std::span<const std::uint8_t> top, std::span<const std::int32_t> slots)
    : Allocation(problem) {
    std::vector<std::uint16_t> region_of(distinct.size(), 0);
    std::int64_t first = 0;
    for (std::size_t i = distinct.size(); i-- > 0;) {
        if (top[i]) {
            if (slots[i] > 0) {
                region_of[i] = static_cast<std::uint16_t>(regions.size());
                regions.push_back({distinct[i], slots[i],
                                   static_cast<std::int32_t>(std::min<std::int64_t>(first, problem.chunks))});
                first += std::int64_t{distinct[i]} * slots[i];
            }
        } else if (i + 1 < distinct.size()) {
            region_of[i] = region_of[i + 1];
        }
    }
    fits = first <= problem.chunks;
    regions[0].first = static_cast<std::int32_t>(std::min<std::int64_t>(first, problem.chunks));
    regions[0].slots = problem.chunks - regions[0].first;
    for (std::size_t t = 0; t < units.size(); ++t) {
        if (units[t] == 0) continue;
        const auto at = std::lower_bound(distinct.begin(), distinct.end(), units[t]) - distinct.begin();
        region[t] = region_of[static_cast<std::size_t>(at)];
        if (region[t] != 0) units[t] = 1;
    }
}

std::vector<std::int32_t> distinct_sizes(const Problem& problem) {
    std::vector<std::int32_t> sizes;
    for (const std::int32_t s : problem.size)
        if (s > 0) sizes.push_back(s);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

Setting::Setting(const Problem& p, std::vector<OpId> order, Allocation a, double part)
    : problem(p),
      sequence(p, std::move(order)),
      allocation(std::move(a)),
      ops(static_cast<std::int32_t>(sequence.order.size())),
      spare(part),
      possible(allocation.fits) {
    for (std::size_t i = 0; i < problem.size.size(); ++i) {
        const auto t = static_cast<TensorId>(i);
        const std::int32_t units = allocation.units[i];
        if (units == 0) continue;
        const std::uint32_t first = problem.first_use(t), end = problem.first_use(t + 1);
        const auto& at = sequence.position;
        for (std::uint32_t u = first; u + 1 < end; ++u)
            if (at[u + 1] > at[u] + 1)
                gaps.push_back({u, t, units, at[u], at[u + 1], allocation.region[i], false, 0});
        if (problem.graph.tensors[i].persistent && at[first] + ops > at[end - 1] + 1)
            gaps.push_back({end - 1, t, units, at[end - 1], at[first], allocation.region[i], true, 0});
    }
    std::vector<double> time(static_cast<std::size_t>(ops) + 1, 0);
    for (std::int32_t at = 0; at < ops; ++at)
        time[at + 1] = time[at] + static_cast<double>(problem.graph.ops[sequence.order[at]].duration_ns);
    for (Gap& g : gaps)
        g.span_ns = g.wrap ? time[ops] - time[g.from + 1] + time[g.to] : time[g.to] - time[g.from + 1];
    by_from.resize(gaps.size());
    std::iota(by_from.begin(), by_from.end(), 0u);
    by_to = by_from;
    std::stable_sort(by_from.begin(), by_from.end(),
                     [&](std::uint32_t x, std::uint32_t y) { return gaps[x].from < gaps[y].from; });
    std::stable_sort(by_to.begin(), by_to.end(),
                     [&](std::uint32_t x, std::uint32_t y) { return gaps[x].to < gaps[y].to; });
    std::vector<std::int64_t> need(allocation.regions.size(), 0);
    for (const OpId op : sequence.order) {
        for (const auto& u : problem.uses(op))
            need[allocation.region[u.tensor]] += allocation.units[u.tensor];
        for (const auto& u : problem.uses(op)) {
            const std::uint16_t r = allocation.region[u.tensor];
            if (need[r] > allocation.regions[r].slots) possible = false;
            need[r] = 0;
        }
    }
}

}  // namespace swapadvisor::planner
