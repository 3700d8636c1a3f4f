// Residency without a plan, ahead of need: who is sent out early stays mapped and usable until its memory is
// taken, who is brought early gets memory that is free by now. Nothing here waits for the device.
#include <algorithm>

#include "replayer/hidden_addresses.h"
#include "replayer/residency.h"

namespace swapadvisor {
namespace {
constexpr std::size_t kLeaving = 8;  // copies out under way, or done and not needed yet
constexpr int kUnfinished = 2;       // looks at what is not done, per call: each may ask the driver
}  // namespace

std::uint64_t Residency::leaving_pages() const {
    std::uint64_t pages = 0;
    for (const Leaving& entry : leaving_) pages += entry.buffer->pages();
    return pages;
}

bool Residency::send_early(Buffer& b) {
    if (leaving_.size() >= kLeaving || !movable(b) || waits_for_program(b)) return false;
    hidden_->prepare(b);
    if (b.place == Place::resident && b.dirty) {
        if (!b.host) b.host = host_.take_pinned(b.bytes);
        if (!b.host || save(b) != CUDA_SUCCESS) return false;
    }
    timeline_.record(b.uses);
    leaving_.push_back({&b, b.stamp, b.slot});
    return true;
}

bool Residency::is_leaving(const Buffer& b) const {
    return std::any_of(leaving_.begin(), leaving_.end(),
                       [&](const Leaving& entry) { return entry.buffer == &b; });
}

std::uint64_t Residency::take_from_leaving(std::uint64_t pages) {
    ContextScope scope(api_, context_);
    std::uint64_t gained = 0;
    int unfinished = 0;
    for (std::size_t i = 0; i < leaving_.size() && gained < pages && unfinished < kUnfinished;) {
        Buffer& b = *leaving_[i].buffer;
        if (!leaving_[i].valid() || !movable(b)) {
            ++i;
            continue;
        }
        if (!timeline_.done(b.uses) || !timeline_.done(b.ready)) {
            ++unfinished;
            ++i;
            continue;
        }
        const bool drop = b.place == Place::resident && !leaving_[i].noted;
        const std::uint64_t held = b.pages();
        const Outcome gone = detach(b);
        if (gone.is(Outcome::Kind::wait)) {  // for a look, which may say of others already that they can go
            ++unfinished;
            ++i;
            continue;
        }
        if (!gone.ok()) break;
        if (drop) note_drop(b);
        leaving_.erase(leaving_.begin() + static_cast<std::ptrdiff_t>(i));
        gained += held;
    }
    return gained;
}

void Residency::send_farthest() {
    if (Buffer* b = farthest(0, [&](const Buffer& buffer) { return next_use ? next_use(buffer) : 1; }))
        send_early(*b);
}

bool Residency::bring_early(Buffer& b) {
    ContextScope scope(api_, context_);
    if (!attach(b, false).ok() || copy_in(b) != CUDA_SUCCESS) return false;
    ++counts_.early_ins;
    return true;
}

}  // namespace swapadvisor
