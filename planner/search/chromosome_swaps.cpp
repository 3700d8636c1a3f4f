// Changes of the keep-or-evict choices: flip a few gaps, then repair the rest around them.
#include <algorithm>
#include <numeric>

#include "planner/search/chromosome.h"

namespace swapadvisor::planner {

namespace {

/// Victim ranks for one repair: one of the simple ranks, often with what the transfers cost, often blurred.
Priorities random_rank(const Setting& setting, const Pressure* pressure, Random& random) {
    const double which = random.unit();
    const Rank by = which < 0.6 ? Rank::farthest_next : which < 0.8 ? Rank::longest_gap : Rank::largest_gap;
    Priorities p = rank(setting, by);
    double low = 0, high = 1e-9;
    for (const double v : p.tail) low = std::min(low, v), high = std::max(high, v);
    const double width = high - low;
    if (pressure && !pressure->in.empty() && random.chance(0.0)) {
        const double weight = width * (random.chance(0.5) ? 0.25 : 1) * (0.5 + random.unit());
        for (std::size_t i = 0; i < p.tail.size(); ++i) {
            const Gap& g = setting.gaps[i];
            double cost = pressure->in[static_cast<std::size_t>(g.to)];
            if (setting.problem.written[static_cast<std::size_t>(g.tensor)])
                cost += pressure->out[static_cast<std::size_t>(g.from)];
            p.tail[i] -= weight * cost;
            p.head[i] -= weight * cost;
        }
    }
    const double blur = random.chance(0.5) ? random.unit() : 0;
    if (blur > 0)
        for (std::size_t i = 0; i < p.tail.size(); ++i) {
            const double shift = 0.5 * blur * width * (random.unit() - 0.5);
            p.tail[i] += shift;
            p.head[i] += shift;
        }
    return p;
}

bool repair_around(const Setting& setting, const Pressure* pressure, const std::vector<std::uint32_t>& fixed,
                   Choices& choice, Random& random) {
    Priorities priorities = random_rank(setting, pressure, random);
    constexpr double last = -1e300;
    for (const std::uint32_t i : fixed)
        if (choice[setting.gaps[i].use] == GapChoice::keep) priorities.tail[i] = priorities.head[i] = last;
    if (!cover(setting, priorities, choice)) return false;
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < setting.gaps.size(); ++i)
        if (choice[setting.gaps[i].use] != GapChoice::keep &&
            std::find(fixed.begin(), fixed.end(), i) == fixed.end())
            order.push_back(i);
    if (random.chance(0.5)) {
        for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    } else {
        std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
            return priorities.head[a] < priorities.head[b];
        });
    }
    restore(setting, order, choice);
    return true;
}

/// A gap near the position of a stall, drawn by what the stalls cost.
const Stall* draw(const std::vector<Stall>& stalls, Random& random) {
    double sum = 0;
    for (const Stall& s : stalls) sum += static_cast<double>(s.ns);
    double at = random.unit() * sum;
    for (const Stall& s : stalls) {
        at -= static_cast<double>(s.ns);
        if (at <= 0) return &s;
    }
    return stalls.empty() ? nullptr : &stalls.back();
}

/// Walks back from `position` in gaps sorted by one of their ends to one of the nearest that `wanted`
/// accepts.
template <class Key, class Wanted>
std::int64_t near_before(const std::vector<std::uint32_t>& sorted, std::int32_t position, Key&& key,
                         Wanted&& wanted, Random& random) {
    auto it = std::upper_bound(sorted.begin(), sorted.end(), position,
                               [&](std::int32_t p, std::uint32_t i) { return p < key(i); });
    std::size_t skip = random.below(random.chance(0.5) ? 4 : 16);
    std::int64_t found = -1;
    for (int steps = 0; it != sorted.begin() && steps < 400; ++steps) {
        --it;
        if (!wanted(*it)) continue;
        found = *it;
        if (skip-- == 0) break;
    }
    return found;
}

}  // namespace

