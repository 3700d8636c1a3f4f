#include "recorder/run_summary.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "recorder/feed.h"
#include "recorder/record.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kMaxLoops = 64;
constexpr std::size_t kMaxEscaped = 1 << 18;
constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << 60) - 1;  // what a file claims may be anything

void add(std::int64_t& sum, std::int64_t value) {
    if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<std::int64_t>::max();
}

std::string site_name(const GraphNames& names, std::uint64_t site) {
    return site != 0 && names.site_name ? names.site_name(site) : "";
}

}  // namespace

RunSummary::RunSummary(IterationFinder& finder, std::size_t history)
    : finder_(finder), swaps_(history), stalls_(history), host_ns_(history) {
    finder_.on_loop_end = [this](std::shared_ptr<Iteration> newest, std::uint64_t ops) {
        loop_ended(newest, ops);
    };
}

void RunSummary::record(const std::uint64_t* words) {
    switch (record_type(words[0])) {
        case RecordType::allocate:
        case RecordType::release:
            follow_events();
            break;
        case RecordType::op:
            next_event_ = finder_.history().events.end();
            host_ns_.push(words[6]);
            course_.op(words[6]);
            break;
        case RecordType::swap:
            swap(words);
            break;
        case RecordType::stall:
            stalls_.push({words[1], static_cast<std::int64_t>(words[2])});
            course_.stalled(static_cast<std::int64_t>(words[2]));
            break;
        case RecordType::figure:
            figure(words);
            break;
        case RecordType::text:
            if (static_cast<TextKind>(record_flag(words[0])) == TextKind::escape) escape(words);
            break;
        case RecordType::duration:
        case RecordType::content:
        case RecordType::mark:
        case RecordType::device:
        case RecordType::range:
            break;
    }
}

// --- what the program holds
// -------------------------------------------------------------------------------------

// The history knows each buffer: what it has noted since the last record.
void RunSummary::follow_events() {
    const History& history = finder_.history();
    for (; next_event_ < history.events.end(); ++next_event_) {
        const EventHistory& event = history.events[next_event_];
        if (event.kind == EventKind::allocate) allocated(event.slot);
        if (event.kind == EventKind::release) released(event.slot);
    }
}

// The program knows what lies in it instead.
bool RunSummary::is_page(const BufferHistory& buffer) {
    return buffer.paged && !buffer.small;
}

void RunSummary::allocated(BufferSlot slot) {
    const BufferHistory& buffer = finder_.history().buffers[slot];
    if (is_page(buffer)) return;
    ++allocations_;
    ++live_buffers_;
    if (slot >= state_.size()) state_.resize(finder_.history().buffers.size());
    state_[slot] = kAnnounced;
    live_bytes_ = wrapping_add(live_bytes_, buffer.bytes);
    course_.allocated(buffer.site, buffer.bytes);
    SiteTotal& total = by_site_[buffer.site];
    ++total.buffers;
    total.bytes = wrapping_add(total.bytes, buffer.bytes);
    if (live_bytes_ > peak_bytes_) {
        peak_bytes_ = live_bytes_;
        peak_is_noted_ = false;
    }
}

void RunSummary::released(BufferSlot slot) {
    if (slot >= state_.size() || state_[slot] == 0) return;  // was used without having been announced
    if (!peak_is_noted_) note_peak();
    const BufferHistory& buffer = finder_.history().buffers[slot];
    --live_buffers_;
    live_bytes_ = wrapping_add(live_bytes_, -buffer.bytes);
    if (state_[slot] & kAbsent) {
        absent_bytes_ = wrapping_add(absent_bytes_, -buffer.bytes);
        course_.absent(-buffer.bytes);
    }
    course_.released(buffer.site, buffer.bytes);
    state_[slot] = 0;
    SiteTotal& total = by_site_[buffer.site];
    total.bytes = wrapping_add(total.bytes, -buffer.bytes);
    if (--total.buffers == 0) by_site_.erase(buffer.site);
}

