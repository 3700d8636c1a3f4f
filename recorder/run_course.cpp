#include "recorder/run_course.h"

#include <algorithm>

#include "recorder/history.h"

namespace swapadvisor {

void RunCourse::changed(std::int64_t bytes) {
    live_ = wrapping_add(live_, bytes);
    now_.least_live_bytes = std::min(now_.least_live_bytes, live_);
    now_.most_live_bytes = std::max(now_.most_live_bytes, live_);
    now_.most_resident_bytes = std::max(now_.most_resident_bytes, wrapping_add(live_, -absent_));
}

void RunCourse::allocated(std::uint64_t site, std::int64_t bytes) {
    Site& s = sites_[site];
    if (s.leasts.empty()) s.leasts.assign(stretches_, 0);
    s.bytes = wrapping_add(s.bytes, bytes);
    changed(bytes);
}

void RunCourse::released(std::uint64_t site, std::int64_t bytes) {
    Site& s = sites_[site];
    s.bytes = wrapping_add(s.bytes, -bytes);
    s.least = std::min(s.least, s.bytes);
    changed(-bytes);
}

void RunCourse::copied(std::int64_t in_bytes, std::int64_t out_bytes) {
    now_.in_bytes = wrapping_add(now_.in_bytes, in_bytes);
    now_.out_bytes = wrapping_add(now_.out_bytes, out_bytes);
}

void RunCourse::plan_began() {
    if (plan_began_ == kUnknown) plan_began_ = ops_;
}

void RunCourse::op(std::uint64_t host_ns) {
    if (ops_++ == 0) first_ns_ = host_ns;
    if (++in_stretch_ >= stretch_ops_) end_stretch();
    changed(0);
    now_.end_ns = static_cast<std::int64_t>(host_ns - std::min(host_ns, first_ns_));
    if (++now_.ops < sample_ops_) return;
    samples_.push_back(now_);
    now_ = {};
    now_.least_live_bytes = now_.most_live_bytes = live_;
    if (samples_.size() < kMostSamples) return;
    for (std::size_t i = 0; i < kMostSamples / 2; ++i) {
        const ReportModel::RunSample &a = samples_[2 * i], &b = samples_[2 * i + 1];
        samples_[i] = {a.ops + b.ops,
                       b.end_ns,
                       std::min(a.least_live_bytes, b.least_live_bytes),
                       std::max(a.most_live_bytes, b.most_live_bytes),
                       std::max(a.most_resident_bytes, b.most_resident_bytes),
                       wrapping_add(a.in_bytes, b.in_bytes),
                       wrapping_add(a.out_bytes, b.out_bytes),
                       wrapping_add(a.stall_ns, b.stall_ns)};
    }
    samples_.resize(kMostSamples / 2);
    sample_ops_ *= 2;
}

void RunCourse::end_stretch() {
    in_stretch_ = 0;
    const bool halve = ++stretches_ == kMostStretches;
    for (auto& [site, s] : sites_) {
        s.leasts.push_back(s.least);
        s.least = s.bytes;
        if (!halve) continue;
        for (std::size_t i = 0; i < kMostStretches / 2; ++i)
            s.leasts[i] = std::min(s.leasts[2 * i], s.leasts[2 * i + 1]);
        s.leasts.resize(kMostStretches / 2);
    }
    if (!halve) return;
    stretches_ = kMostStretches / 2;
    stretch_ops_ *= 2;
}

std::vector<RunCourse::Growth> RunCourse::growing(std::int64_t ops_per_iteration) const {
    constexpr std::size_t kFewest = 12;
    constexpr std::int64_t kLeast = 16 << 10;
    std::vector<Growth> found;
    // A stretch must hold whole iterations.
    if (stretches_ < kFewest || stretch_ops_ < std::max<std::int64_t>(2 * ops_per_iteration, 4)) return found;
    const std::size_t first = stretches_ / 4;
    for (const auto& [site, s] : sites_) {
        std::size_t rises = 0, falls = 0;
        for (std::size_t i = first + 1; i < stretches_; ++i) {
            rises += s.leasts[i] > s.leasts[i - 1];
            falls += s.leasts[i] < s.leasts[i - 1];
        }
        const std::int64_t from = s.leasts[first], to = s.leasts[stretches_ - 1];
        const std::size_t steps = stretches_ - 1 - first;
        if (falls > 0 || rises * 4 < steps * 3 || to - from < kLeast) continue;
        if (ops_per_iteration <= 0) {
            found.push_back({site, from, to, 0});
            continue;
        }
        const double iterations = static_cast<double>(steps) * static_cast<double>(stretch_ops_) /
                                  static_cast<double>(ops_per_iteration);
        found.push_back(
            {site, from, to, static_cast<std::int64_t>(static_cast<double>(to - from) / iterations + 0.5)});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Growth& a, const Growth& b) { return a.to - a.from > b.to - b.from; });
    return found;
}

}  // namespace swapadvisor
