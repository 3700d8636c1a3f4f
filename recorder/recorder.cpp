#include "recorder/recorder.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "recorder/callsite.h"
#include "recorder/feed.h"
#include "recorder/iteration_finder.h"
#include "recorder/names.h"
#include "recorder/nvtx.h"
#include "recorder/record.h"
#include "recorder/report_model.h"
#include "recorder/run_summary.h"
#include "recorder/trace_writer.h"
#include "recorder/word_ring.h"

namespace swapadvisor {
namespace {

constexpr std::uint64_t kOpsPerClock = 8;  // the clock is read once in so many ops
constexpr long kIdleSleepNs = 1'000'000;
constexpr long kLongIdleSleepNs = 20'000'000;
constexpr std::size_t kSummaryHistory = 1 << 16;  // swaps and stalls kept for the report at exit
constexpr std::size_t kMaxBufferNames = 1 << 16;
constexpr std::uint64_t kFlushEveryNs = 500'000'000;  // what a kill -9 may cost at most

std::uint64_t host_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

struct Recorder::Impl {
    explicit Impl(Options given)
        : options(std::move(given)), ring(options.ring_bytes / sizeof(std::uint64_t)) {
        scratch.reserve(kMaxRecordWords);
        if (!options.trace_path.empty() && writer.open(options.trace_path)) {
            send_text(TextKind::program, static_cast<std::uint64_t>(getpid()), options.program);
            send_device(options.device, options.limit_bytes);
        }
    }

    // --- producer
    // -----------------------------------------------------------------------------------------------

    // Room for a record, or false when the recorder is closed. Waits while the ring is full.
    bool begin(std::size_t words) {
        if (closed.load(std::memory_order_relaxed)) return false;
        if (!started && !options.synchronous) start_thread();
        while (!ring.room_for(words)) {
            if (options.synchronous || !started)
                drain();
            else
                nanosleep_ns(50'000);
            if (closed.load(std::memory_order_relaxed)) return false;
        }
        return true;
    }
    void end() {
        ring.publish();
        if (options.synchronous) drain();
    }
    void send(std::initializer_list<std::uint64_t> words) {
        if (!begin(words.size())) return;
        for (const std::uint64_t word : words) ring.put(word);
        end();
    }
    void send_text(TextKind kind, std::uint64_t id, std::string_view text) {
        text = text.substr(0, kMaxTextBytes);
        const std::size_t words = 3 + (text.size() + 7) / 8;
        if (!begin(words)) return;
        ring.put(record_header(RecordType::text, static_cast<std::uint8_t>(kind), words));
        ring.put(id);
        ring.put(text.size());
        for (std::size_t at = 0; at < text.size(); at += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, text.data() + at, std::min<std::size_t>(8, text.size() - at));
            ring.put(word);
        }
        end();
    }
    // What follows happens in the thread's NVTX range.
    void note_range() {
        const std::uint64_t range = current_range();
        if (range == last_range) return;
        last_range = range;
        send({record_header(RecordType::range, 0, 2), range});
    }
    void send_device(const DeviceModel& d, std::int64_t limit) {
        send({record_header(RecordType::device, 0, 7), static_cast<std::uint64_t>(d.memory_bytes),
              static_cast<std::uint64_t>(d.h2d_bytes_per_s), static_cast<std::uint64_t>(d.d2h_bytes_per_s),
              static_cast<std::uint64_t>(d.duplex_bytes_per_s),
              static_cast<std::uint64_t>(d.transfer_latency_ns), static_cast<std::uint64_t>(limit)});
        if (!d.name.empty()) send_text(TextKind::device, 0, d.name);
    }

    // --- consumer
    // -----------------------------------------------------------------------------------------------

    static void nanosleep_ns(long ns) {
        const timespec wait{0, ns};
        nanosleep(&wait, nullptr);
    }

