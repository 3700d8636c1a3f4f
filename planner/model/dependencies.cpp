#include "planner/model/dependencies.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace swapadvisor::planner {

Dependencies::Dependencies(const Graph& graph) {
    const auto n = static_cast<OpId>(graph.ops.size());
    std::vector<OpId> writer(graph.tensors.size(), -1);
    std::vector<std::vector<OpId>> readers(graph.tensors.size());  // since the last write
    std::vector<OpId> found;
    std::vector<bool> continued(static_cast<std::size_t>(n), false);  // some op of its part follows it
    before_at_.push_back(0);
    std::vector<std::uint32_t> followers(static_cast<std::size_t>(n), 0);
    std::unordered_map<std::int64_t, OpId> newest;  // of each group that keeps its order
    OpId part = 0, before_part = 0;                 // first ops since the last host wait, and the one before
    for (OpId i = 0; i < n; ++i) {
        const Op& op = graph.ops[i];
        found.assign(op.after.begin(), op.after.end());
        if (op.keeps_order >= 0) {
            const auto [at, is_first] = newest.try_emplace(op.keeps_order, i);
            if (!is_first) found.push_back(std::exchange(at->second, i));
        }
        if (op.host_waits && i > 0) before_part = std::exchange(part, i);
        for (const TensorId t : op.reads)
            if (writer[t] >= 0) found.push_back(writer[t]);
        for (const TensorId t : op.writes) {
            if (writer[t] >= 0) found.push_back(writer[t]);
            found.insert(found.end(), readers[t].begin(), readers[t].end());
        }
        for (const TensorId t : op.writes) {
            writer[t] = i;
            readers[t].clear();
        }
        for (const TensorId t : op.reads)
            if (writer[t] != i) readers[t].push_back(i);
        // The first of a part follow the last of the part before it.
        if (part > 0 && std::none_of(found.begin(), found.end(), [&](OpId f) { return f >= part; }))
            for (OpId f = before_part; f < part; ++f)
                if (!continued[static_cast<std::size_t>(f)]) found.push_back(f);
        for (const OpId f : found)
            if (f >= part) continued[static_cast<std::size_t>(f)] = true;
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        for (const OpId f : found)
            if (f != i) {
                before_.push_back(f);
                ++followers[f];
            }
        before_at_.push_back(static_cast<std::uint32_t>(before_.size()));
    }
    after_at_.assign(1, 0);
    for (OpId i = 0; i < n; ++i) after_at_.push_back(after_at_.back() + followers[i]);
    after_.resize(before_.size());
    std::vector<std::uint32_t> fill(after_at_.begin(), after_at_.end() - 1);
    for (OpId i = 0; i < n; ++i)
        for (const OpId f : before(i)) after_[fill[f]++] = i;
}

bool Dependencies::allows(std::span<const OpId> schedule) const {
    if (schedule.size() != size()) return false;
    std::vector<std::int64_t> position(size(), -1);
    for (std::size_t p = 0; p < schedule.size(); ++p) {
        const OpId op = schedule[p];
        if (op < 0 || static_cast<std::size_t>(op) >= size() || position[op] >= 0) return false;
        position[op] = static_cast<std::int64_t>(p);
    }
    for (std::size_t op = 0; op < size(); ++op)
        for (const OpId f : before(static_cast<OpId>(op)))
            if (position[f] > position[op]) return false;
    return true;
}

}  // namespace swapadvisor::planner