void RunSummary::escape(const std::uint64_t* words) {
    const BufferSlot* slot = finder_.history().live_slot(words[1]);
    if (!slot || escaped_.size() >= kMaxEscaped) return;
    const BufferHistory& buffer = finder_.history().buffers[*slot];
    escaped_[words[1]] = {buffer.bytes, buffer.site, std::string(text_of_record(words))};
}

// The set at the peak is taken when the first buffer after it goes: once per new maximum.
void RunSummary::note_peak() {
    if (peak_is_noted_) return;
    peak_is_noted_ = true;
    at_peak_ = by_site_;
    peak_seq_ = finder_.history().op_count();
}

// --- what the runtime did
// ---------------------------------------------------------------------------------------

void RunSummary::swap(const std::uint64_t* words) {
    SwapSeen seen;
    seen.buffer = words[1];
    seen.bytes = static_cast<std::int64_t>(words[2]);
    seen.seq = words[3];
    seen.kind = static_cast<SwapKind>(record_flag(words[0]) / 2);
    swaps_.push(seen);
    if (seen.kind == SwapKind::in) add(in_total_, seen.bytes);
    if (seen.kind == SwapKind::out) add(out_total_, seen.bytes);
    course_.copied(seen.kind == SwapKind::in ? seen.bytes : 0, seen.kind == SwapKind::out ? seen.bytes : 0);
    drops_ += seen.kind == SwapKind::drop;
    any_swap_ = true;
    const BufferSlot* slot = finder_.history().live_slot(seen.buffer);
    if (!slot || *slot >= state_.size() || state_[*slot] == 0) return;
    const std::int64_t bytes = finder_.history().buffers[*slot].bytes;
    const std::uint8_t now = seen.kind == SwapKind::in ? kAnnounced : kAnnounced | kAbsent;
    if (now != state_[*slot]) {
        absent_bytes_ = wrapping_add(absent_bytes_, now & kAbsent ? bytes : -bytes);
        course_.absent(now & kAbsent ? bytes : -bytes);
    }
    state_[*slot] = now;
    peak_resident_ = std::max(peak_resident_, wrapping_add(live_bytes_, -absent_bytes_));
}

void RunSummary::figure(const std::uint64_t* words) {
    const auto value = static_cast<std::int64_t>(words[1]);
    switch (static_cast<FigureKind>(record_flag(words[0]))) {
        case FigureKind::predicted_ns:
            predicted_ns_ = value;
            course_.plan_began();
            measured_ns_ = kUnknown;  // of what came before the plan
            break;
        case FigureKind::measured_ns:
            measured_ns_ = value;
            break;
        case FigureKind::lower_bound_ns:
            lower_bound_ns_ = value;
            break;
    }
}

// --- loops
// ------------------------------------------------------------------------------------------------------

void RunSummary::loop_ended(const std::shared_ptr<Iteration>& newest, std::uint64_t ops) {
    Loop& loop = loops_[newest->signature];
    loop.newest = newest;
    loop.ops += ops;
    if (loops_.size() > kMaxLoops) {  // keep the weightiest
        auto least = loops_.begin();
        for (auto l = loops_.begin(); l != loops_.end(); ++l)
            if (weight(l->second) < weight(least->second)) least = l;
        loops_.erase(least);
    }
}

double RunSummary::weight(const Loop& loop) {
    return static_cast<double>(loop.ops) * (1.0 + static_cast<double>(loop.newest->peak_live_bytes));
}

std::shared_ptr<const Iteration> RunSummary::main_loop(std::int64_t& instances) {
    finder_.finish();
    note_peak();
    const Loop* best = nullptr;
    for (const auto& [signature, loop] : loops_)
        if (!best || weight(loop) > weight(*best)) best = &loop;
    instances = 0;
    if (!best) return nullptr;
    auto iteration = std::make_shared<Iteration>(*best->newest);
    fill_measured(finder_.history(), *iteration);
    instances = static_cast<std::int64_t>(best->ops / iteration->ops.size());
    return iteration;
}

