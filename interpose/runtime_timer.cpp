#include "interpose/runtime_timer.h"

namespace swapadvisor {
namespace {
constexpr std::size_t kPairs = 4096;
}

bool EventTimer::begin(CUstream stream) {
    if (!enabled_) return false;
    if (spare_.empty()) {
        if (made_ >= kPairs) return false;
        Pair pair;
        if (api_.cuEventCreate_(&pair.start, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return false;
        if (api_.cuEventCreate_(&pair.stop, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
            api_.cuEventDestroy_(pair.start);
            return false;
        }
        ++made_;
        spare_.push_back(pair);
    }
    current_ = spare_.back();
    if (api_.cuEventRecord_(current_.start, stream) != CUDA_SUCCESS) return false;
    spare_.pop_back();
    stream_ = stream;
    return true;
}

void EventTimer::end(std::uint64_t seq) {
    if (api_.cuEventRecord_(current_.stop, stream_) != CUDA_SUCCESS) {
        spare_.push_back(current_);
        return;
    }
    current_.seq = seq;
    pending_.push_back(current_);
}

void EventTimer::poll(Recorder& recorder, std::size_t most) {
    for (; most > 0 && !pending_.empty(); --most) {
        Pair& pair = pending_.front();
        if (api_.cuEventQuery_(pair.stop) != CUDA_SUCCESS) return;
        float milliseconds = 0;
        if (api_.cuEventElapsedTime_(&milliseconds, pair.start, pair.stop) == CUDA_SUCCESS) {
            recorder.op_duration(pair.seq, static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6 + 0.5));
            ++timed_;
        }
        spare_.push_back(pair);
        pending_.pop_front();
    }
}

}  // namespace swapadvisor
