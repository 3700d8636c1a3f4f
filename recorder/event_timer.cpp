#include "recorder/event_timer.h"

#include <cmath>

#include "recorder/recorder.h"

namespace swapadvisor {

bool EventTimer::take_set(std::uint32_t& set) {
    if (!free_.empty()) {
        set = free_.back();
        free_.pop_back();
        return true;
    }
    if (sets_.size() >= max_sets_) return false;
    set = static_cast<std::uint32_t>(sets_.size());
    sets_.emplace_back();
    free_.reserve(sets_.capacity());
    return true;
}

bool EventTimer::record(CUevent& event, CUstream stream) {
    if (!event && api_.cuEventCreate_(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return false;
    return api_.cuEventRecord_(event, stream) == CUDA_SUCCESS;
}

std::size_t EventTimer::find(CUstream stream, bool started) const {
    for (std::size_t i = begun_.size(); i-- > 0;)
        if (begun_[i].stream == stream && begun_[i].started == started) return i;
    return begun_.size();
}

void EventTimer::drop(std::size_t begun) {
    free_.push_back(begun_[begun].set);
    begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(begun));
}

void EventTimer::arrive(CUstream stream) {
    std::size_t i = find(stream, false);
    if (i == begun_.size()) {
        Begun fresh{stream, 0, true, false, false};
        if (!take_set(fresh.set)) return;
        begun_.push_back(fresh);
    }
    if (!record(sets_[begun_[i].set].arrived, stream)) drop(i);
}

bool EventTimer::begin(CUstream stream) {
    if (!enabled_ && begun_.empty()) return false;
    std::size_t i = find(stream, false);
    if (i == begun_.size()) {
        if (!enabled_) return false;
        Begun fresh{stream, 0, false, false, true};
        if (!take_set(fresh.set)) return false;
        begun_.push_back(fresh);
    }
    if (!record(sets_[begun_[i].set].start, stream)) {
        drop(i);
        return false;
    }
    begun_[i].started = true;
    begun_[i].timed = enabled_;
    return true;
}

void EventTimer::end(CUstream stream, std::uint64_t seq) {
    const std::size_t i = find(stream, true);
    if (i == begun_.size()) return;
    const Begun op = begun_[i];
    begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(i));
    if (!op.timed || record(sets_[op.set].stop, stream))
        in_flight_.push_back({seq, op.set, op.arrived, op.timed});
    else
        free_.push_back(op.set);
}

void EventTimer::cancel(CUstream stream) {
    std::size_t i = find(stream, true);
    if (i == begun_.size()) i = find(stream, false);
    if (i != begun_.size()) drop(i);
}

std::int64_t EventTimer::between(CUevent from, CUevent to) const {
    float milliseconds = 0;
    if (api_.cuEventElapsedTime_(&milliseconds, from, to) != CUDA_SUCCESS) return -1;
    return std::llround(static_cast<double>(milliseconds) * 1e6);
}

void EventTimer::poll(Recorder& recorder) {
    if (pending() == 0) return;
    const RelaxedCapture relaxed(api_);  // event queries are refused during a global capture
    while (first_in_flight_ < in_flight_.size()) {
        const InFlight& op = in_flight_[first_in_flight_];
        const Set& set = sets_[op.set];
        const CUresult state = api_.cuEventQuery_(op.timed ? set.stop : set.start);
        if (state == CUDA_ERROR_NOT_READY) break;
        if (state == CUDA_SUCCESS) {
            const std::int64_t duration = op.timed ? between(set.start, set.stop) : -1;
            const std::int64_t stall = op.arrived ? between(set.arrived, set.start) : -1;
            if (duration >= 0) recorder.op_duration(op.seq, duration);
            if (stall >= 0) recorder.stall(op.seq, stall);
        }
        free_.push_back(op.set);
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
    sets_.clear();
    free_.clear();
    begun_.clear();
    in_flight_.clear();
    first_in_flight_ = 0;
}

void EventTimer::release_events() {
    if (pending() > 0 || !begun_.empty()) return;
    for (const Set& set : sets_)
        for (const CUevent event : {set.arrived, set.start, set.stop})
            if (event) api_.cuEventDestroy_(event);
    forget_context();
}

}  // namespace swapadvisor
