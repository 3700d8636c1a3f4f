// One candidate of the search: its two chromosomes (order, allocation) and the swap choices that go with
// them, and the operators that change and cross them. Every operator keeps an order topological.
#pragma once

#include <memory>
#include <vector>

#include "planner/base/random.h"
#include "planner/problem/setting.h"
#include "planner/swap/select.h"

namespace swapadvisor::planner {

/// Size -> class, class -> slots; see Allocation. Indexed by distinct size, ascending.
struct AllocationGenes {
    std::vector<std::uint8_t> top;
    std::vector<std::int32_t> slots;
    bool operator==(const AllocationGenes&) const = default;
};

struct Stall {
    std::int32_t position;
    std::int64_t ns;
    bool for_in;  ///< waits for an `in`; else for memory
};

/// Where a candidate loses time, and what a transfer would cost there.
struct Pressure {
    std::vector<Stall> stalls;
    /// By position: 1 when an `in` for the op there (a write-back after it) adds to a run of transfers that
    /// makes an op wait, 0 when the queue has time for it.
    std::vector<float> in, out;
};

struct Individual {
    std::shared_ptr<const Setting> setting;
    AllocationGenes genes;
    Choices choice;
    std::int64_t fitness = INT64_MAX;  ///< period of the dispatcher
    Pressure pressure;
};

// Order.
/// Moves one op to another position that its dependencies allow. False: it has no play.
bool mutate_order(const Problem& problem, std::vector<OpId>& order, Random& random);
/// The first ops as `a` has them, the rest in the order of `b`.
std::vector<OpId> cross_orders(const std::vector<OpId>& a, const std::vector<OpId>& b, std::size_t cut);
/// Among the ops that may come next, the one that leaves least memory taken: a seed.
std::vector<OpId> frugal_order(const Problem& problem);
/// Program order, but what gives memory back (an update that is the last to read its gradient) goes as soon as it may.
std::vector<OpId> early_release_order(const Problem& problem);

// Allocation.
/// One region for all.
AllocationGenes shared_genes(std::size_t sizes);
/// Strict classes: sizes within `ratio` share one; slots by what every op needs, the rest by what is live at
/// once. Empty `top` when even the least does not fit.
AllocationGenes class_genes(const Problem& problem, const std::vector<std::int32_t>& sizes, double ratio);
/// The strict classes that can do with least, with the `chunks` that they take when every class has just the
/// slots that some op needs at once. Empty `top` when even these do not fit.
AllocationGenes least_classes(const Problem& problem, const std::vector<std::int32_t>& sizes,
                              std::int64_t& chunks);
void mutate_genes(const Problem& problem, const std::vector<std::int32_t>& sizes, bool strict,
                  AllocationGenes& genes, Random& random);
AllocationGenes cross_genes(const AllocationGenes& a, const AllocationGenes& b, std::size_t cut);

// Swaps. Each leaves choices that fit the regions, or returns false.
/// Flips a few gaps, guided by the stalls, and repairs the rest around them.
bool mutate_choice(const Individual& parent, Choices& choice, Random& random);
/// Gaps that open before position `cut` as `a` has them, the others as `b` has them; repaired.
bool cross_choice(const Setting& setting, const Choices& a, const Choices& b, std::int32_t cut, Choices& into,
                  Random& random);
/// Choices made for another order: drops those that mean nothing here.
void adapt_choice(const Setting& setting, Choices& choice);
/// Makes any choices fit (evicts more), then keeps again what needs no eviction. `pressure`, of the parent in
/// the same order, steers both; may be null.
bool repair(const Setting& setting, const Pressure* pressure, Choices& choice, Random& random);

}  // namespace swapadvisor::planner
