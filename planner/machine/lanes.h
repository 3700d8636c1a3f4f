// The two directions of the link as the planner's own machines see them: in doubles, since the simulator is
// the exact one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "planner/machine/simulator.h"

namespace swapadvisor::planner {

inline constexpr std::int64_t never = INT64_MAX;

/// One direction.
struct Lane {
    bool busy = false, moving = false;
    std::int64_t event = never;
    double left = 0;  // bytes, at as_of
    std::int64_t as_of = 0;
    double rate = 1;
    std::int32_t stay = -1;
    bool last_iteration = false;

    void settle(std::int64_t now) {
        left = std::max(0.0, left - rate * 1e-9 * static_cast<double>(now - as_of));
        as_of = now;
    }
    void set_rate(std::int64_t now, double r) {
        rate = r;
        event = now + static_cast<std::int64_t>(std::ceil(left / r * 1e9));
    }
};

struct Link {
    double in_alone, out_alone, in_both, out_both;
    bool coupled;
    explicit Link(const LinkRates& r)
        : in_alone(static_cast<double>(r.in_alone)),
          out_alone(static_cast<double>(r.out_alone)),
          in_both(static_cast<double>(r.in_both)),
          out_both(static_cast<double>(r.out_both)),
          coupled(r.coupled) {}

    /// True when the transfer has ended.
    bool advance(Lane& lane, Lane& other, bool is_in, std::int64_t now) const {
        if (!lane.busy || lane.event > now) return false;
        if (coupled && !lane.moving) {
            lane.moving = true;
            lane.as_of = now;
            lane.set_rate(now, other.moving ? (is_in ? in_both : out_both) : (is_in ? in_alone : out_alone));
            if (other.moving) {
                other.settle(now);
                other.set_rate(now, is_in ? out_both : in_both);
            }
            if (lane.event > now) return false;
        }
        if (coupled) {
            lane.moving = false;
            if (other.moving) {
                other.settle(now);
                other.set_rate(now, is_in ? out_alone : in_alone);
            }
        }
        lane.busy = false;
        lane.event = never;
        return true;
    }
    void start(Lane& lane, std::int64_t now, std::int64_t latency, std::int64_t alone_ns,
               std::int64_t bytes) const {
        lane.busy = true;
        lane.moving = false;
        lane.left = static_cast<double>(bytes);
        lane.event = now + (coupled ? latency : alone_ns);
    }
};

}  // namespace swapadvisor::planner
