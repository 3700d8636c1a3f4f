// Places by tightest fit in time. Chunks with the same history form an atom; a tensor takes the atoms whose
// free time around its residencies is least, so that chunks with long free times stay whole for long
// residencies (and those that have to be back in time for a residency that crosses the boundary are lent to
// short ones).
#include <algorithm>

#include "planner/place/placement_parts.h"

namespace swapadvisor::planner {

namespace {

/// Spans in which an atom is taken, sorted, disjoint.
class Busy {
  public:
    /// Free time around [begin, end) when it is free, else -1. `length`: of the time axis.
    std::int64_t room(const Span& s, std::int32_t length) const {
        const auto next = std::partition_point(spans_.begin(), spans_.end(),
                                               [&](const Span& b) { return b.end <= s.begin; });
        if (next != spans_.end() && next->begin < s.end) return -1;
        // Never used before or after counts as far away: such chunks are kept for those that need them.
        const std::int64_t after =
            next == spans_.end() ? 2 * std::int64_t{length} - s.end : next->begin - s.end;
        const std::int64_t before = next == spans_.begin() ? std::int64_t{length} : s.begin - (next - 1)->end;
        return after + 2 * before;
    }
    /// The longest time by which what is taken and [begin, end) overlap: one of the two has to wait that
    /// long.
    std::int64_t overlap(const Span& s, const std::vector<std::int64_t>& time) const {
        std::int64_t most = 0;
        for (auto b = std::partition_point(spans_.begin(), spans_.end(),
                                           [&](const Span& x) { return x.end <= s.begin; });
             b != spans_.end() && b->begin < s.end; ++b)
            most = std::max(most, time[static_cast<std::size_t>(std::min(b->end, s.end))] -
                                      time[static_cast<std::size_t>(std::max(b->begin, s.begin))]);
        return most;
    }
    void add(const Span& s) {
        if (s.begin >= s.end) return;
        const auto at = std::partition_point(spans_.begin(), spans_.end(),
                                             [&](const Span& b) { return b.begin < s.begin; });
        spans_.insert(at, s);
    }

  private:
    std::vector<Span> spans_;
};

/// The time axis in 64 parts: which of them a span touches, and which it fills. Whoever touches a part that
/// another fills meets it; this settles most cases.
struct Parts {
    explicit Parts(std::int32_t length) : part(length / 64 + 1) {}
    static std::uint64_t run(std::int32_t from, std::int32_t to) {  // bits [from, to)
        if (from >= to) return 0;
        return (to >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << to) - 1) & (~std::uint64_t{0} << from);
    }
    std::uint64_t touched(const Span& s) const {
        return s.begin < s.end ? run(s.begin / part, (s.end - 1) / part + 1) : 0;
    }
    std::uint64_t filled(const Span& s) const { return run((s.begin + part - 1) / part, s.end / part); }
    std::int32_t part;
};

struct Atom {
    std::int32_t first = 0, count = 0;
    Busy wish, must;
    std::uint64_t wish_filled = 0, must_filled = 0;
};

}  // namespace

struct TightPlacer::State {
    std::vector<std::vector<Atom>> regions;
    struct Fit {
        std::int64_t room, delay;
        std::uint32_t atom;
        bool operator<(const Fit& o) const {
            return delay != o.delay ? delay < o.delay : room != o.room ? room < o.room : atom < o.atom;
        }
    };
    std::vector<Fit> good, late;
};

TightPlacer::TightPlacer(const Setting& setting, std::span<const Stay> stays, const Spans& spans)
    : setting_(setting), stays_(stays), spans_(spans), state_(std::make_unique<State>()) {
    for (const Region& r : setting.allocation.regions) {
        state_->regions.emplace_back();
        if (r.slots > 0) state_->regions.back().push_back({0, r.slots, {}, {}, 0, 0});
    }
}

TightPlacer::~TightPlacer() = default;

