#include "recorder/trace_analysis.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include "recorder/feed.h"
#include "recorder/iteration_finder.h"
#include "recorder/iteration_report.h"
#include "recorder/trace_reader.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kMaxLiveBuffers = 1 << 20;
constexpr std::size_t kMaxTexts = 1 << 18;
constexpr std::size_t kMaxTextMemory = std::size_t{64} << 20;
constexpr std::size_t kHistoryOps = 1 << 17;
constexpr std::size_t kSwapHistory = 1 << 17;

void add(std::int64_t& sum, std::int64_t value) {
    if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<std::int64_t>::max();
}

std::string demangled(std::string_view name) {
    // The demangler is no place for hostile names: only what looks like one, and of a sane length.
    const std::string text(name);
    if (text.rfind("_Z", 0) != 0 || text.size() > 2000) return text;
    int status = 0;
    char* plain = abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status);
    if (!plain) return text;
    std::string result(plain);
    std::free(plain);
    return result;
}

class Analyser {
  public:
    explicit Analyser(const AnalysisOptions& options)
        : options_(options), finder_(kHistoryOps), swaps_(kSwapHistory), host_ns_(kHistoryOps) {
        finder_.on_loop_end = [this](std::shared_ptr<Iteration> newest, std::uint64_t ops) {
            loop_ended(newest, ops);
        };
    }

    void record(const std::uint64_t* words, std::size_t count) {
        ++result_.events;
        feed(finder_, words, count, touches_);
        switch (record_type(words[0])) {
            case RecordType::allocate:
                allocate(words);
                break;
            case RecordType::release:
                release(words[1]);
                break;
            case RecordType::op:
                host_ns_.push(words[6]);
                break;
            case RecordType::swap:
                swap(words);
                break;
            case RecordType::stall:
                has_stalls_ = true;
                stalls_[words[1]] = static_cast<std::int64_t>(words[2]);
                if (stalls_.size() > kSwapHistory) stalls_.erase(stalls_.begin());
                break;
            case RecordType::text:
                text(words);
                break;
            case RecordType::device:
                device(words);
                break;
            case RecordType::duration:
            case RecordType::range:
            case RecordType::mark:
                break;
        }
    }

    TraceAnalysis finish(const std::string& path) {
        finder_.finish();
        result_.ops = finder_.history().op_count();
        note_peak();
        choose_loop();
        fill_model(path);
        return std::move(result_);
    }

  private:
    struct Live {
        std::int64_t bytes = 0;
        std::uint64_t site = 0;
        bool absent = false;
    };
    struct SiteTotal {
        std::int64_t buffers = 0, bytes = 0;
    };
    struct SwapSeen {
        BufferId buffer = kNoBuffer;
        std::int64_t bytes = 0;
        std::uint64_t seq = 0;
        SwapKind kind = SwapKind::in;
        bool planned = false;
    };
    struct Loop {
        std::shared_ptr<Iteration> newest;
        std::uint64_t ops = 0;
    };

    void allocate(const std::uint64_t* words) {
        ++result_.allocations;
        if (live_.size() >= kMaxLiveBuffers)
            throw TraceError(
                "the trace has more than a million live buffers at once: it is damaged, record it anew");
        const auto bytes = static_cast<std::int64_t>(words[2]);
        release(words[1]);
        live_[words[1]] = {bytes, words[3], false};
        live_bytes_ = wrapping_add(live_bytes_, bytes);
        SiteTotal& total = by_site_[words[3]];
        ++total.buffers;
        total.bytes = wrapping_add(total.bytes, bytes);
        if (live_bytes_ > peak_bytes_) {
            peak_bytes_ = live_bytes_;
            peak_is_noted_ = false;
        }
    }

    void release(BufferId id) {
        const Live* found = live_.find(id);
        if (!found) return;
        if (!peak_is_noted_) note_peak();
        const Live buffer = *found;
        live_bytes_ = wrapping_add(live_bytes_, -buffer.bytes);
        if (buffer.absent) absent_bytes_ = wrapping_add(absent_bytes_, -buffer.bytes);
        const auto total = by_site_.find(buffer.site);
        --total->second.buffers;
        total->second.bytes = wrapping_add(total->second.bytes, -buffer.bytes);
        if (total->second.buffers == 0) by_site_.erase(total);
        live_.erase(id);
    }

    // The set at the peak is taken when the first buffer after it goes: once per new maximum.
    void note_peak() {
        if (peak_is_noted_) return;
        peak_is_noted_ = true;
        at_peak_ = by_site_;
        peak_seq_ = finder_.history().op_count();
    }