bool mutate_choice(const Individual& parent, Choices& choice, Random& random) {
    const Setting& setting = *parent.setting;
    const auto& gaps = setting.gaps;
    if (gaps.empty()) return false;
    std::vector<std::uint32_t> fixed;
    auto evicted = [&](std::uint32_t i) { return choice[gaps[i].use] != GapChoice::keep; };
    auto set = [&](std::uint32_t i, GapChoice c) {
        choice[gaps[i].use] = c;
        fixed.push_back(i);
    };
    auto evict = [&](std::uint32_t i) {
        set(i, gaps[i].wrap && random.chance(0.3) ? GapChoice::evict_tail : GapChoice::evict);
    };
    auto free_gap = [&](bool wanted_evicted) -> std::int64_t {
        for (int attempt = 0; attempt < 50; ++attempt) {
            const auto i = static_cast<std::uint32_t>(random.below(gaps.size()));
            if (evicted(i) == wanted_evicted && std::find(fixed.begin(), fixed.end(), i) == fixed.end())
                return i;
        }
        return -1;
    };
    const double which = random.unit();
    const int count = 1 + static_cast<int>(random.unit() * random.unit() * 4);
    if (which < 0.4 && !parent.pressure.stalls.empty()) {  // near a stall
        for (int k = 0; k < count; ++k) {
            const Stall& stall = *draw(parent.pressure.stalls, random);
            std::int64_t gap = -1;
            if (stall.for_in) {
                gap = near_before(
                    setting.by_to, stall.position, [&](std::uint32_t i) { return gaps[i].to; }, evicted,
                    random);
            } else if (random.chance(0.7)) {
                gap = near_before(
                    setting.by_from, stall.position, [&](std::uint32_t i) { return gaps[i].from; }, evicted,
                    random);
            } else {
                gap = near_before(
                    setting.by_from, stall.position - 1, [&](std::uint32_t i) { return gaps[i].from; },
                    [&](std::uint32_t i) {
                        return !evicted(i) && (gaps[i].wrap || gaps[i].to > stall.position);
                    },
                    random);
            }
            if (gap < 0) continue;
            const auto i = static_cast<std::uint32_t>(gap);
            if (evicted(i))
                set(i, GapChoice::keep);
            else
                evict(i);
        }
    } else if (which < 0.45) {  // a wrapping gap comes back early or late
        std::int64_t found = -1;
        for (int attempt = 0; attempt < 100 && found < 0; ++attempt) {
            const auto i = static_cast<std::uint32_t>(random.below(gaps.size()));
            if (gaps[i].wrap && evicted(i)) found = i;
        }
        if (found < 0) return false;
        const auto i = static_cast<std::uint32_t>(found);
        set(i, choice[gaps[i].use] == GapChoice::evict ? GapChoice::evict_tail : GapChoice::evict);
    } else {
        const bool add = which < 0.75, remove = which >= 0.6;
        for (int k = 0; k < count; ++k) {
            if (add)
                if (const std::int64_t i = free_gap(false); i >= 0) evict(static_cast<std::uint32_t>(i));
            if (remove)
                if (const std::int64_t i = free_gap(true); i >= 0)
                    set(static_cast<std::uint32_t>(i), GapChoice::keep);
        }
    }
    if (fixed.empty()) return false;
    return repair_around(setting, &parent.pressure, fixed, choice, random);
}

bool cross_choice(const Setting& setting, const Choices& a, const Choices& b, std::int32_t cut, Choices& into,
                  Random& random) {
    into = a;
    for (const Gap& g : setting.gaps)
        if (g.from >= cut) into[g.use] = b[g.use];
    return repair(setting, nullptr, into, random);
}

void adapt_choice(const Setting& setting, Choices& choice) {
    Choices adapted(choice.size(), GapChoice::keep);
    for (const Gap& g : setting.gaps)
        adapted[g.use] = !g.wrap && choice[g.use] == GapChoice::evict_tail ? GapChoice::evict : choice[g.use];
    choice = std::move(adapted);
}

bool repair(const Setting& setting, const Pressure* pressure, Choices& choice, Random& random) {
    return repair_around(setting, pressure, {}, choice, random);
}

}  // namespace swapadvisor::planner