IterationTraffic RunSummary::traffic_of(const Iteration& it, bool& stalls_known) const {
    IterationTraffic traffic;
    std::unordered_map<BufferId, std::int32_t> tensor_of;
    for (std::size_t t = 0; t < it.tensors.size(); ++t)
        tensor_of[it.tensors[t].observed] = static_cast<std::int32_t>(t);
    const auto inside = [&](std::uint64_t seq) {
        return seq >= it.first_seq && seq < it.first_seq + it.ops.size();
    };
    for (std::uint64_t s = swaps_.first(); s < swaps_.end(); ++s) {
        const SwapSeen& swap = swaps_[s];
        if (!inside(swap.seq)) continue;
        const auto tensor = tensor_of.find(swap.buffer);
        traffic.swaps.push_back({tensor == tensor_of.end() ? -1 : tensor->second, swap.kind, swap.bytes,
                                 static_cast<std::int64_t>(swap.seq - it.first_seq)});
    }
    traffic.stall_ns.assign(it.ops.size(), 0);
    stalls_known = stalls_.end() > 0;
    for (std::uint64_t s = stalls_.first(); s < stalls_.end(); ++s)
        if (inside(stalls_[s].seq)) traffic.stall_ns[stalls_[s].seq - it.first_seq] = stalls_[s].ns;
    return traffic;
}

// --- the model
// --------------------------------------------------------------------------------------------------

void RunSummary::fill_peak(ReportModel& m, const GraphNames& names) const {
    at_peak_.for_each([&](std::uint64_t site, const SiteTotal& total) {
        m.peak.push_back({site_name(names, site), total.buffers, total.bytes, false});
    });
    merge_and_sort(m.peak);
}

void RunSummary::fill_unmovable(ReportModel& m, const GraphNames& names) const {
    std::map<std::pair<std::string, std::string>, SiteTotal> unmovable;
    for (const auto& [id, escaped] : escaped_) {
        SiteTotal& total = unmovable[{site_name(names, escaped.site), escaped.reason}];
        ++total.buffers;
        add(total.bytes, escaped.bytes);
    }
    for (const auto& [key, total] : unmovable)
        m.unmovable.push_back({key.first, key.second, total.buffers, total.bytes});
    std::stable_sort(m.unmovable.begin(), m.unmovable.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

void RunSummary::fill(ReportModel& m, const Iteration* iteration, std::int64_t instances,
                      const GraphNames& names) {
    m.peak_bytes = peak_bytes_;
    if (any_swap_) {
        m.peak_resident_bytes = peak_resident_;
        m.in_bytes_total = in_total_;
        m.out_bytes_total = out_total_;
        m.clean_drops = drops_;
    }
    fill_peak(m, names);
    fill_unmovable(m, names);
    m.iterations = instances;
    m.predicted_ns = predicted_ns_;
    m.lower_bound_ns = lower_bound_ns_;
    course_.fill(m, iteration ? static_cast<std::int64_t>(iteration->ops.size()) : 0,
                 [&](std::uint64_t site) { return site_name(names, site); });
    if (!iteration) return;
    const Iteration& it = *iteration;
    bool stalls_known = false;
    fill_iteration(m, it, names, traffic_of(it, stalls_known));
    if (it.first_seq <= peak_seq_ && peak_seq_ < finder_.history().op_count()) {
        const std::uint64_t position = (peak_seq_ - it.first_seq) % it.ops.size();
        m.peak_op = static_cast<std::int64_t>(position);
        m.peak_op_name = m.ops[position].name;
    }
    if (!stalls_known) m.stall_ns_per_iteration = kUnknown;
    m.measured_ns_per_iteration = measured_ns_;
    if (measured_ns_ == kUnknown && stalls_known) {
        m.measured_ns_per_iteration = m.infinite_ns_per_iteration;
        add(m.measured_ns_per_iteration, m.stall_ns_per_iteration);
    }
    const std::uint64_t last = it.first_seq + it.ops.size();
    if (host_ns_.has(it.first_seq) && host_ns_.has(last) && host_ns_[last] >= host_ns_[it.first_seq])
        m.host_ns_per_iteration =
            static_cast<std::int64_t>((host_ns_[last] - host_ns_[it.first_seq]) & kTimeMask);
    if (!any_swap_) {
        m.in_bytes_per_iteration = 0;
        m.out_bytes_per_iteration = 0;
    }
}

}  // namespace swapadvisor