    void swap(const std::uint64_t* words) {
        SwapSeen seen;
        seen.buffer = words[1];
        seen.bytes = static_cast<std::int64_t>(words[2]);
        seen.seq = words[3];
        seen.kind = static_cast<SwapKind>(record_flag(words[0]) / 2);
        seen.planned = record_flag(words[0]) % 2;
        swaps_.push(seen);
        if (seen.kind == SwapKind::in) add(in_total_, seen.bytes);
        if (seen.kind == SwapKind::out) add(out_total_, seen.bytes);
        drops_ += seen.kind == SwapKind::drop;
        any_swap_ = true;
        Live* found = live_.find(seen.buffer);
        if (!found) return;
        const bool absent = seen.kind != SwapKind::in;
        if (absent != found->absent)
            absent_bytes_ = wrapping_add(absent_bytes_, absent ? found->bytes : -found->bytes);
        found->absent = absent;
        peak_resident_ = std::max(peak_resident_, wrapping_add(live_bytes_, -absent_bytes_));
    }

    void text(const std::uint64_t* words) {
        const std::string_view text = text_of_record(words);
        const std::uint64_t id = words[1];
        text_memory_ += text.size() + 64;
        if (text_memory_ > kMaxTextMemory) return;
        switch (static_cast<TextKind>(record_flag(words[0]))) {
            case TextKind::function:
                result_.functions[id] = demangled(text);
                break;
            case TextKind::site:
                result_.sites[id] =
                    options_.resolve_site ? options_.resolve_site(std::string(text)) : std::string(text);
                break;
            case TextKind::range:
                result_.ranges[id] = std::string(text);
                break;
            case TextKind::buffer:
                result_.buffers[id] = std::string(text);
                break;
            case TextKind::program:
                result_.program = std::string(text);
                result_.pid = static_cast<std::int64_t>(id & 0xFFFFFFFF);
                break;
            case TextKind::device:
                result_.device.name = std::string(text);
                break;
            case TextKind::escape:
                if (const Live* found = live_.find(id); found && escaped_.size() < kMaxTexts)
                    escaped_[id] = {*found, std::string(text)};
                break;
        }
    }

    void device(const std::uint64_t* words) {
        DeviceModel& d = result_.device;
        const auto number = [&](int i) { return static_cast<std::int64_t>(words[i]); };
        d.memory_bytes = number(1);
        d.h2d_bytes_per_s = number(2);
        d.d2h_bytes_per_s = number(3);
        d.duplex_bytes_per_s = number(4);
        d.transfer_latency_ns = number(5);
        result_.limit_bytes = number(6) > 0 ? number(6) : kUnknown;
    }

    void loop_ended(const std::shared_ptr<Iteration>& newest, std::uint64_t ops) {
        Loop& loop = loops_[newest->signature];
        loop.newest = newest;
        loop.ops += ops;
        if (loops_.size() > 64) {  // keep the weightiest
            auto least = loops_.begin();
            for (auto l = loops_.begin(); l != loops_.end(); ++l)
                if (weight(l->second) < weight(least->second)) least = l;
            loops_.erase(least);
        }
    }
    static double weight(const Loop& loop) {
        return static_cast<double>(loop.ops) * (1.0 + static_cast<double>(loop.newest->peak_live_bytes));
    }

    void choose_loop() {
        const Loop* best = nullptr;
        for (const auto& [signature, loop] : loops_)
            if (!best || weight(loop) > weight(*best)) best = &loop;
        if (!best) return;
        auto iteration = std::make_shared<Iteration>(*best->newest);
        fill_durations(finder_.history(), *iteration);
        result_.instances = static_cast<std::int64_t>(best->ops / iteration->ops.size());
        result_.iteration = iteration;
    }

    void fill_model(const std::string& path);
    void fill_iteration_swaps(IterationTraffic& traffic) const;

    const AnalysisOptions& options_;
    TraceAnalysis result_;
    IterationFinder finder_;
    std::vector<Touch> touches_;
    FlatMap<Live> live_;
    std::unordered_map<std::uint64_t, SiteTotal> by_site_, at_peak_;
    std::int64_t live_bytes_ = 0, peak_bytes_ = 0, absent_bytes_ = 0, peak_resident_ = 0;
    std::uint64_t peak_seq_ = 0;
    bool peak_is_noted_ = true;
    struct Escaped {
        Live buffer;
        std::string reason;
    };
    std::map<BufferId, Escaped> escaped_;
    Ring<SwapSeen> swaps_;
    std::map<std::uint64_t, std::int64_t> stalls_;
    Ring<std::uint64_t> host_ns_;
    std::int64_t in_total_ = 0, out_total_ = 0, drops_ = 0;
    bool any_swap_ = false, has_stalls_ = false;
    std::size_t text_memory_ = 0;
    std::map<std::uint64_t, Loop> loops_;
};

void Analyser::fill_iteration_swaps(IterationTraffic& traffic) const {
    const Iteration& it = *result_.iteration;
    std::unordered_map<BufferId, std::int32_t> tensor_of;
    for (std::size_t t = 0; t < it.tensors.size(); ++t)
        tensor_of[it.tensors[t].observed] = static_cast<std::int32_t>(t);
    for (std::uint64_t s = swaps_.first(); s < swaps_.end(); ++s) {
        const SwapSeen& swap = swaps_[s];
        if (swap.seq < it.first_seq || swap.seq >= it.first_seq + it.ops.size()) continue;
        const auto tensor = tensor_of.find(swap.buffer);
        traffic.swaps.push_back({tensor == tensor_of.end() ? -1 : tensor->second, swap.kind, swap.bytes,
                                 static_cast<std::int64_t>(swap.seq - it.first_seq)});
    }
    traffic.stall_ns.assign(it.ops.size(), 0);
    for (auto s = stalls_.lower_bound(it.first_seq);
         s != stalls_.end() && s->first < it.first_seq + it.ops.size(); ++s)
        traffic.stall_ns[s->first - it.first_seq] = s->second;
}

