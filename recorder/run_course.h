// A whole run in a few hundred samples, however long it is: what was held and copied from its first op to its last, and which call
// sites hold more and more.
//
// Method. A sample covers a stretch of ops; when there are too many, each two become one and stretches are twice as long. A site is said to
// grow if the least that it held in each of many stretches never falls and mostly rises, over the last three quarters of the run: what
// comes and goes within an iteration has the same least in every stretch that is longer than one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "recorder/report_model.h"

namespace swapadvisor {

class RunCourse {
  public:
    void allocated(std::uint64_t site, std::int64_t bytes);
    void released(std::uint64_t site, std::int64_t bytes);
    void absent(std::int64_t bytes) {
        absent_ = absent_ + bytes;
    }  ///< that much more of what is live is not on the device
    void copied(std::int64_t in_bytes, std::int64_t out_bytes);
    void stalled(std::int64_t ns) { now_.stall_ns += ns; }
    void op(std::uint64_t host_ns);
    void plan_began();

    /// Of `ops_per_iteration` (0: unknown) the growth per iteration; sites in `Growth::site` are numbers still: `name(site)`.
    template <class Name>
    void fill(ReportModel& m, std::int64_t ops_per_iteration, Name&& name) const {
        m.run = samples_;
        if (now_.ops > 0) m.run.push_back(now_);
        m.plan_began_op = plan_began_;
        for (const Growth& g : growing(ops_per_iteration))
            m.growing.push_back({name(g.site), g.from, g.to, g.per_iteration});
    }

  private:
    struct Growth {
        std::uint64_t site;
        std::int64_t from, to, per_iteration;
    };
    struct Site {
        std::int64_t bytes = 0, least = 0;
        std::vector<std::int64_t> leasts;  // one for each stretch
    };
    void changed(std::int64_t bytes);
    void end_stretch();
    std::vector<Growth> growing(std::int64_t ops_per_iteration) const;

    static constexpr std::size_t kMostSamples = 512, kMostStretches = 48;
    std::vector<ReportModel::RunSample> samples_;
    ReportModel::RunSample now_;
    std::int64_t sample_ops_ = 1, stretch_ops_ = 1, ops_ = 0, in_stretch_ = 0;
    std::int64_t live_ = 0, absent_ = 0, plan_began_ = kUnknown;
    std::uint64_t first_ns_ = 0;
    std::size_t stretches_ = 0;
    std::map<std::uint64_t, Site> sites_;
};

}  // namespace swapadvisor
