#include "replayer/prefetcher.h"

#include <algorithm>

namespace swapadvisor {
namespace {
constexpr std::int32_t kAhead = 16;   // ops that are looked at: far enough to keep the copies going
constexpr std::uint64_t kSoon = 2;    // ops: who is used by then does not leave after all
constexpr std::size_t kArriving = 4;  // copies in at once: one that is asked for has to queue behind them
}  // namespace

// Room for what needs it `distance` ops from now. False: no one may go for it now. Who goes early must not be
// needed again soon after: closer to the need there may be someone better.
bool Prefetcher::provide(const IterationMatcher& matcher, Account& account, std::int64_t pages,
                         std::uint64_t distance) {
    account.room -= pages;
    account.lowest = std::min(account.lowest, account.room);
    while (account.lowest + account.leaving < 0) {
        Buffer* leaver = residency_.farthest(
            2 * distance, [&](const Buffer& buffer) { return matcher.next_change(buffer); });
        if (leaver == nullptr || !residency_.send_early(*leaver)) return false;
        account.leaving += static_cast<std::int64_t>(leaver->pages());
    }
    return true;
}

bool Prefetcher::busy() {
    while (!arriving_.empty() && residency_.timeline().done(arriving_.front()))
        arriving_.erase(arriving_.begin());
    return arriving_.size() >= kArriving;
}

// After provide(). False if what is to leave for it has not left yet.
bool Prefetcher::bring(Account& account, Buffer& buffer) {
    if (busy()) return false;
    if (account.lowest < 0) {
        const auto gained = static_cast<std::int64_t>(
            residency_.take_from_leaving(static_cast<std::uint64_t>(-account.lowest)));
        account.leaving -= gained;
        account.room += gained;
        account.lowest += gained;
        if (account.lowest < 0) return false;
    }
    if (!residency_.bring_early(buffer)) return false;
    arriving_.push_back(residency_.timeline().last(residency_.in_queue()));
    return true;
}

void Prefetcher::advance(const IterationMatcher& matcher) {
    if (!residency_.under_pressure() || residency_.timeline().capturing()) return;
    const IterationScript& script = matcher.script();
    const std::int32_t n = script.ops();
    seen_.resize(std::max(seen_.size(), script.iteration().tensors.size()));
    ++look_;
    auto first_time = [&](std::int32_t tensor) {
        std::uint32_t& seen = seen_[static_cast<std::size_t>(tensor)];
        return seen != look_ && (seen = look_, true);
    };
    auto pages_of = [&](std::int32_t tensor) {
        const auto page = static_cast<std::int64_t>(residency_.options().page_bytes);
        return (script.bytes(tensor) + page - 1) / page;
    };
    residency_.review_leaving([&](const Buffer& buffer) { return matcher.next_change(buffer) <= kSoon; });
    Account account;
    account.room = account.lowest = static_cast<std::int64_t>(residency_.room_pages());
    account.leaving = static_cast<std::int64_t>(residency_.leaving_pages());
    bool bringing = true;
    // In a short iteration everything is needed again soon: the further ahead, the worse who goes for it.
    const std::int32_t ahead = std::clamp(n / 8, 2, kAhead);
    for (std::int32_t step = 0; step < ahead; ++step) {
        const std::int32_t op = (matcher.position() + step) % n;
        const auto distance = static_cast<std::uint64_t>(step);
        for (const std::int32_t tensor : script.births(op))
            if (matcher.buffer(tensor) == nullptr && first_time(tensor) &&
                !provide(matcher, account, pages_of(tensor), distance))
                return;
        for (const std::int32_t tensor : script.uses(op)) {
            Buffer* buffer = matcher.buffer(tensor);
            if (buffer == nullptr || buffer->backed || !first_time(tensor)) continue;
            if (!provide(matcher, account, static_cast<std::int64_t>(buffer->pages()), distance)) return;
            if (buffer->place == Place::absent) bringing = bringing && bring(account, *buffer);
        }
        for (const std::int32_t tensor : script.deaths(op))
            if (const Buffer* buffer = matcher.buffer(tensor); buffer == nullptr || buffer->backed)
                account.room += pages_of(tensor);
    }
}

}  // namespace swapadvisor
