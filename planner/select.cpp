#include "planner/select.h"

#include <algorithm>
#include <queue>

namespace swapadvisor::planner {

std::vector<Gap> gaps_of(const Problem& problem, const Sequence& sequence) {
    std::vector<Gap> gaps;
    const auto n = static_cast<std::int32_t>(sequence.order.size());
    for (std::size_t i = 0; i < problem.size.size(); ++i) {
        const auto t = static_cast<TensorId>(i);
        if (problem.size[i] == 0) continue;
        const std::uint32_t first = problem.first_use(t), end = problem.first_use(t + 1);
        for (std::uint32_t u = first; u + 1 < end; ++u)
            if (sequence.position[u + 1] > sequence.position[u] + 1)
                gaps.push_back(
                    {u, t, problem.size[i], sequence.position[u], sequence.position[u + 1], false});
        if (problem.graph.tensors[i].persistent &&
            sequence.position[first] + n > sequence.position[end - 1] + 1)
            gaps.push_back(
                {end - 1, t, problem.size[i], sequence.position[end - 1], sequence.position[first], true});
    }
    return gaps;
}

Priorities rank(const Problem& problem, const Sequence& sequence, std::span<const Gap> gaps, Rank by) {
    const auto n = static_cast<std::int32_t>(sequence.order.size());
    std::vector<double> time(static_cast<std::size_t>(n) + 1, 0);
    for (std::int32_t p = 0; p < n; ++p)
        time[p + 1] = time[p] + static_cast<double>(problem.graph.ops[sequence.order[p]].duration_ns);
    Priorities out;
    for (const Gap& g : gaps) {
        double tail = 0, head = 0;
        const double span = g.wrap ? time[n] - time[g.from + 1] + time[g.to] : time[g.to] - time[g.from + 1];
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
                tail = head = span * g.size;
                break;
        }
        out.tail.push_back(tail);
        out.head.push_back(head);
    }
    return out;
}

void usage_of(const Problem& problem, const Sequence& sequence, std::span<const Gap> gaps,
              std::span<const GapChoice> choice, std::vector<std::int32_t>& usage) {
    const auto n = static_cast<std::int32_t>(sequence.order.size());
    usage.assign(static_cast<std::size_t>(n) + 2, 0);
    for (std::size_t i = 0; i < problem.size.size(); ++i) {
        const auto t = static_cast<TensorId>(i);
        if (problem.size[i] == 0) continue;
        if (problem.graph.tensors[i].persistent) {
            usage[0] += problem.size[i];
        } else {
            usage[sequence.position[problem.first_use(t)]] += problem.size[i];
            usage[sequence.position[problem.first_use(t + 1) - 1] + 1] -= problem.size[i];
        }
    }
    for (const Gap& g : gaps) {
        const GapChoice c = choice[g.use];
        if (c == GapChoice::keep) continue;
        if (!g.wrap) {
            usage[g.from + 1] -= g.size;
            usage[g.to] += g.size;
        } else {
            usage[g.from + 1] -= g.size;
            if (c == GapChoice::evict) {
                usage[0] -= g.size;
                usage[g.to] += g.size;
            }
        }
    }
    for (std::int32_t p = 1; p <= n; ++p) usage[p] += usage[p - 1];
    usage.resize(static_cast<std::size_t>(n) + 1);
}

bool cover(const Problem& problem, const Sequence& sequence, std::span<const Gap> gaps,
           const Priorities& priorities, std::int32_t capacity, std::vector<GapChoice>& choice,
           std::vector<std::int32_t>* release_at) {
    const auto n = static_cast<std::int32_t>(sequence.order.size());
    std::vector<std::int32_t> usage;
    usage_of(problem, sequence, gaps, choice, usage);
    // Gaps by the position from which they are candidates.
    std::vector<std::vector<std::uint32_t>> opens(static_cast<std::size_t>(n) + 1);
    for (std::uint32_t i = 0; i < gaps.size(); ++i) {
        const Gap& g = gaps[i];
        if (choice[g.use] == GapChoice::evict) continue;
        if (g.from + 1 < n) opens[g.from + 1].push_back(i);
        if (g.wrap && g.to > 0) opens[0].push_back(i);
    }
    struct Candidate {
        double rank;
        std::uint32_t gap;
        bool head;
        bool operator<(const Candidate& o) const { return rank != o.rank ? rank < o.rank : gap > o.gap; }
    };
    std::priority_queue<Candidate> candidates;
    std::vector<std::int32_t> change(static_cast<std::size_t>(n) + 1, 0);
    std::int32_t changed = 0;
    for (std::int32_t p = 0; p < n; ++p) {
        changed += change[p];
        for (const std::uint32_t i : opens[p]) {
            const bool head = gaps[i].wrap && p == 0;
            candidates.push({head ? priorities.head[i] : priorities.tail[i], i, head});
        }
        while (usage[p] + changed > capacity) {
            if (candidates.empty()) return false;
            const Candidate c = candidates.top();
            candidates.pop();
            const Gap& g = gaps[c.gap];
            GapChoice& now = choice[g.use];
            const bool tail_only = now == GapChoice::evict_tail;  // resident in the head part only
            if (now == GapChoice::evict || (tail_only && !c.head)) continue;
            const std::int32_t end = c.head ? g.to : (g.wrap ? n : g.to);
            if (end <= p) continue;
            now = GapChoice::evict;
            changed -= g.size;
            if (end < n) change[end] += g.size;
            if (c.head && !tail_only && g.from + 1 < n) change[g.from + 1] -= g.size;
            if (release_at) (*release_at)[g.use] = c.head ? n - 1 : p - 1;
        }
    }
    return true;
}

void restore(const Problem& problem, const Sequence& sequence, std::span<const Gap> gaps,
             std::span<const std::uint32_t> order, std::int32_t capacity, std::vector<GapChoice>& choice) {
    std::vector<std::int32_t> usage;
    usage_of(problem, sequence, gaps, choice, usage);
    const auto n = static_cast<std::int32_t>(sequence.order.size());
    const std::int32_t block = 64;
    std::vector<std::int32_t> highest(static_cast<std::size_t>(n / block) + 1, 0);
    auto refresh = [&](std::int32_t b) {
        highest[b] =
            *std::max_element(usage.begin() + b * block, usage.begin() + std::min(n, (b + 1) * block));
    };
    for (std::int32_t b = 0; b * block < n; ++b) refresh(b);
    auto fits = [&](std::int32_t from, std::int32_t to, std::int32_t size) {
        for (std::int32_t p = from; p < to;) {
            if (p % block == 0 && p + block <= to) {
                if (highest[p / block] + size > capacity) return false;
                p += block;
            } else {
                if (usage[p] + size > capacity) return false;
                ++p;
            }
        }
        return true;
    };
    auto take = [&](std::int32_t from, std::int32_t to, std::int32_t size) {
        if (from >= to) return;
        for (std::int32_t p = from; p < to; ++p) usage[p] += size;
        for (std::int32_t b = from / block; b * block < to; ++b) refresh(b);
    };
    for (const std::uint32_t i : order) {
        const Gap& g = gaps[i];
        GapChoice& c = choice[g.use];
        if (c == GapChoice::keep) continue;
        const std::int32_t end = g.wrap ? n : g.to;
        const bool head = g.wrap && c == GapChoice::evict;
        if (!fits(g.from + 1, end, g.size) || (head && !fits(0, g.to, g.size))) continue;
        take(g.from + 1, end, g.size);
        if (head) take(0, g.to, g.size);
        c = GapChoice::keep;
    }
}

}  // namespace swapadvisor::planner
