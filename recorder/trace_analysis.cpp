#include "recorder/trace_analysis.h"

#include <algorithm>

#include "recorder/feed.h"
#include "recorder/iteration_finder.h"
#include "recorder/late_frees.h"
#include "recorder/names.h"
#include "recorder/planned_part.h"
#include "recorder/run_summary.h"
#include "recorder/trace_reader.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kMaxLiveBuffers = 1 << 20;
constexpr std::size_t kMaxTextMemory = std::size_t{64} << 20;
constexpr std::size_t kHistoryOps = 1 << 17;

class Analyser {
  public:
    explicit Analyser(const AnalysisOptions& options)
        : options_(options), finder_(kHistoryOps), summary_(finder_, kHistoryOps) {}

    void record(const std::uint64_t* words, std::size_t count) {
        ++result_.events;
        if (record_type(words[0]) == RecordType::allocate && summary_.live_buffers() >= kMaxLiveBuffers)
            throw TraceError(
                "the trace has more than a million live buffers at once: it is damaged, record it anew");
        feed(finder_, words, count, touches_);
        summary_.record(words);
        count_small(words);
        if (record_type(words[0]) == RecordType::text) text(words);
        if (record_type(words[0]) == RecordType::device) device(words);
    }

    TraceAnalysis finish(const std::string& path) {
        result_.ops = finder_.history().op_count();
        result_.allocations = summary_.allocations();
        result_.iteration = summary_.main_loop(result_.instances);
        fill_model(path);
        return std::move(result_);
    }

  private:
    void count_small(const std::uint64_t* words) {
        constexpr std::int64_t kGrain = 512;
        if (record_type(words[0]) == RecordType::allocate && record_flag(words[0]) == 1) {
            const auto bytes = static_cast<std::int64_t>((words[2] + kGrain - 1) / kGrain) * kGrain;
            if (!small_.emplace(words[1], bytes).second) return;
            small_bytes_ += bytes;
            result_.small_peak_bytes = std::max(result_.small_peak_bytes, small_bytes_);
        } else if (record_type(words[0]) == RecordType::release) {
            const auto found = small_.find(words[1]);
            if (found == small_.end()) return;
            small_bytes_ -= found->second;
            small_.erase(found);
        }
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

    void fill_model(const std::string& path) {
        ReportModel& m = result_.model;
        m.source = "trace";
        m.program = result_.program.empty() ? path : result_.program;
        m.pid = result_.pid;
        m.device = result_.device;
        m.limit_bytes = result_.limit_bytes;
        summary_.fill(m, result_.iteration.get(), result_.instances, result_.names());
        if (!result_.iteration)
            m.notes.push_back("No repeating iteration was found in " + std::to_string(result_.ops) +
                              " operations: run longer, or mark iterations with swapadvisor_iteration().");
    }

    const AnalysisOptions& options_;
    TraceAnalysis result_;
    IterationFinder finder_;
    RunSummary summary_;
    std::vector<Touch> touches_;
    std::size_t text_memory_ = 0;
    std::unordered_map<std::uint64_t, std::int64_t> small_;  // live: bytes, rounded up
    std::int64_t small_bytes_ = 0;
};

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

std::string trace_graph_json(const TraceAnalysis& trace, std::int64_t limit_bytes, bool ideal) {
    const Iteration& iteration = *trace.iteration;
    if (ideal)
        return graph_json(kept_until_freed(without_pages(iteration), limit_bytes), trace.device,
                          trace.names());
    if (limit_bytes <= 0) limit_bytes = trace.device.memory_bytes;
    return planned_graph_json(iteration, trace.device, trace.names(), limit_bytes,
                              resident_bytes(iteration, trace.small_peak_bytes));
}

std::string trace_to_graph_json(const std::string& path, std::int64_t limit_bytes, bool ideal) {
    const TraceAnalysis trace = analyse_trace(path);
    if (!trace.iteration)
        throw TraceError(path + " holds no repeating iteration (" + std::to_string(trace.ops) +
                         " operations): record more of the program, or mark iterations");
    return trace_graph_json(trace, limit_bytes, ideal);
}

}  // namespace swapadvisor
