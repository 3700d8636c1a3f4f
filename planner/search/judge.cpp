#include "planner/search/judge.h"

#include <algorithm>

namespace swapadvisor::planner {

std::int64_t Judge::period(const Setting& setting, const Choices& choice) {
    stays(setting, choice, options_, stays_);
    dispatcher_.run(setting, stays_, options_, 3, dispatch_);
    return dispatch_.ok ? dispatch_.period_ns : INT64_MAX;
}

Pressure Judge::pressure(const Setting& setting) const {
    const auto n = static_cast<std::size_t>(setting.ops);
    Pressure found;
    found.in.assign(n, 0);
    found.out.assign(n, 0);
    std::vector<std::int64_t> arrived(n, -1), stall_in(n, 0), stall_memory(n, 0), end(n, 0);
    std::vector<std::pair<std::int64_t, std::int64_t>> in_busy;
    for (const std::int32_t k : dispatch_.in_order) {
        const auto i = static_cast<std::size_t>(k);
        if (dispatch_.in_start[i] < 0) continue;
        in_busy.emplace_back(dispatch_.in_start[i],
                             dispatch_.in_end[i] < 0 ? INT64_MAX : dispatch_.in_end[i]);
        if (stays_[i].begin < setting.ops)
            arrived[static_cast<std::size_t>(stays_[i].begin)] = dispatch_.in_end[i];
    }
    std::int64_t before = 0;
    const std::int64_t least = dispatch_.period_ns / 10000;
    for (std::size_t p = 0; p < n; ++p) {
        const std::int64_t start = dispatch_.op_start[p], stall = start - before;
        if (stall > 0) {
            const bool for_in = arrived[p] >= start - stall / 2;
            (for_in ? stall_in : stall_memory)[p] = stall;
            if (stall > least) found.stalls.push_back({static_cast<std::int32_t>(p), stall, for_in});
        }
        before = end[p] =
            start +
            setting.problem.graph.ops[static_cast<std::size_t>(setting.sequence.order[p])].duration_ns;
    }
    price(in_busy, dispatch_.op_start, dispatch_.op_start, stall_in, found.in);
    price(dispatch_.out_busy, end, dispatch_.op_start, stall_memory, found.out);
    return found;
}

/// A transfer at times[p] costs what the rest of its busy run makes ops wait, up to a bound that stands for itself.
void Judge::price(const std::vector<std::pair<std::int64_t, std::int64_t>>& busy,
                  std::span<const std::int64_t> times, std::span<const std::int64_t> starts,
                  std::span<const std::int64_t> stalls, std::vector<float>& into) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;
    for (const auto& b : busy)
        if (!runs.empty() && b.first <= runs.back().second)
            runs.back().second = b.second;
        else
            runs.push_back(b);
    const double some = static_cast<double>(dispatch_.period_ns) / 200;
    std::size_t p = times.size();
    for (std::size_t r = runs.size(); r-- > 0;) {
        while (p > 0 && times[p - 1] > runs[r].second) --p;
        std::int64_t waited = 0;
        for (std::size_t q = p; q < starts.size() && starts[q] <= runs[r].second; ++q) waited += stalls[q];
        for (; p > 0 && times[p - 1] >= runs[r].first; --p) {
            waited += stalls[p - 1];
            into[p - 1] = static_cast<float>(std::min(1.0, static_cast<double>(waited) / some));
        }
    }
}

}  // namespace swapadvisor::planner
