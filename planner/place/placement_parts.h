// What the ways of placing share: when stays hold their chunks, and sets of chunks as runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "planner/place/placement.h"

namespace swapadvisor::planner {

struct Span {
    std::int32_t begin, end;
};

/// When each stay holds its chunks, in two views. wish: numbers of the dispatcher's events, doubled (odd
/// numbers lie between events). must: positions.
struct Spans {
    std::vector<Span> wish, wish_wrapped,
        must;  // wish_wrapped: empty unless the stay reaches into the next iteration
    std::int32_t wish_length = 0, must_length = 0;
    std::vector<std::int64_t> wish_time;  // by number
};

Spans spans_of(const Problem& problem, std::span<const Stay> stays, const Dispatch& dispatch, std::int32_t n);

std::int32_t total(const Placement& at);
/// Takes `want` chunks from free runs: the tightest run that holds them all, else the largest runs first.
/// Reorders runs.
void pick(Placement& runs, std::int32_t want, Placement& into);
/// Sorted, neighbours merged.
void tidy(Placement& at);
/// Runs of `a` that are not in `b`; both sorted.
Placement minus(const Placement& a, const Placement& b);

/// From units of a stay's region to chunks of the pool.
void to_chunks(const Setting& setting, const Stay& stay, Placement& at);

/// Places groups of stays one after the other.
class Placer {
  public:
    virtual ~Placer() = default;
    /// The same chunks for all stays of `group` (of one tensor). False: there are none. `delay_ns` grows by
    /// how much later than the dispatcher meant some transfer has to start for it.
    virtual bool fit(std::span<const std::int32_t> group, Placement& at, std::int64_t& delay_ns) = 0;
};

/// By tightest fit in time; see place_tight.cpp. Work grows with stays times pieces of the pool.
class TightPlacer final : public Placer {
  public:
    TightPlacer(const Setting& setting, std::span<const Stay> stays, const Spans& spans);
    ~TightPlacer() override;
    bool fit(std::span<const std::int32_t> group, Placement& at, std::int64_t& delay_ns) override;

  private:
    struct State;
    const Setting& setting_;
    std::span<const Stay> stays_;
    const Spans& spans_;
    std::unique_ptr<State> state_;
};

/// By tightest run; see place_tree.cpp. Work grows with stays times the logarithm of time.
class TreePlacer final : public Placer {
  public:
    TreePlacer(const Setting& setting, std::span<const Stay> stays, const Spans& spans);
    ~TreePlacer() override;
    bool fit(std::span<const std::int32_t> group, Placement& at, std::int64_t& delay_ns) override;

  private:
    struct State;
    const Setting& setting_;
    std::span<const Stay> stays_;
    const Spans& spans_;
    std::unique_ptr<State> state_;
};

struct EjectOptions {
    bool allow_remaps = false;
    bool polish =
        false;  ///< where the first places are not good: each tensor once more, where it waits least
    std::int64_t budget = 0;     ///< placements at most
    std::function<bool()> stop;  ///< asked now and then
};

/// Places all stays; see place_eject.cpp. `good` gets what is found, at most twice, and says whether that
/// will do. False when the budget was not enough. Work grows with the square of the stays: not for very long
/// graphs.
bool place_by_ejection(const Setting& setting, std::span<const Stay> stays, const Spans& spans,
                       const EjectOptions& options, const std::function<bool(const Places&)>& good);

void count_remaps(std::span<const Stay> stays, Places& places);

}  // namespace swapadvisor::planner