void Analyser::fill_model(const std::string& path) {
    ReportModel& m = result_.model;
    m.source = "trace";
    m.program = result_.program.empty() ? path : result_.program;
    m.pid = result_.pid;
    m.device = result_.device;
    m.limit_bytes = result_.limit_bytes;
    m.peak_bytes = peak_bytes_;
    if (any_swap_) {
        m.peak_resident_bytes = peak_resident_;
        m.in_bytes_total = in_total_;
        m.out_bytes_total = out_total_;
        m.clean_drops = drops_;
    }
    const auto site_name = [&](std::uint64_t site) {
        const auto found = result_.sites.find(site);
        return found == result_.sites.end() ? std::string() : found->second;
    };
    for (const auto& [site, total] : at_peak_)
        m.peak.push_back({site_name(site), total.buffers, total.bytes, false});
    merge_and_sort(m.peak);

    std::map<std::pair<std::string, std::string>, SiteTotal> unmovable;
    for (const auto& [id, escaped] : escaped_) {
        SiteTotal& total = unmovable[{site_name(escaped.buffer.site), escaped.reason}];
        ++total.buffers;
        add(total.bytes, escaped.buffer.bytes);
    }
    for (const auto& [key, total] : unmovable)
        m.unmovable.push_back({key.first, key.second, total.buffers, total.bytes});
    std::stable_sort(m.unmovable.begin(), m.unmovable.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });

    if (!result_.iteration) {
        m.iterations = 0;
        m.notes.push_back("No repeating iteration was found in " + std::to_string(result_.ops) +
                          " operations: run longer, or mark iterations with swapadvisor_iteration().");
        return;
    }
    const Iteration& it = *result_.iteration;
    m.iterations = result_.instances;
    IterationTraffic traffic;
    fill_iteration_swaps(traffic);
    fill_iteration(m, it, result_.names(), traffic);
    if (it.first_seq <= peak_seq_ && peak_seq_ < result_.ops) {
        const std::uint64_t position = (peak_seq_ - it.first_seq) % it.ops.size();
        m.peak_op = static_cast<std::int64_t>(position);
        m.peak_op_name = m.ops[position].name;
    }
    if (has_stalls_) {
        m.measured_ns_per_iteration = m.infinite_ns_per_iteration;
        add(m.measured_ns_per_iteration, m.stall_ns_per_iteration);
    } else {
        m.stall_ns_per_iteration = kUnknown;
    }
    const std::uint64_t last = it.first_seq + it.ops.size();
    if (host_ns_.has(it.first_seq) && host_ns_.has(last) && host_ns_[last] >= host_ns_[it.first_seq])
        m.host_ns_per_iteration = static_cast<std::int64_t>((host_ns_[last] - host_ns_[it.first_seq]) &
                                                            ((std::uint64_t{1} << 60) - 1));
    if (!any_swap_) {
        m.in_bytes_per_iteration = 0;
        m.out_bytes_per_iteration = 0;
    }
}

}  // namespace

GraphNames TraceAnalysis::names() const {
    GraphNames names;
    names.graph = program.empty() ? "trace" : program;
    names.source = "recorded by swapadvisor";
    const auto from = [](const auto& map) {
        return [&map](std::uint64_t id) {
            const auto found = map.find(id);
            return found == map.end() ? std::string() : found->second;
        };
    };
    names.function_name = from(functions);
    names.site_name = from(sites);
    names.buffer_name = from(buffers);
    names.range_name = from(ranges);
    return names;
}

TraceAnalysis analyse_trace(const std::string& path, const AnalysisOptions& options) {
    TraceReader reader(path);
    Analyser analyser(options);
    const auto visit = [&](const std::uint64_t* words, std::size_t count) { analyser.record(words, count); };
    while (reader.next_block(visit))
        if (options.progress) options.progress(reader.offset(), reader.file_bytes());
    TraceAnalysis result = analyser.finish(path);
    result.damage = reader.damage();
    if (!result.damage.empty()) result.model.notes.insert(result.model.notes.begin(), result.damage);
    return result;
}

std::string trace_to_graph_json(const std::string& path) {
    const TraceAnalysis trace = analyse_trace(path);
    if (!trace.iteration)
        throw TraceError(path + " holds no repeating iteration (" + std::to_string(trace.ops) +
                         " operations): record more of the program, or mark iterations");
    return graph_json(*trace.iteration, trace.device, trace.names());
}

}  // namespace swapadvisor