bool TightPlacer::fit(std::span<const std::int32_t> group, Placement& at, std::int64_t& delay_ns) {
    const Stay& sample = stays_[static_cast<std::size_t>(group.front())];
    auto& atoms = state_->regions[sample.region];
    auto &good = state_->good, &late = state_->late;
    good.clear();
    late.clear();
    std::int64_t have = 0, possible = 0;
    const Parts wish_parts(spans_.wish_length), must_parts(spans_.must_length);
    std::uint64_t wish_touched = 0, must_touched = 0;
    for (const std::int32_t k : group) {
        const auto i = static_cast<std::size_t>(k);
        wish_touched |= wish_parts.touched(spans_.wish[i]) | wish_parts.touched(spans_.wish_wrapped[i]);
        must_touched |= must_parts.touched(spans_.must[i]);
    }
    for (std::uint32_t a = 0; a < atoms.size(); ++a) {
        const Atom& atom = atoms[a];
        std::int64_t room = (atom.wish_filled & wish_touched) != 0 ? -1 : 0;
        for (const std::int32_t k : group) {
            if (room < 0) break;
            const auto i = static_cast<std::size_t>(k);
            std::int64_t part = atom.wish.room(spans_.wish[i], spans_.wish_length);
            if (part >= 0 && spans_.wish_wrapped[i].end > 0 &&
                atom.wish.room(spans_.wish_wrapped[i], spans_.wish_length) < 0)
                part = -1;
            if (part < 0) {
                room = -1;
                break;
            }
            room += part;
        }
        if (room >= 0) {
            good.push_back({room, 0, a});
            have += atom.count;
            continue;
        }
        if ((atom.must_filled & must_touched) != 0) continue;
        room = 0;
        for (const std::int32_t k : group) {
            const std::int64_t part =
                atom.must.room(spans_.must[static_cast<std::size_t>(k)], spans_.must_length);
            if (part < 0) {
                room = -1;
                break;
            }
            room += part;
        }
        if (room >= 0) {
            std::int64_t delay = 0;
            for (const std::int32_t k : group) {
                const auto i = static_cast<std::size_t>(k);
                delay = std::max({delay, atom.wish.overlap(spans_.wish[i], spans_.wish_time),
                                  atom.wish.overlap(spans_.wish_wrapped[i], spans_.wish_time)});
            }
            late.push_back({room, delay, a});
            possible += atom.count;
        }
    }
    if (have + possible < sample.units) return false;
    // Best first, but few are wanted of many.
    const auto later = [](const State::Fit& x, const State::Fit& y) { return y < x; };
    std::make_heap(good.begin(), good.end(), later);
    if (have < sample.units) std::make_heap(late.begin(), late.end(), later);
    at.clear();
    std::int32_t want = sample.units;
    std::int64_t delay = 0;
    while (want > 0) {
        auto& from = good.empty() ? late : good;
        std::pop_heap(from.begin(), from.end(), later);
        const State::Fit f = from.back();
        from.pop_back();
        if (atoms[f.atom].count > want) {  // split: the rest keeps its history
            Atom rest = atoms[f.atom];
            rest.first += want;
            rest.count -= want;
            atoms[f.atom].count = want;
            atoms.push_back(std::move(rest));
        }
        Atom& atom = atoms[f.atom];
        for (const std::int32_t k : group) {
            const auto i = static_cast<std::size_t>(k);
            atom.wish.add(spans_.wish[i]);
            atom.wish.add(spans_.wish_wrapped[i]);
            atom.must.add(spans_.must[i]);
            atom.wish_filled |= wish_parts.filled(spans_.wish[i]) | wish_parts.filled(spans_.wish_wrapped[i]);
            atom.must_filled |= must_parts.filled(spans_.must[i]);
        }
        at.push_back({atom.first, atom.count});
        want -= atom.count;
        delay = std::max(delay, f.delay);
    }
    delay_ns += delay;
    tidy(at);
    to_chunks(setting_, sample, at);
    return true;
}

}  // namespace swapadvisor::planner
