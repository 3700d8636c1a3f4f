#include "recorder/iteration_report.h"

#include <algorithm>
#include <map>

#include "recorder/history.h"
#include "recorder/names.h"
#include "recorder/report_stalls.h"

namespace swapadvisor {
namespace {

using Index = std::size_t;

// When each op starts and ends, stalls before it included.
std::int64_t lay_out_ops(ReportModel& m, const Iteration& it, const GraphNames& names,
                         const IterationTraffic& traffic) {
    std::int64_t now = 0;
    for (Index i = 0; i < it.ops.size(); ++i) {
        const OpRecord& op = it.ops[i];
        ReportModel::OpRow row;
        row.op = static_cast<std::int64_t>(i);
        const std::string range = range_display_name(op.range, names);
        row.name = (range.empty() ? "" : range + ": ") + short_function_name(op_display_name(op, names));
        row.stream = op.stream;
        row.duration_ns = op_duration_or_estimate(it, op, m.device);
        for (const OpRecord::Use& use : op.uses)
            row.touched_bytes =
                wrapping_add(row.touched_bytes, it.tensors[static_cast<Index>(use.tensor)].bytes);
        if (i < traffic.stall_ns.size()) row.stall_ns = traffic.stall_ns[i];
        row.start_ns = wrapping_add(now, row.stall_ns);
        now = wrapping_add(row.start_ns, row.duration_ns);
        m.ops.push_back(std::move(row));
    }
    return now;
}

constexpr Index kMostUses = 200;

/// The program knows what lies in a page, not the page.
std::int64_t own_bytes(const TensorRecord& t) {
    return t.paged && !t.small ? 0 : t.bytes;
}

std::int64_t transfer_ns(const DeviceModel& device, SwapKind kind, std::int64_t bytes) {
    const std::int64_t rate = kind == SwapKind::in ? device.h2d_bytes_per_s : device.d2h_bytes_per_s;
    if (kind == SwapKind::drop) return 0;
    if (rate <= 0) return 0;
    return device.transfer_latency_ns +
           static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(rate));
}

// Which op an arrival is for: the next one that uses the tensor, in this iteration or the next.
class NextUses {
  public:
    explicit NextUses(const Iteration& it) : uses_(it.tensors.size()) {
        for (Index op = 0; op < it.ops.size(); ++op)
            for (const OpRecord::Use& use : it.ops[op].uses)
                uses_[static_cast<Index>(use.tensor)].push_back(static_cast<std::int64_t>(op));
    }
    std::int64_t after(std::int32_t tensor, std::int64_t op) const {
        if (tensor < 0) return op;
        const auto& uses = uses_[static_cast<Index>(tensor)];
        if (uses.empty()) return op;
        const auto next = std::lower_bound(uses.begin(), uses.end(), op);
        return next == uses.end() ? uses.front() : *next;
    }

  private:
    std::vector<std::vector<std::int64_t>> uses_;
};

}  // namespace