    void start_thread() {
        started = true;
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals stay the program's
        const int failed = pthread_create(
            &thread, nullptr,
            [](void* self) -> void* {
                static_cast<Impl*>(self)->run();
                return nullptr;
            },
            this);
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        if (failed)
            options.synchronous = true;  // works, slower
        else
            has_thread = true;
    }

    void run() {
        pthread_setname_np(pthread_self(), "sa-recorder");
        long idle = kIdleSleepNs;
        std::uint64_t flushed = host_ns();
        while (true) {
            const bool last = stop.load(std::memory_order_acquire);
            const bool some = drain();
            if (host_ns() - flushed > kFlushEveryNs) {
                const std::lock_guard lock(drain_mutex);
                writer.flush();
                flushed = host_ns();
            }
            if (last && !some) return;
            if (some) {
                idle = kIdleSleepNs;
            } else {
                nanosleep_ns(idle);
                idle = std::min(kLongIdleSleepNs, idle + idle / 4);
            }
        }
    }

    // Processes all that is published. True if there was anything.
    bool drain() {
        const std::lock_guard lock(drain_mutex);
        bool some = false;
        while (ring.available() > 0) {
            const std::uint64_t header = ring.at(0);
            const std::size_t words = record_words(header);
            scratch.resize(words);
            for (std::size_t i = 0; i < words; ++i) scratch[i] = ring.at(i);
            ring.consume(words);
            process();
            some = true;
        }
        return some;
    }

    void process() {
        const std::uint64_t* w = scratch.data();
        if (record_type(w[0]) == RecordType::allocate) name_site(w[3]);
        if (record_type(w[0]) == RecordType::range) name_range(w[1]);
        feed(finder, w, scratch.size(), touches);
        summary.record(w);
        if (record_type(w[0]) == RecordType::text && record_flag(w[0]) == std::uint8_t(TextKind::buffer) &&
            buffer_names.size() < kMaxBufferNames)
            buffer_names[w[1]] = text_of_record(w);
        writer.append(w, scratch.size());
        if (finder.version() != version.load(std::memory_order_relaxed)) {
            const std::lock_guard lock(steady_mutex);
            steady = finder.steady();
            version.store(finder.version(), std::memory_order_release);
        }
        if (finder.instances() != instances.load(std::memory_order_relaxed))
            instances.store(finder.instances(), std::memory_order_relaxed);
    }

    // The trace names every site and range it uses. Slow once for each, on the recorder's own thread.
    void name_site(std::uint64_t site) {
        if (!writer.is_open() || site == 0 || !named_sites.insert(site).second) return;
        const std::string text = describe_site(site);
        if (!text.empty()) write_text(TextKind::site, site, text.substr(0, kMaxTextBytes));
    }
    void name_range(std::uint64_t range) {
        if (!writer.is_open() || range == 0 || !named_ranges.insert(range).second) return;
        write_text(TextKind::range, range, describe_range(range).substr(0, kMaxTextBytes));
    }
    void write_text(TextKind kind, std::uint64_t id, const std::string& text) {
        std::vector<std::uint64_t> words(3 + (text.size() + 7) / 8);
        words[0] = record_header(RecordType::text, static_cast<std::uint8_t>(kind), words.size());
        words[1] = id;
        words[2] = text.size();
        std::memcpy(words.data() + 3, text.data(), text.size());
        writer.append(words.data(), words.size());
    }

