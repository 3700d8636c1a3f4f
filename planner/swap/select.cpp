#include "planner/swap/select.h"

#include <algorithm>
#include <queue>

namespace swapadvisor::planner {

namespace {

/// What a position of `region` may hold: all but the spare part.
std::int32_t capacity_of(const Setting& setting, std::size_t region) {
    const std::int32_t slots = setting.allocation.regions[region].slots;
    return slots - static_cast<std::int32_t>(static_cast<double>(slots) * setting.spare);
}

/// cover() for the usual case of a repair, a few gaps too many: looks at every gap once per eviction. Returns
/// 1 when all fits, 0 when it never can, -1 when there is more to do than this is good for (choice is then
/// part done; usage is kept right).
std::int8_t cover_few(const Setting& setting, const Priorities& priorities, std::vector<std::int32_t>& usage,
                      Choices& choice) {
    const std::int32_t n = setting.ops;
    const std::size_t stride = static_cast<std::size_t>(n) + 1;
    int evictions = 0;
    for (std::size_t r = 0; r < setting.allocation.regions.size(); ++r) {
        const std::int32_t capacity = capacity_of(setting, r);
        std::int32_t* const row = usage.data() + r * stride;
        for (std::int32_t p = 0; p < n; ++p)
            while (row[p] > capacity) {
                if (++evictions > 24) return -1;
                std::int64_t best = -1;
                double best_rank = 0;
                for (std::uint32_t i = 0; i < setting.gaps.size(); ++i) {
                    const Gap& g = setting.gaps[i];
                    const GapChoice c = choice[g.use];
                    if (c == GapChoice::evict || g.region != r) continue;
                    const bool tail = g.from < p && (g.wrap || p < g.to), head = g.wrap && p < g.to;
                    if (!head && (!tail || c == GapChoice::evict_tail)) continue;
                    const double value = head ? priorities.head[i] : priorities.tail[i];
                    if (best < 0 || value > best_rank) best = i, best_rank = value;
                }
                if (best < 0) {
                    if (row[p] <= setting.allocation.regions[r].slots) break;  // no room to spare
                    return 0;
                }
                const Gap& g = setting.gaps[static_cast<std::size_t>(best)];
                if (choice[g.use] == GapChoice::keep)
                    for (std::int32_t q = g.from + 1; q < (g.wrap ? n : g.to); ++q) row[q] -= g.units;
                if (g.wrap)
                    for (std::int32_t q = 0; q < g.to; ++q) row[q] -= g.units;
                choice[g.use] = GapChoice::evict;
            }
    }
    return 1;
}

}  // namespace

Priorities rank(const Setting& setting, Rank by) {
    const std::int32_t n = setting.ops;
    Priorities out;
    for (const Gap& g : setting.gaps) {
        double tail = 0, head = 0;
        const double span = g.span_ns;
        switch (by) {
            case Rank::least_recent:
                tail = -g.from;
                head = n - g.from;
                break;
            case Rank::farthest_next:
                tail = g.to + (g.wrap ? n : 0);
                head = g.to;
                break;
            case Rank::longest_gap:
                tail = head = span;
                break;
            case Rank::largest_gap:
                tail = head = span * g.units;
                break;
        }
        out.tail.push_back(tail);
        out.head.push_back(head);
    }
    return out;
}

void usage_of(const Setting& setting, std::span<const GapChoice> choice, std::vector<std::int32_t>& usage) {
    const std::int32_t n = setting.ops;
    const std::size_t stride = static_cast<std::size_t>(n) + 1;
    const auto& allocation = setting.allocation;
    usage.assign(allocation.regions.size() * stride, 0);
    for (std::size_t i = 0; i < allocation.units.size(); ++i) {
        const std::int32_t units = allocation.units[i];
        if (units == 0) continue;
        const auto t = static_cast<TensorId>(i);
        std::int32_t* const at = usage.data() + allocation.region[i] * stride;
        if (setting.problem.graph.tensors[i].persistent) {
            at[0] += units;
        } else {
            at[setting.sequence.position[setting.problem.first_use(t)]] += units;
            at[setting.sequence.position[setting.problem.first_use(t + 1) - 1] + 1] -= units;
        }
    }
    for (const Gap& g : setting.gaps) {
        const GapChoice c = choice[g.use];
        if (c == GapChoice::keep) continue;
        std::int32_t* const at = usage.data() + g.region * stride;
        at[g.from + 1] -= g.units;
        if (!g.wrap) {
            at[g.to] += g.units;
        } else if (c == GapChoice::evict) {
            at[0] -= g.units;
            at[g.to] += g.units;
        }
    }
    for (std::size_t r = 0; r < allocation.regions.size(); ++r)
        for (std::int32_t p = 1; p <= n; ++p) usage[r * stride + p] += usage[r * stride + p - 1];
}

bool cover(const Setting& setting, const Priorities& priorities, Choices& choice,
           std::vector<std::int32_t>* release_at) {
    const std::int32_t n = setting.ops;
    const std::size_t stride = static_cast<std::size_t>(n) + 1;
    const std::size_t regions = setting.allocation.regions.size();
    std::vector<std::int32_t> usage;
    usage_of(setting, choice, usage);
    if (!release_at) {
        const std::int8_t done = cover_few(setting, priorities, usage, choice);
        if (done >= 0) return done > 0;
    }
    // Gaps by the position from which they are candidates (a wrapping one twice).
    std::vector<std::int32_t> opens_at(static_cast<std::size_t>(n) + 2, 0);
    auto each_opening = [&](auto&& f) {
        for (std::uint32_t i = 0; i < setting.gaps.size(); ++i) {
            const Gap& g = setting.gaps[i];
            if (choice[g.use] == GapChoice::evict) continue;
            if (g.wrap && g.to > 0) f(0, i);
            if (g.from + 1 < n) f(g.from + 1, i);
        }
    };
    each_opening([&](std::int32_t p, std::uint32_t) { ++opens_at[p + 1]; });
    for (std::int32_t p = 1; p <= n; ++p) opens_at[p] += opens_at[p - 1];
    std::vector<std::uint32_t> opens(static_cast<std::size_t>(opens_at[n]));
    {
        std::vector<std::int32_t> fill(opens_at.begin(), opens_at.end());
        each_opening(
            [&](std::int32_t p, std::uint32_t i) { opens[static_cast<std::size_t>(fill[p]++)] = i; });
    }
    struct Candidate {
        double rank;
        std::uint32_t gap;
        bool head;
        bool operator<(const Candidate& o) const { return rank != o.rank ? rank < o.rank : gap > o.gap; }
    };
    std::vector<std::vector<Candidate>> candidates(regions);  // heaps
    std::vector<std::int32_t> change(regions * stride, 0), changed(regions, 0), capacity(regions);
    for (std::size_t r = 0; r < regions; ++r) capacity[r] = capacity_of(setting, r);
    for (std::int32_t p = 0; p < n; ++p) {
        for (std::int32_t k = opens_at[p]; k < opens_at[p + 1]; ++k) {
            const std::uint32_t i = opens[static_cast<std::size_t>(k)];
            const bool head = setting.gaps[i].wrap && p == 0;
            auto& heap = candidates[setting.gaps[i].region];
            heap.push_back({head ? priorities.head[i] : priorities.tail[i], i, head});
            std::push_heap(heap.begin(), heap.end());
        }
        for (std::size_t r = 0; r < regions; ++r) {
            const std::size_t at = r * stride + static_cast<std::size_t>(p);
            changed[r] += change[at];
            auto& heap = candidates[r];
            while (usage[at] + changed[r] > capacity[r]) {
                if (heap.empty()) {
                    if (usage[at] + changed[r] <= setting.allocation.regions[r].slots)
                        break;  // no room to spare
                    return false;
                }
                std::pop_heap(heap.begin(), heap.end());
                const Candidate c = heap.back();
                heap.pop_back();
                const Gap& g = setting.gaps[c.gap];
                GapChoice& now = choice[g.use];
                const bool tail_only = now == GapChoice::evict_tail;  // resident in the head part only
                if (now == GapChoice::evict || (tail_only && !c.head)) continue;
                const std::int32_t end = c.head ? g.to : (g.wrap ? n : g.to);
                if (end <= p) continue;
                now = GapChoice::evict;
                changed[r] -= g.units;
                if (end < n) change[r * stride + end] += g.units;
                if (c.head && !tail_only && g.from + 1 < n) change[r * stride + g.from + 1] -= g.units;
                if (release_at) (*release_at)[g.use] = c.head ? n - 1 : p - 1;
            }
        }
    }
    return true;
}

void restore(const Setting& setting, std::span<const std::uint32_t> order, Choices& choice) {
    constexpr std::int32_t block = 64;
    const std::int32_t n = setting.ops;
    const std::size_t stride = static_cast<std::size_t>(n) + 1;
    const std::size_t blocks = static_cast<std::size_t>(n / block) + 1;
    std::vector<std::int32_t> usage;
    usage_of(setting, choice, usage);
    // The highest usage of each block of positions, to skip blocks at once.
    std::vector<std::int32_t> highest(setting.allocation.regions.size() * blocks, 0);
    auto refresh = [&](std::size_t region, std::int32_t b) {
        const auto row = usage.begin() + static_cast<std::ptrdiff_t>(region * stride);
        highest[region * blocks + static_cast<std::size_t>(b)] =
            *std::max_element(row + b * block, row + std::min(n, (b + 1) * block));
    };
    for (std::size_t r = 0; r < setting.allocation.regions.size(); ++r)
        for (std::int32_t b = 0; b * block < n; ++b) refresh(r, b);
    auto fits = [&](const Gap& g, std::int32_t from, std::int32_t to) {
        const std::int32_t most = capacity_of(setting, g.region) - g.units;
        const std::int32_t* const row = usage.data() + g.region * stride;
        for (std::int32_t p = from; p < to;) {
            if (p % block == 0 && p + block <= to) {
                if (highest[g.region * blocks + static_cast<std::size_t>(p / block)] > most) return false;
                p += block;
            } else {
                if (row[p] > most) return false;
                ++p;
            }
        }
        return true;
    };
    auto take = [&](const Gap& g, std::int32_t from, std::int32_t to) {
        if (from >= to) return;
        for (std::int32_t p = from; p < to; ++p)
            usage[g.region * stride + static_cast<std::size_t>(p)] += g.units;
        for (std::int32_t b = from / block; b * block < to; ++b) refresh(g.region, b);
    };
    for (const std::uint32_t i : order) {
        const Gap& g = setting.gaps[i];
        GapChoice& c = choice[g.use];
        if (c == GapChoice::keep) continue;
        const std::int32_t end = g.wrap ? n : g.to;
        const bool head = g.wrap && c == GapChoice::evict;
        if (!fits(g, g.from + 1, end) || (head && !fits(g, 0, g.to))) continue;
        take(g, g.from + 1, end);
        if (head) take(g, 0, g.to);
        c = GapChoice::keep;
    }
}

}  // namespace swapadvisor::planner
