#include "planner/bound/bound_model.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

namespace swapadvisor::planner::bounds {
namespace {

struct Use {
    int op = 0;
    bool write = false;
};

std::vector<std::vector<Use>> uses_of(const Graph& graph) {
    std::vector<std::vector<Use>> uses(graph.tensors.size());
    for (int i = 0; i < static_cast<int>(graph.ops.size()); ++i) {
        const auto note = [&](TensorId t, bool write) {
            auto& list = uses[t];
            if (list.empty() || list.back().op != i) list.push_back({i, false});
            list.back().write |= write;
        };
        for (TensorId t : graph.ops[i].reads) note(t, false);
        for (TensorId t : graph.ops[i].writes) note(t, true);
    }
    return uses;
}

// The ops at which memory is judged: all, or those where most is live in each stretch of ops.
std::vector<int> choose_ops(const std::vector<double>& live, int most) {
    const int n = static_cast<int>(live.size());
    std::vector<int> chosen;
    if (n <= most) {
        chosen.resize(n);
        std::iota(chosen.begin(), chosen.end(), 0);
        return chosen;
    }
    for (int k = 0; k < most; ++k) {
        const auto from = static_cast<int>(static_cast<std::int64_t>(n) * k / most);
        const auto to = static_cast<int>(static_cast<std::int64_t>(n) * (k + 1) / most);
        chosen.push_back(
            static_cast<int>(std::max_element(live.begin() + from, live.begin() + to) - live.begin()));
    }
    return chosen;
}

Link link_of(const Device& device) {
    Link link;
    const auto in = static_cast<double>(device.h2d_bytes_per_s),
               out = static_cast<double>(device.d2h_bytes_per_s);
    link.in_ns_per_byte = 1e9 / in;
    link.out_ns_per_byte = 1e9 / out;
    link.latency_ns = static_cast<double>(device.transfer_latency_ns);
    const double share = static_cast<double>(device.duplex_bytes_per_s) / (in + out);
    if (share < 1) link.theta = std::max(0.0, 2 - 1 / share);
    return link;
}

// Versions with the same gaps become one with the bytes of all. Each is charged latency in proportion to its
// bytes, at the rate of the largest: no more than its own. All then choose alike at any prices, so that
// nothing else changes.
void merge_alike(std::vector<Version>& versions) {
    std::map<std::vector<int>, std::size_t> groups;
    std::vector<Version> merged;
    std::vector<double> largest;
    for (Version& version : versions) {
        std::vector<int> key = {version.clean ? -1 : version.born};
        for (const Gap& gap : version.gaps) {
            key.push_back(gap.first);
            key.push_back(gap.last);
        }
        const auto [it, fresh] = groups.emplace(std::move(key), merged.size());
        const double bytes = version.gaps[0].bytes;
        if (fresh) {
            largest.push_back(bytes);
            merged.push_back(std::move(version));
            continue;
        }
        largest[it->second] = std::max(largest[it->second], bytes);
        for (Gap& gap : merged[it->second].gaps) gap.bytes += bytes;
    }
    for (std::size_t v = 0; v < merged.size(); ++v)
        for (Gap& gap : merged[v].gaps) gap.copies = gap.bytes / largest[v];
    versions = std::move(merged);
}

}  // namespace

Model build_model(const Graph& graph, const ModelOptions& options) {
    const int n = static_cast<int>(graph.ops.size());
    Model model;
    model.link = link_of(graph.device);
    const auto uses = uses_of(graph);

    std::vector<double> used(n), live_change(n + 1);
    for (std::size_t t = 0; t < uses.size(); ++t) {
        const auto bytes = static_cast<double>(graph.tensors[t].bytes);
        for (const Use& use : uses[t]) used[use.op] += bytes;
        if (uses[t].empty() || graph.tensors[t].persistent) continue;
        live_change[uses[t].front().op] += bytes;
        live_change[uses[t].back().op + 1] -= bytes;
    }
    std::vector<double> live(n);
    std::partial_sum(live_change.begin(), live_change.end() - 1, live.begin());
    const std::vector<int> chosen = choose_ops(live, options.most_slots);
    const int slots = static_cast<int>(chosen.size());
    assert(slots > 0);
    model.slots = slots;
    model.chosen = chosen;

    // Slot of an op on the unwrapped scale: ops from -n to 2n have slots from -slots to 2 * slots.
    std::vector<int> slot(n, -1);
    for (int k = 0; k < slots; ++k)
        for (int i = chosen[k]; i < (k + 1 < slots ? chosen[k + 1] : n); ++i) slot[i] = k;
    const auto slot_at = [&](int op) {
        const int wraps = op >= n ? 1 : 0;
        return slot[op - wraps * n] + wraps * slots;
    };
    model.time_ns.assign(slots, 0);
    model.late_ns.assign(slots, 0);
    model.room.resize(slots);
    std::vector<double> end_in_slot(n);  // time from the slot's start to the op's end
    {
        std::vector<double> passed(slots);
        const auto pass = [&](int i) {
            const int k = (slot[i] + slots) % slots;
            passed[k] += static_cast<double>(graph.ops[i].duration_ns);
            end_in_slot[i] = passed[k];
        };
        for (int i = chosen[0]; i < n; ++i) pass(i);
        for (int i = 0; i < chosen[0]; ++i) pass(i);
        model.time_ns = passed;
    }
    for (int k = 0; k < slots; ++k)
        model.room[k] = static_cast<double>(options.limit_bytes) - used[chosen[k]];
    for (const Op& op : graph.ops) model.compute_ns += static_cast<double>(op.duration_ns);

    const auto add_gap = [&](Version& version, int from, int to) {
        Gap gap;
        gap.bytes = static_cast<double>(graph.tensors[version.tensor].bytes);
        gap.opened_by = from % n;
        gap.first = slot_at(from);
        gap.last = slot_at(to - 1);
        if (gap.last > gap.first && gap.bytes > 0) version.gaps.push_back(gap);
    };
    const auto keep = [&](Version&& version, int birth_op) {
        if (version.gaps.empty()) return;
        if (!version.clean) version.born = slot_at(birth_op);
        model.versions.push_back(std::move(version));
    };
    for (std::size_t t = 0; t < uses.size(); ++t) {
        std::vector<Use> list = uses[t];
        if (list.empty()) continue;
        const auto first_write =
            std::find_if(list.begin(), list.end(), [](const Use& use) { return use.write; });
        const bool written = first_write != list.end();
        if (graph.tensors[t].persistent) {
            // Once around, from the first write if there is one.
            if (written) std::rotate(list.begin(), first_write, list.end());
            for (std::size_t j = 1; j < list.size(); ++j)
                if (list[j].op < list[0].op) list[j].op += n;
            list.push_back({list[0].op + n, list[0].write});
        }
        Version version;
        version.tensor = static_cast<TensorId>(t);
        version.clean = !list[0].write;
        int birth = list[0].op;
        for (std::size_t j = 0; j + 1 < list.size(); ++j) {
            if (list[j].write && j > 0) {
                keep(std::move(version), birth);
                version = Version{};
                version.tensor = static_cast<TensorId>(t);
                birth = list[j].op;
            }
            if (list[j + 1].op - list[j].op > 1) add_gap(version, list[j].op, list[j + 1].op);
        }
        keep(std::move(version), birth);
    }
    // slot_at covers ops up to 2n - 1; a gap that starts past n is moved one turn back with its whole
    // version.
    for (Version& version : model.versions) {
        const int start = version.clean ? version.gaps[0].first : version.born;
        const int turn = start >= slots ? slots : start < 0 ? -slots : 0;
        version.born -= turn;
        for (Gap& gap : version.gaps) {
            gap.first -= turn;
            gap.last -= turn;
        }
    }

    if (slots < n && options.merge) merge_alike(model.versions);

    // Too many gaps: the small and short ones are treated as if they took no room.
    std::size_t gaps = 0;
    for (const Version& version : model.versions) gaps += version.gaps.size();
    if (gaps > static_cast<std::size_t>(options.most_gaps)) {
        std::vector<double> weights;
        const auto weight = [](const Gap& gap) { return gap.bytes * (gap.last - gap.first); };
        for (const Version& version : model.versions)
            for (const Gap& gap : version.gaps) weights.push_back(weight(gap));
        std::nth_element(weights.begin(), weights.begin() + options.most_gaps, weights.end(),
                         std::greater<>());
        const double least = weights[options.most_gaps];
        for (Version& version : model.versions)
            std::erase_if(version.gaps, [&](const Gap& gap) {
                const bool ignore = weight(gap) <= least;
                if (ignore) model.ignored_bytes += gap.bytes;
                return ignore;
            });
        std::erase_if(model.versions, [](const Version& version) { return version.gaps.empty(); });
    }

    // From when on a slot's time is of use to what is born in it.
    std::vector<double> born_at(slots, -1);
    for (int i = 0; i < n; ++i) {
        const int k = (slot[i] + slots) % slots;
        const bool writes = std::any_of(graph.ops[i].writes.begin(), graph.ops[i].writes.end(),
                                        [&](TensorId t) { return graph.tensors[t].bytes > 0; });
        if (writes && (born_at[k] < 0 || end_in_slot[i] < born_at[k])) born_at[k] = end_in_slot[i];
    }
    for (int k = 0; k < slots; ++k)
        model.late_ns[k] = born_at[k] < 0 ? model.time_ns[k] : model.time_ns[k] - born_at[k];
    return model;
}

Prices refined(const Prices& prices, const Model& from, const Model& to) {
    Prices result(to.slots);
    for (int k = 0; k < to.slots; ++k) {
        const auto next = std::upper_bound(from.chosen.begin(), from.chosen.end(), to.chosen[k]);
        const auto slot = static_cast<int>((next - from.chosen.begin()) + from.slots - 1) % from.slots;
        result.in[k] = prices.in[slot];
        result.out[k] = prices.out[slot] + prices.late[slot];
        result.in_and_out[k] = prices.in_and_out[slot];
        result.out_and_in[k] = prices.out_and_in[slot];
        if (from.chosen[slot] == to.chosen[k]) result.room[k] = prices.room[slot];
    }
    return result;
}

}  // namespace swapadvisor::planner::bounds
