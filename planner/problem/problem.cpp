#include "planner/problem/problem.h"

#include <algorithm>
#include <numeric>

#include "planner/bound/bound.h"

namespace swapadvisor::planner {

namespace {

constexpr std::int64_t arena_grain = 512;
constexpr std::int64_t largest_chunk = std::int64_t{1} << 60;
constexpr std::int64_t most_chunks = std::int64_t{1} << 28;  // sums of them then fit 32 bits
constexpr double most_ns = 0x1p56;  // of all transfers that a plan may make: likewise, 64

std::int64_t round_up(std::int64_t bytes, std::int64_t to) {
    return (bytes + to - 1) / to * to;
}

std::int64_t duration(std::int64_t bytes, std::uint64_t rate, std::int64_t latency) {
    const double whole = static_cast<double>(bytes) * 1e9 / static_cast<double>(rate) + 0.999;
    return latency + static_cast<std::int64_t>(std::min(whole, most_ns));  // more is refused
}

std::string op_text(const Graph& graph, OpId op) {
    return "op " + std::to_string(op) + (graph.ops[op].name.empty() ? "" : " (" + graph.ops[op].name + ")");
}

/// Distinct tensors that one op touches.
void touched(const Op& op, std::vector<Problem::Use>& into) {
    into.clear();
    for (const TensorId t : op.writes) into.push_back({t, true});
    for (const TensorId t : op.reads) into.push_back({t, false});
    std::stable_sort(into.begin(), into.end(),
                     [](const Problem::Use& a, const Problem::Use& b) { return a.tensor < b.tensor; });
    into.erase(std::unique(into.begin(), into.end(),
                           [](const Problem::Use& a, const Problem::Use& b) { return a.tensor == b.tensor; }),
               into.end());
}

}  // namespace

Problem::Problem(const Graph& g, const PlanOptions& options)
    : graph(g), dependencies(g), rates(g.device), limit_bytes(options.limit_bytes) {
    if (limit_bytes <= 0) throw PlanError("the memory limit must be above 0 bytes: give one with --memory");
    if (limit_bytes > graph.device.memory_bytes)
        throw PlanError("the limit of " + std::to_string(limit_bytes) +
                        " bytes is above the device's memory of " +
                        std::to_string(graph.device.memory_bytes) + " bytes: choose a smaller one");
    for (const Op& op : graph.ops) compute_ns += op.duration_ns;
    choose_pool(options);
    const std::size_t tensors = graph.tensors.size();
    std::vector<Use> touch;
    std::vector<std::uint32_t> count(tensors, 0);
    for (const Tensor& t : graph.tensors) written.push_back(!t.persistent);
    for (const Op& op : graph.ops)
        for (const TensorId t : op.writes) written[static_cast<std::size_t>(t)] = 1;
    uses_at_.push_back(0);
    for (const Op& op : graph.ops) {
        touched(op, touch);
        for (const Use& u : touch)
            if (size[u.tensor] > 0) {
                uses_.push_back(u);
                ++count[u.tensor];
            }
        uses_at_.push_back(static_cast<std::uint32_t>(uses_.size()));
    }
    first_use_.push_back(0);
    for (const std::uint32_t c : count) first_use_.push_back(first_use_.back() + c);
    for (std::size_t t = 0; t < tensors; ++t) {
        if (count[t] == 0) size[t] = 0;  // nobody needs it on the device
        in_ns.push_back(duration(graph.tensors[t].bytes, rates.in_alone, graph.device.transfer_latency_ns));
        out_ns.push_back(duration(graph.tensors[t].bytes, rates.out_alone, graph.device.transfer_latency_ns));
    }
    check_times(count);
    check_working_sets();
}

/// Every tensor in and out at every use, and every op: no plan takes longer.
void Problem::check_times(const std::vector<std::uint32_t>& uses) const {
    double sum = static_cast<double>(compute_ns);
    for (std::size_t t = 0; t < uses.size(); ++t)
        sum += (static_cast<double>(in_ns[t]) + static_cast<double>(out_ns[t])) * uses[t];
    if (sum > most_ns)
        throw PlanError(
            "an iteration could take longer than 2^56 ns: check the durations, the rates and the latency");
}

/// The chunk size and the arena. Small tensors waste most of a chunk, so they go to the arena (resident for
/// good) as long as that costs less than the rounding it saves, judged by what is live at a time.
void Problem::choose_pool(const PlanOptions& options) {
    const std::size_t tensors = graph.tensors.size();
    const auto n = static_cast<std::int32_t>(graph.ops.size());
    std::vector<std::int32_t> first(tensors, -1), last(tensors, -1);
    std::vector<Use> touch;
    for (std::int32_t i = 0; i < n; ++i) {
        touched(graph.ops[i], touch);
        for (const Use& u : touch) {
            if (first[u.tensor] < 0) first[u.tensor] = i;
            last[u.tensor] = i;
        }
    }
    // Candidates: powers of two up to a chunk. Score: arena + rounding waste of the rest at the busiest
    // position.
    auto score = [&](std::int64_t below, std::int64_t chunk) {
        double arena_total = 0;
        std::vector<double> waste(static_cast<std::size_t>(n) + 1, 0),
            live(static_cast<std::size_t>(n) + 1, 0);
        for (std::size_t t = 0; t < tensors; ++t) {
            const std::int64_t bytes = graph.tensors[t].bytes;
            if (bytes < below || bytes == 0) {
                if (first[t] < 0 && bytes >= options.arena_below_bytes) continue;
                arena_total += static_cast<double>(round_up(bytes, arena_grain));
                continue;
            }
            if (first[t] < 0) continue;
            const bool all = graph.tensors[t].persistent;
            const auto from = static_cast<std::size_t>(all ? 0 : first[t]);
            const auto to = static_cast<std::size_t>(all ? n : last[t] + 1);
            const auto extra = static_cast<double>(round_up(bytes, chunk) - bytes);
            waste[from] += extra;
            waste[to] -= extra;
            live[from] += static_cast<double>(bytes);
            live[to] -= static_cast<double>(bytes);
        }
        double w = 0, l = 0, worst = 0;
        for (std::size_t i = 0; i < waste.size(); ++i) {
            w += waste[i];
            l += live[i];
            const auto room = static_cast<double>(limit_bytes);
            worst = std::max(worst, l > room ? w * room / l : w);
        }
        return arena_total + worst;
    };
    // What a pool needs for the largest working set, beyond the limit.
    auto lack = [&](std::int64_t below, std::int64_t chunk) {
        std::int64_t arena_total = 0, most = 0;
        for (std::size_t t = 0; t < tensors; ++t) {
            const std::int64_t bytes = graph.tensors[t].bytes;
            if (bytes < options.arena_below_bytes || (first[t] >= 0 && (bytes < below || bytes == 0)))
                arena_total += round_up(bytes, arena_grain);
        }
        for (const Op& op : graph.ops) {
            touched(op, touch);
            std::int64_t sum = 0;
            for (const Use& u : touch) {
                const std::int64_t bytes = graph.tensors[u.tensor].bytes;
                if (bytes >= below) sum += round_up(bytes, chunk);
            }
            most = std::max(most, sum);
        }
        const std::int64_t room = (limit_bytes - arena_total) / chunk * chunk;
        return arena_total > limit_bytes || most > room
                   ? std::max<std::int64_t>(1, arena_total + most - limit_bytes)
                   : 0;
    };
    std::int64_t below = options.arena_below_bytes;
    double best = 0;
    auto consider = [&](std::int64_t chunk) {
        for (std::int64_t candidate = 0; candidate <= chunk;
             candidate = std::max(arena_grain, 2 * candidate)) {
            const std::int64_t least = std::max(candidate, options.arena_below_bytes);
            const double s = score(least, chunk);
            // A smaller chunk, or more in the arena, has to be worth it.
            if (chunk_bytes == 0 || lack_bytes_ > 0 || s < best - 0.002 * static_cast<double>(limit_bytes) ||
                (chunk == chunk_bytes && s < best)) {
                const std::int64_t lacking = lack(least, chunk);
                if (chunk_bytes > 0 &&
                    (lacking > lack_bytes_ || (lacking > 0 && lacking == lack_bytes_ && s >= best)))
                    continue;
                lack_bytes_ = lacking;
                best = s;
                below = least;
                chunk_bytes = chunk;
            }
            if (!options.choose_arena) break;
        }
    };
    chunk_bytes = 0;
    if (options.chunk_bytes > largest_chunk)
        throw PlanError("pieces of " + std::to_string(options.chunk_bytes) +
                        " bytes are too large: at most " + std::to_string(largest_chunk));
    if (options.chunk_bytes > 0) {
        consider(options.chunk_bytes);
    } else {
        std::int64_t chunk = std::int64_t{2} << 20;  // the granularity of device mappings
        while (chunk > 1 && limit_bytes / chunk < 2048) chunk /= 2;
        while (limit_bytes / chunk > 65536) chunk *= 2;
        for (; chunk >= 1 && limit_bytes / chunk <= 65536; chunk /= 2) {
            consider(chunk);
            if (chunk == 1) break;
        }
    }
    size.assign(tensors, 0);
    for (std::size_t t = 0; t < tensors; ++t) {
        const Tensor& tensor = graph.tensors[t];
        if (tensor.bytes < options.arena_below_bytes ||
            (first[t] >= 0 && (tensor.bytes < below || tensor.bytes == 0))) {
            arena.push_back(static_cast<TensorId>(t));
            arena_bytes += round_up(tensor.bytes, arena_grain);
        } else if (first[t] >= 0) {
            size[t] = static_cast<std::int32_t>(
                std::min<std::int64_t>(round_up(tensor.bytes, chunk_bytes) / chunk_bytes, 2 * most_chunks));
        }
    }
    if (arena_bytes > limit_bytes)
        throw LimitError("tensors smaller than " + std::to_string(below) + " bytes stay resident and take " +
                             std::to_string(arena_bytes) + " bytes, more than the limit of " +
                             std::to_string(limit_bytes) + " bytes: give it at least " +
                             std::to_string(limit_bytes + lack_bytes_),
                         limit_bytes + lack_bytes_);
    const std::int64_t pieces = (limit_bytes - arena_bytes) / chunk_bytes;
    if (pieces > most_chunks)
        throw PlanError("pieces of " + std::to_string(chunk_bytes) + " bytes are too small for " +
                        std::to_string(limit_bytes) + " bytes: choose at least " +
                        std::to_string(limit_bytes / most_chunks + 1));
    chunks = static_cast<std::int32_t>(pieces);
}

void Problem::check_working_sets() const {
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const auto op = static_cast<OpId>(i);
        std::int64_t total = 0, bytes = 0;
        for (const Use& u : uses(op)) {
            total += size[u.tensor];
            bytes += graph.tensors[u.tensor].bytes;
        }
        if (total > chunks)
            throw LimitError(op_text(graph, op) + " touches " + std::to_string(bytes) + " bytes at once (" +
                                 std::to_string(total * chunk_bytes) + " in chunks of " +
                                 std::to_string(chunk_bytes) + "), but the limit of " +
                                 std::to_string(limit_bytes) + " bytes leaves " +
                                 std::to_string(std::int64_t{chunks} * chunk_bytes) +
                                 " beside the resident small tensors: give it at least " +
                                 std::to_string(limit_bytes + lack_bytes_),
                             limit_bytes + lack_bytes_);
    }
}

std::int64_t least_limit_bytes(const Graph& graph, PlanOptions options) {
    options.limit_bytes = std::max<std::int64_t>(1, least_memory_bytes(graph));
    for (int round = 0; round < 20; ++round) {
        if (options.limit_bytes > graph.device.memory_bytes) break;
        try {
            const Problem problem(graph, options);
            break;
        } catch (const LimitError& error) {  // another limit may have other chunks
            options.limit_bytes = std::max(options.limit_bytes + 1, error.needed_bytes);
        }
    }
    return options.limit_bytes;
}

}  // namespace swapadvisor::planner
