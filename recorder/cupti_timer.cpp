#include "recorder/cupti_timer.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "recorder/cupti_api.h"
#include "recorder/recorder.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kMostWaiting = 1 << 16;  // records and ops that have not met yet
constexpr CUpti_ExternalCorrelationKind kOurs = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
constexpr std::array kKinds = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                               CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                               CUPTI_ACTIVITY_KIND_MEMSET};

CuptiApi open_cupti() {
    CuptiApi api;
    void* library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!library) return api;
    const auto get = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    };
    get(api.register_callbacks, "cuptiActivityRegisterCallbacks");
    get(api.enable, "cuptiActivityEnable");
    get(api.disable, "cuptiActivityDisable");
    get(api.next_record, "cuptiActivityGetNextRecord");
    get(api.flush, "cuptiActivityFlushAll");
    get(api.push, "cuptiActivityPushExternalCorrelationId");
    get(api.pop, "cuptiActivityPopExternalCorrelationId");
    return api;
}

// CUPTI's callbacks carry no user data: the one timer in force.
std::mutex timer_mutex;
void* timer_in_force = nullptr;

}  // namespace

struct CuptiTimer::Impl {
    CuptiApi api;
    bool available = false;
    std::atomic<bool> enabled{true};
    std::uint64_t next_id = 1;  // caller

    struct Done {
        std::uint64_t seq;
        std::int64_t ns;
    };
    std::mutex mutex;                                            // shared with CUPTI's thread
    std::unordered_map<std::uint64_t, std::uint64_t> seq_of_id;  // external id -> op
    std::unordered_map<std::uint32_t, std::uint64_t> id_of_correlation;
    std::unordered_map<std::uint32_t, std::int64_t> ns_of_correlation;  // came before its external record
    std::unordered_map<std::uint64_t, std::int64_t> ns_of_id;           // came before end()
    std::vector<Done> done;
    std::atomic<std::uint64_t> delivered{0};

    explicit Impl(const CuptiApi& given) : api(given) {
        if (!api.register_callbacks || !api.enable || !api.disable || !api.next_record || !api.flush ||
            !api.push || !api.pop)
            return;
        const std::lock_guard lock(timer_mutex);
        if (timer_in_force) return;
        if (api.register_callbacks(&give_buffer, &take_buffer) != CUPTI_SUCCESS) return;
        if (!enable_all()) return;
        timer_in_force = this;
        available = true;
    }
    ~Impl() {
        if (!available) return;
        if (enabled) disable_all();
        const std::lock_guard lock(timer_mutex);
        timer_in_force = nullptr;
    }

    bool enable_all() {
        for (std::size_t i = 0; i < kKinds.size(); ++i) {
            if (api.enable(kKinds[i]) == CUPTI_SUCCESS) continue;
            while (i-- > 0) api.disable(kKinds[i]);
            return false;
        }
        return true;
    }
    void disable_all() {
        for (const CUpti_ActivityKind kind : kKinds) api.disable(kind);
    }

