#include "recorder/event_timer.h"

#include <cmath>

#include "recorder/recorder.h"

namespace swapadvisor {
namespace {

// Event queries are refused while any thread captures in global mode, unless this thread is relaxed.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const DriverApi& api) : api_(api) { exchange(); }
    ~RelaxedCapture() { exchange(); }

  private:
    void exchange() {
        if (api_.cuThreadExchangeStreamCaptureMode_) api_.cuThreadExchangeStreamCaptureMode_(&mode_);
    }
    const DriverApi& api_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

bool EventTimer::take_pair(std::uint32_t& pair) {
    if (!free_.empty()) {
        pair = free_.back();
        free_.pop_back();
        return true;
    }
    if (pairs_.size() >= max_pairs_) return false;
    Pair fresh;
    if (api_.cuEventCreate_(&fresh.start, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return false;
    if (api_.cuEventCreate_(&fresh.stop, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
        api_.cuEventDestroy_(fresh.start);
        return false;
    }
    pair = static_cast<std::uint32_t>(pairs_.size());
    pairs_.push_back(fresh);
    free_.reserve(pairs_.capacity());
    return true;
}

bool EventTimer::begin(CUstream stream) {
    if (!enabled_) return false;
    std::uint32_t pair = 0;
    if (!take_pair(pair)) return false;
    if (api_.cuEventRecord_(pairs_[pair].start, stream) != CUDA_SUCCESS) {
        free_.push_back(pair);
        return false;
    }
    begun_.push_back({stream, pair});
    return true;
}

void EventTimer::end(CUstream stream, std::uint64_t seq) {
    for (std::size_t i = begun_.size(); i-- > 0;) {
        if (begun_[i].stream != stream) continue;
        const std::uint32_t pair = begun_[i].pair;
        begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(i));
        if (api_.cuEventRecord_(pairs_[pair].stop, stream) == CUDA_SUCCESS)
            in_flight_.push_back({seq, pair});
        else
            free_.push_back(pair);
        return;
    }
}

void EventTimer::cancel(CUstream stream) {
    for (std::size_t i = begun_.size(); i-- > 0;) {
        if (begun_[i].stream != stream) continue;
        free_.push_back(begun_[i].pair);
        begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(i));
        return;
    }
}

void EventTimer::poll(Recorder& recorder) {
    if (pending() == 0) return;
    const RelaxedCapture relaxed(api_);
    while (first_in_flight_ < in_flight_.size()) {
        const InFlight& op = in_flight_[first_in_flight_];
        const CUresult state = api_.cuEventQuery_(pairs_[op.pair].stop);
        if (state == CUDA_ERROR_NOT_READY) break;
        float milliseconds = 0;
        if (state == CUDA_SUCCESS && api_.cuEventElapsedTime_(&milliseconds, pairs_[op.pair].start,
                                                              pairs_[op.pair].stop) == CUDA_SUCCESS)
            recorder.op_duration(op.seq, std::llround(static_cast<double>(milliseconds) * 1e6));
        free_.push_back(op.pair);
        ++first_in_flight_;
    }
    if (first_in_flight_ == in_flight_.size()) {
        in_flight_.clear();  // keeps its capacity
        first_in_flight_ = 0;
    } else if (first_in_flight_ >= 1024) {
        in_flight_.erase(in_flight_.begin(),
                         in_flight_.begin() + static_cast<std::ptrdiff_t>(first_in_flight_));
        first_in_flight_ = 0;
    }
}

void EventTimer::forget_context() {
    pairs_.clear();
    free_.clear();
    begun_.clear();
    in_flight_.clear();
    first_in_flight_ = 0;
}

void EventTimer::release_events() {
    if (pending() > 0 || !begun_.empty()) return;
    for (const Pair& pair : pairs_) {
        api_.cuEventDestroy_(pair.start);
        api_.cuEventDestroy_(pair.stop);
    }
    forget_context();
}

}  // namespace swapadvisor
