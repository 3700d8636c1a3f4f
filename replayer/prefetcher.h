// Without a plan: brings what the program is about to use before it asks for it, by the order of the
// iteration that it repeats, and starts the copies out of what has to go for that.
//
// Looks some ops ahead and keeps account of the device memory on the way there: what is born or has to come,
// what dies. What comes goes where memory is free by then; where none is, a buffer has to leave whose next
// use lies farther ahead than the need. Its copy out starts at once, but it stays usable where it is until
// somebody takes its memory, so that a guess that was wrong costs a copy and nothing else. Nothing here waits
// for the device: what is not done yet is looked at again after the next op.
#pragma once

#include <cstdint>
#include <vector>

#include "replayer/iteration_matcher.h"
#include "replayer/residency.h"

namespace swapadvisor {

class Prefetcher {
  public:
    explicit Prefetcher(Residency& residency) : residency_(residency) {}

    /// The op before `matcher.position()` was issued. Not while a plan is followed.
    void advance(const IterationMatcher& matcher);

  private:
    /// The account of one look ahead, in pages.
    struct Account {
        std::int64_t room = 0;     ///< that is free at the op that is looked at, if nobody is sent away
        std::int64_t lowest = 0;   ///< of `room` on the way there
        std::int64_t leaving = 0;  ///< held by those that are on their way out already
    };
    bool provide(const IterationMatcher& matcher, Account& account, std::int64_t pages,
                 std::uint64_t distance);
    bool bring(Account& account, Buffer& buffer);
    bool busy();

    Residency& residency_;
    std::vector<std::uint32_t> seen_;  ///< by tensor: the last look that has counted it
    std::uint32_t look_ = 0;
    std::vector<Mark> arriving_;  ///< our copies in that may not be done, oldest first
};

}  // namespace swapadvisor