void merge_and_sort(std::vector<ReportModel::PeakEntry>& peak) {
    std::map<std::pair<std::string, bool>, ReportModel::PeakEntry> merged;
    for (const ReportModel::PeakEntry& entry : peak) {
        ReportModel::PeakEntry& total = merged[{entry.site, entry.persistent}];
        total.site = entry.site;
        total.persistent = entry.persistent;
        total.buffers += entry.buffers;
        total.bytes = wrapping_add(total.bytes, entry.bytes);
    }
    peak.clear();
    for (auto& [key, entry] : merged) peak.push_back(std::move(entry));
    std::stable_sort(peak.begin(), peak.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

void fill_iteration(ReportModel& m, const Iteration& it, const GraphNames& names,
                    const IterationTraffic& traffic) {
    const std::int64_t end = lay_out_ops(m, it, names, traffic);
    m.ops_per_iteration = static_cast<std::int64_t>(it.ops.size());
    m.infinite_ns_per_iteration = 0;
    m.stall_ns_per_iteration = 0;
    for (const ReportModel::OpRow& op : m.ops) {
        m.infinite_ns_per_iteration = wrapping_add(m.infinite_ns_per_iteration, op.duration_ns);
        m.stall_ns_per_iteration = wrapping_add(m.stall_ns_per_iteration, op.stall_ns);
    }
    // The start of the op that comes at or after each event.
    const auto op_time = [&](std::int64_t op) {
        return op < m.ops_per_iteration ? m.ops[static_cast<Index>(op)].start_ns : end;
    };

    for (Index t = 0; t < it.tensors.size(); ++t) {
        const TensorRecord& tensor = it.tensors[t];
        ReportModel::BufferRow row;
        row.tensor = static_cast<std::int64_t>(t);
        row.name = tensor_display_name(it, t, names);
        if (names.site_name && tensor.site) row.site = names.site_name(tensor.site);
        row.bytes = tensor.bytes;
        row.persistent = tensor.persistent;
        row.page = tensor.paged && !tensor.small;
        row.dead_ns = end;
        m.buffers.push_back(std::move(row));
    }
    for (Index op = 0; op < it.ops.size(); ++op)
        for (const OpRecord::Use& use : it.ops[op].uses) {
            auto& uses = m.buffers[static_cast<Index>(use.tensor)].uses;
            const auto now = static_cast<std::int64_t>(op);
            if (uses.size() < kMostUses && (uses.empty() || uses.back() != now)) uses.push_back(now);
        }
    const NextUses next_uses(it);
    std::vector<std::int64_t> swap_delta(it.ops.size() + 1, 0);  // change of swapped bytes before each op
    m.in_bytes_per_iteration = 0;
    m.out_bytes_per_iteration = 0;
    std::int64_t in_free = 0, out_free = 0;  // each direction is a queue
    for (const IterationTraffic::Swap& swap : traffic.swaps) {
        const bool in = swap.kind == SwapKind::in;
        ReportModel::OpRow& op = m.ops[static_cast<Index>(swap.op)];
        ReportModel::SwapRow row;
        row.tensor = swap.tensor;
        row.name =
            swap.tensor < 0 ? "(not used in the iteration)" : m.buffers[static_cast<Index>(swap.tensor)].name;
        row.bytes = swap.bytes;
        row.after_op = swap.op - 1;
        if (in) row.before_op = next_uses.after(swap.tensor, swap.op);
        row.start_ns = op.start_ns - op.stall_ns;
        if (swap.kind != SwapKind::drop) {
            std::int64_t& free = in ? in_free : out_free;
            row.start_ns = std::max(row.start_ns, free);
            free = wrapping_add(row.start_ns, transfer_ns(m.device, swap.kind, swap.bytes));
            row.end_ns = free;
        } else {
            row.end_ns = row.start_ns;
        }
        row.kind = in ? "in" : swap.kind == SwapKind::out ? "out" : "drop";
        if (in) {
            ReportModel::OpRow& user = m.ops[static_cast<Index>(row.before_op)];
            user.in_bytes = wrapping_add(user.in_bytes, swap.bytes);
            m.in_bytes_per_iteration = wrapping_add(m.in_bytes_per_iteration, swap.bytes);
        } else if (swap.kind == SwapKind::out) {
            op.out_bytes = wrapping_add(op.out_bytes, swap.bytes);
            m.out_bytes_per_iteration = wrapping_add(m.out_bytes_per_iteration, swap.bytes);
        }
        auto& delta = swap_delta[static_cast<Index>(swap.op)];
        delta = wrapping_add(delta, in ? -swap.bytes : swap.bytes);
        m.swaps.push_back(std::move(row));
    }

    // Walk the events: live bytes before each op. What is swapped out at the start follows from the least it
    // may be.
    std::int64_t live = 0;
    for (const TensorRecord& t : it.tensors)
        if (t.persistent || (t.birth_event >= 0 && t.death_event >= 0 && t.death_event < t.birth_event))
            live = wrapping_add(live, own_bytes(t));
    std::int64_t swapped = 0, least = 0;
    for (const std::int64_t delta : swap_delta)
        least = std::min(least, swapped = wrapping_add(swapped, delta));
    swapped = wrapping_add(0, -least);
    std::int64_t op = 0;
    std::int64_t peak = 0;
    for (const IterationEvent& event : it.events) {
        const auto t = static_cast<Index>(event.index);
        if (event.kind == EventKind::allocate) {
            live = wrapping_add(live, own_bytes(it.tensors[t]));
            m.buffers[t].born_ns = op_time(op);
        } else if (event.kind == EventKind::release) {
            live = wrapping_add(live, -own_bytes(it.tensors[t]));
            m.buffers[t].dead_ns = op_time(op);
        } else {
            swapped = wrapping_add(swapped, swap_delta[static_cast<Index>(op)]);
            const std::int64_t away = std::clamp<std::int64_t>(swapped, 0, std::max<std::int64_t>(live, 0));
            m.timeline.push_back({op_time(op), live, live - away, away, away});
            if (live > peak) {
                peak = live;
                m.peak_op = op;
                m.peak_op_name = m.ops[static_cast<Index>(op)].name;
            }
            ++op;
        }
    }
    m.timeline.push_back(
        {end, live, live - std::clamp<std::int64_t>(swapped, 0, std::max<std::int64_t>(live, 0)), 0, 0});
    ReportModel::Sample& last = m.timeline.back();
    last.swapped_bytes = last.pinned_bytes = last.live_bytes - last.resident_bytes;
    explain_stalls(m);
}

}  // namespace swapadvisor