    static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
        *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
        *size = *buffer ? kBufferBytes : 0;
        *most_records = 0;
    }
    static void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                                     std::size_t valid) {
        {
            const std::lock_guard lock(timer_mutex);
            if (timer_in_force && valid > 0) static_cast<Impl*>(timer_in_force)->read(buffer, valid);
        }
        std::free(buffer);
    }

    void read(std::uint8_t* buffer, std::size_t valid) {
        const std::lock_guard lock(mutex);
        CUpti_Activity* record = nullptr;
        while (api.next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
            switch (record->kind) {
                case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
                    const auto& r = *reinterpret_cast<CUpti_ActivityExternalCorrelation*>(record);
                    if (r.externalKind != kOurs) break;
                    id_of_correlation[r.correlationId] = r.externalId;
                    if (const auto early = ns_of_correlation.find(r.correlationId);
                        early != ns_of_correlation.end()) {
                        measured(r.externalId, early->second);
                        ns_of_correlation.erase(early);
                    }
                    break;
                }
                case CUPTI_ACTIVITY_KIND_KERNEL:
                case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
                    const auto& r = *reinterpret_cast<CUpti_ActivityKernel10*>(record);
                    activity(r.correlationId, r.start, r.end);
                    break;
                }
                case CUPTI_ACTIVITY_KIND_MEMCPY: {
                    const auto& r = *reinterpret_cast<CUpti_ActivityMemcpy6*>(record);
                    activity(r.correlationId, r.start, r.end);
                    break;
                }
                case CUPTI_ACTIVITY_KIND_MEMSET: {
                    const auto& r = *reinterpret_cast<CUpti_ActivityMemset4*>(record);
                    activity(r.correlationId, r.start, r.end);
                    break;
                }
                default:
                    break;
            }
        }
        // What never met its partner (the program's own swaps and copies among them) must not pile up.
        if (id_of_correlation.size() > kMostWaiting) id_of_correlation.clear();
        if (ns_of_correlation.size() > kMostWaiting) ns_of_correlation.clear();
        if (ns_of_id.size() > kMostWaiting) ns_of_id.clear();
        if (seq_of_id.size() > kMostWaiting) seq_of_id.clear();
    }

    void activity(std::uint32_t correlation, std::uint64_t start, std::uint64_t end) {
        if (end <= start) return;  // not collected
        const auto ns = static_cast<std::int64_t>(end - start);
        const auto id = id_of_correlation.find(correlation);
        if (id == id_of_correlation.end()) {
            ns_of_correlation[correlation] = ns;
            return;
        }
        measured(id->second, ns);
        id_of_correlation.erase(id);
    }

    void measured(std::uint64_t id, std::int64_t ns) {
        delivered.fetch_add(1, std::memory_order_relaxed);
        const auto seq = seq_of_id.find(id);
        if (seq == seq_of_id.end()) {
            ns_of_id[id] = ns;
            return;
        }
        done.push_back({seq->second, ns});
        seq_of_id.erase(seq);
    }
};

CuptiTimer::CuptiTimer() : CuptiTimer(open_cupti()) {}
CuptiTimer::CuptiTimer(const CuptiApi& api) : impl_(std::make_unique<Impl>(api)) {}
CuptiTimer::~CuptiTimer() = default;

bool CuptiTimer::available() const {
    return impl_->available;
}
void CuptiTimer::set_enabled(bool enabled) {
    Impl& impl = *impl_;
    if (!impl.available || enabled == impl.enabled) return;
    if (!enabled)
        impl.disable_all();
    else if (!impl.enable_all())
        return;  // another tool took over meanwhile
    impl.enabled = enabled;
}
bool CuptiTimer::enabled() const {
    return impl_->available && impl_->enabled;
}
std::uint64_t CuptiTimer::delivered() const {
    return impl_->delivered.load(std::memory_order_relaxed);
}

std::uint64_t CuptiTimer::begin() {
    if (!enabled()) return 0;
    const std::uint64_t id = impl_->next_id++;
    return impl_->api.push(kOurs, id) == CUPTI_SUCCESS ? id : 0;
}

void CuptiTimer::end(std::uint64_t id, std::uint64_t seq) {
    Impl& impl = *impl_;
    std::uint64_t popped = 0;
    impl.api.pop(kOurs, &popped);
    const std::lock_guard lock(impl.mutex);
    if (const auto early = impl.ns_of_id.find(id); early != impl.ns_of_id.end()) {
        impl.done.push_back({seq, early->second});
        impl.ns_of_id.erase(early);
    } else {
        impl.seq_of_id[id] = seq;
    }
}

void CuptiTimer::cancel() {
    std::uint64_t popped = 0;
    impl_->api.pop(kOurs, &popped);
}

void CuptiTimer::poll(Recorder& recorder) {
    if (!impl_->available) return;
    impl_->api.flush(0);  // what is complete; does not wait
    std::vector<Impl::Done> done;
    {
        const std::lock_guard lock(impl_->mutex);
        done.swap(impl_->done);
    }
    for (const Impl::Done& d : done) recorder.op_duration(d.seq, d.ns);
}

}  // namespace swapadvisor