    void flush() {
        const std::uint64_t until = ring.published();  // others may go on all the while
        while (!ring.consumed(until)) {
            if (options.synchronous || !has_thread)
                drain();
            else
                nanosleep_ns(200'000);
        }
        // Empty means consumed; the last record's processing ends with the drain's lock.
        const std::lock_guard lock(drain_mutex);
    }

    Options options;
    WordRing ring;
    std::atomic<bool> closed{false}, stop{false};
    bool started = false, has_thread = false, abandoned = false;
    pthread_t thread{};
    // The producer asks for them at every op, so they are not next to what the consumer writes at every
    // record.
    std::atomic<std::uint64_t> version{0}, instances{0};
    alignas(64) std::uint64_t next_seq = 0;          // producer
    std::uint64_t last_host_ns = 0, last_range = 0;  // producer

    alignas(64) std::mutex drain_mutex;  // taken by the consumer; contended only in flush()
    std::vector<std::uint64_t> scratch;
    std::vector<Touch> touches;
    IterationFinder finder;
    RunSummary summary{finder, kSummaryHistory};
    std::unordered_map<BufferId, std::string> buffer_names;
    TraceWriter writer;
    std::unordered_set<std::uint64_t> named_sites, named_ranges;

    mutable std::mutex steady_mutex;
    std::shared_ptr<const Iteration> steady;

    mutable std::mutex names_mutex;
    std::unordered_map<std::uint64_t, std::string> function_names;
};

Recorder::Recorder(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Recorder::~Recorder() {
    if (impl_->abandoned)
        static_cast<void>(impl_.release());  // its locks and thread are in an unknown state
    else
        close();
}

void Recorder::allocate(BufferId buffer, std::int64_t bytes, bool small, std::uint64_t site, void* stream,
                        bool paged) {
    impl_->note_range();
    const auto flag = static_cast<std::uint8_t>(small | paged << 1);
    impl_->send({record_header(RecordType::allocate, flag, 5), buffer, static_cast<std::uint64_t>(bytes),
                 site, reinterpret_cast<std::uint64_t>(stream)});
}

void Recorder::release(BufferId buffer) {
    impl_->send({record_header(RecordType::release, 0, 2), buffer});
}

std::uint64_t Recorder::op(const OpView& op) {
    const std::uint64_t seq = impl_->next_seq++;
    impl_->note_range();
    const std::size_t touches = std::min<std::size_t>(op.touch_count, kMaxRecordWords - kOpFixedWords);
    const std::size_t words = kOpFixedWords + touches;
    if (!impl_->begin(words)) return seq;
    WordRing& ring = impl_->ring;
    ring.put(record_header(RecordType::op, static_cast<std::uint8_t>(op.kind), words));
    ring.put(op.function);
    for (int i = 0; i < 6; i += 2)
        ring.put(static_cast<std::uint64_t>(op.geometry[i]) << 32 | op.geometry[i + 1]);
    ring.put(reinterpret_cast<std::uint64_t>(op.stream));
    if (seq % kOpsPerClock == 0) impl_->last_host_ns = host_ns();
    ring.put(impl_->last_host_ns);
    for (std::size_t i = 0; i < touches; ++i)
        ring.put(op.touches[i].buffer << 2 | static_cast<std::uint64_t>(op.touches[i].access));
    impl_->end();
    return seq;
}

void Recorder::op_duration(std::uint64_t seq, std::int64_t ns) {
    impl_->send({record_header(RecordType::duration, 0, 3), seq, static_cast<std::uint64_t>(ns)});
}

void Recorder::content(std::uint64_t seq, std::uint32_t touch, bool changed) {
    impl_->send({record_header(RecordType::content, changed, 3), seq, touch});
}

void Recorder::mark() {
    impl_->send({record_header(RecordType::mark, 0, 1)});
}

void Recorder::escaped(BufferId buffer, const char* reason) {
    impl_->send_text(TextKind::escape, buffer, reason ? reason : "");
}

void Recorder::swap(BufferId buffer, SwapKind kind, std::int64_t bytes, std::uint64_t seq, bool planned) {
    const auto flag = static_cast<std::uint8_t>(static_cast<unsigned>(kind) * 2 + planned);
    impl_->send({record_header(RecordType::swap, flag, 4), buffer, static_cast<std::uint64_t>(bytes), seq});
}

void Recorder::stall(std::uint64_t seq, std::int64_t ns) {
    impl_->send({record_header(RecordType::stall, 0, 3), seq, static_cast<std::uint64_t>(ns)});
}

void Recorder::figure(FigureKind kind, std::int64_t ns) {
    impl_->send({record_header(RecordType::figure, static_cast<std::uint8_t>(kind), 2),
                 static_cast<std::uint64_t>(ns)});
}

void Recorder::name_function(std::uint64_t function, std::string_view name) {
    {
        const std::lock_guard lock(impl_->names_mutex);
        impl_->function_names[function] = std::string(name);
    }
    impl_->send_text(TextKind::function, function, name);
}

std::string Recorder::function_name(std::uint64_t function) const {
    const std::lock_guard lock(impl_->names_mutex);
    const auto found = impl_->function_names.find(function);
    return found == impl_->function_names.end() ? "" : demangled(found->second);
}

void Recorder::name_buffer(BufferId buffer, std::string_view name) {
    impl_->send_text(TextKind::buffer, buffer, name);
}

void Recorder::name_site(std::uint64_t site, std::string_view text) {
    impl_->send_text(TextKind::site, site, text);
}

void Recorder::set_device(const DeviceModel& device, std::int64_t limit_bytes) {
    impl_->send_device(device, limit_bytes);
}

std::uint64_t Recorder::version() const {
    return impl_->version.load(std::memory_order_relaxed);
}

std::shared_ptr<const Iteration> Recorder::steady() const {
    const std::lock_guard lock(impl_->steady_mutex);
    return impl_->steady;
}

std::uint64_t Recorder::instances() const {
    return impl_->instances.load(std::memory_order_relaxed);
}

std::shared_ptr<const Iteration> Recorder::steady_with_durations() {
    impl_->flush();
    const std::lock_guard lock(impl_->drain_mutex);
    return impl_->finder.with_durations();
}

std::string Recorder::why_none() {
    impl_->flush();
    const std::lock_guard lock(impl_->drain_mutex);
    if (impl_->finder.steady()) return "";
    return impl_->finder.why_none([this](std::uint64_t function) { return function_name(function); });
}

void Recorder::fill_report(ReportModel& model) {
    impl_->flush();
    const std::lock_guard lock(impl_->drain_mutex);
    GraphNames names;
    names.function_name = [this](std::uint64_t function) { return function_name(function); };
    std::unordered_map<std::uint64_t, std::string> sites;
    names.site_name = [&sites](std::uint64_t site) {
        const auto [entry, fresh] = sites.try_emplace(site);
        if (fresh) entry->second = without_folders(describe_site(site));
        return entry->second;
    };
    names.range_name = [](std::uint64_t range) { return describe_range(range); };
    names.buffer_name = [this](BufferId buffer) {
        const auto found = impl_->buffer_names.find(buffer);
        return found == impl_->buffer_names.end() ? std::string() : found->second;
    };
    std::int64_t instances = 0;
    const auto iteration = impl_->summary.main_loop(instances);
    impl_->summary.fill(model, iteration.get(), instances, names);
}

std::string Recorder::trace_path() const {
    const std::lock_guard lock(impl_->drain_mutex);
    return impl_->writer.path();
}

std::string Recorder::trace_error() const {
    const std::lock_guard lock(impl_->drain_mutex);
    return impl_->writer.error();
}

void Recorder::flush() {
    impl_->flush();
}

void Recorder::close() {
    Impl& impl = *impl_;
    if (impl.closed.exchange(true)) return;
    if (impl.has_thread) {
        impl.stop.store(true, std::memory_order_release);
        pthread_join(impl.thread, nullptr);
        impl.has_thread = false;
    }
    impl.drain();
    const std::lock_guard lock(impl.drain_mutex);
    impl.writer.close();
}

void Recorder::abandon_after_fork() {
    impl_->closed.store(true);
    impl_->abandoned = true;
    impl_->writer.abandon();
}

}  // namespace swapadvisor
