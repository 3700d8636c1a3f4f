#include "recorder/op_timer.h"

namespace swapadvisor {

void OpTimer::set_enabled(bool enabled) {
    enabled_ = enabled;
    events_.set_enabled(enabled && !cupti_delivers());
    if (cupti_) cupti_->set_enabled(enabled);
}

void OpTimer::open_cupti() {
    opened_ = true;
    if (wanted_ == TimingSource::events) return;
    cupti_ = std::make_unique<CuptiTimer>();
    if (!cupti_->available()) cupti_.reset();
}

void OpTimer::use_cupti(std::unique_ptr<CuptiTimer> timer) {
    opened_ = true;
    cupti_ = std::move(timer);
    set_enabled(enabled_);
}

void OpTimer::let_cupti_go() {
    cupti_.reset();
    events_.set_enabled(enabled_);
}

OpTimer::Begun OpTimer::begin(CUstream stream) {
    if (enabled_ && !opened_) open_cupti();
    if (cupti_ && enabled_ && !cupti_delivers() && ++asked_ > kPatience) let_cupti_go();
    Begun begun;
    begun.events = events_.begin(stream);
    if (cupti_ && enabled_) begun.cupti = cupti_->begin();
    return begun;
}

void OpTimer::end(CUstream stream, std::uint64_t seq, const Begun& begun) {
    if (begun.cupti != 0 && cupti_) cupti_->end(begun.cupti, seq);
    if (begun.events) events_.end(stream, seq);
}

void OpTimer::cancel(CUstream stream, const Begun& begun) {
    if (begun.cupti != 0 && cupti_) cupti_->cancel();
    events_.cancel(stream);
}

void OpTimer::poll(Recorder& recorder) {
    events_.poll(recorder);
    if (!cupti_) return;
    cupti_->poll(recorder);
    if (cupti_delivers()) events_.set_enabled(false);
}

const char* OpTimer::source() const {
    if (!opened_) return "";
    return cupti_delivers() ? "CUPTI" : "events";
}

}  // namespace swapadvisor
