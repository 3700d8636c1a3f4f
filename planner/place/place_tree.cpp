// Places for graphs too long for place_tight.cpp: a segment tree over time says what is free, the tightest
// run is taken.
#include "planner/place/occupancy.h"
#include "planner/place/placement_parts.h"

namespace swapadvisor::planner {

struct TreePlacer::State {
    std::vector<Occupancy> wish, must;  // by region, in its units
    std::vector<ChunkBits> bits;
    Placement good, possible;
};

TreePlacer::TreePlacer(const Setting& setting, std::span<const Stay> stays, const Spans& spans)
    : setting_(setting), stays_(stays), spans_(spans), state_(std::make_unique<State>()) {
    for (const Region& r : setting.allocation.regions) {
        state_->wish.emplace_back(r.slots > 0 ? spans.wish_length : 0);
        state_->must.emplace_back(r.slots > 0 ? spans.must_length : 0);
        state_->bits.emplace_back(r.slots);
    }
}

TreePlacer::~TreePlacer() = default;

bool TreePlacer::fit(std::span<const std::int32_t> group, Placement& at, std::int64_t& delay_ns) {
    const Stay& sample = stays_[static_cast<std::size_t>(group.front())];
    Occupancy &wish = state_->wish[sample.region], &must = state_->must[sample.region];
    ChunkBits& bits = state_->bits[sample.region];
    bits.clear();
    for (const std::int32_t k : group) {
        const auto i = static_cast<std::size_t>(k);
        wish.taken(spans_.wish[i].begin, spans_.wish[i].end, bits);
        wish.taken(spans_.wish_wrapped[i].begin, spans_.wish_wrapped[i].end, bits);
    }
    Placement& good = state_->good;
    bits.free_runs(good);
    at.clear();
    const std::int32_t have = total(good);
    if (have >= sample.units) {
        pick(good, sample.units, at);
    } else {
        bits.clear();
        for (const std::int32_t k : group) {
            const Span& s = spans_.must[static_cast<std::size_t>(k)];
            must.taken(s.begin, s.end, bits);
        }
        Placement& possible = state_->possible;
        bits.free_runs(possible);
        if (total(possible) < sample.units) return false;
        Placement rest = minus(possible, good);
        at = good;
        pick(rest, sample.units - have, at);
        delay_ns += 1;  // not measured here: only that there is one
    }
    tidy(at);
    for (const std::int32_t k : group) {
        const auto i = static_cast<std::size_t>(k);
        wish.add(spans_.wish[i].begin, spans_.wish[i].end, at);
        wish.add(spans_.wish_wrapped[i].begin, spans_.wish_wrapped[i].end, at);
        must.add(spans_.must[i].begin, spans_.must[i].end, at);
    }
    to_chunks(setting_, sample, at);
    return true;
}

}  // namespace swapadvisor::planner
