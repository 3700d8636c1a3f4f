#include "planner/search/genetic.h"

#include <tbb/task_arena.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include "planner/base/parallel.h"
#include "planner/bound/bound_advice.h"
#include "planner/search/chromosome.h"
#include "planner/search/judge.h"
#include "planner/search/simple_planners.h"

namespace swapadvisor::planner {

namespace {

constexpr int island_count = 4;
constexpr std::size_t population_size = 6;
constexpr int migration_period = 8;  // generations
constexpr int build_period = 4;      // likewise: places take longer than many candidates
constexpr std::size_t most_tried = 32;
constexpr double worth_remaps =
    1.012;  // by how much a plan must be slower than it would be if places did not matter
constexpr double most_spare = 0.3;
constexpr double much = 1.02;          // times the period without places: a miss
constexpr int few_misses = 3;          // likewise, of seeds
constexpr int most_misses = 6;         // then the island leaves more memory free
constexpr double good_enough = 1.002;  // times a bound: no finer advice
constexpr double comparable = 1.1;     // times the best seed: advice for the program's order too
constexpr double least_spare = 0.02;
constexpr double island_spare[island_count] = {0, 0, least_spare, 0.06};  // part of the memory left free
constexpr std::size_t memory_lengths[island_count] = {4, 2, 8, 16};       // from greedy to patient

struct Island {
    std::vector<Individual> population;  // best first
    Judge judge;
    // Late acceptance (Burke, Bykov 2008): a step may be as bad as the one so many steps ago.
    std::vector<std::int64_t> memory;
    std::size_t memory_at = 0;
    Individual walker;
    double spare = 0;            // part of the memory that it leaves free
    int misses = 0;              // builds in a row whose places cost much
    std::deque<Choices> tried;   // choices that were built, with or without success
    std::optional<Built> built;  // this generation's, for collect()
};

class Search {
  public:
    Search(const Problem& problem, const PlanOptions& options, std::optional<Built> first, Effort& effort)
        : problem_(problem),
          options_(options),
          effort_(effort),
          sizes_(distinct_sizes(problem)),
          strict_(options.classes == "paper"),
          best_(std::move(first)) {}

    Built run();

  private:
    bool stop() const { return options_.over(effort_.spent()); }
    double left_s() const {
        const Spent spent = effort_.spent();
        const double left = options_.seconds - spent.seconds;
        return std::max(0.0, options_.processor_seconds > 0
                                 ? std::min(left, options_.processor_seconds - spent.processor_seconds)
                                 : left);
    }
    bool optimal() const {
        return best_ && best_->sim.remaps == 0 &&
               best_->sim.period_ns <= std::max(problem_.compute_ns, options_.bound_ns);
    }
    std::shared_ptr<const Setting> make_setting(std::vector<OpId> order, const AllocationGenes& genes,
                                                double spare = 0) const {
        return std::make_shared<const Setting>(problem_, std::move(order),
                                               Allocation(problem_, sizes_, genes.top, genes.slots), spare);
    }
    void seed();
    std::vector<AllocationGenes> seed_genes() const;
    std::int64_t best_of(const std::vector<OpId>& order) const;
    std::vector<OpId> best_order(std::vector<OpId> otherwise) const;
    void build_seeds();
    void begin_walks();
    void add_seed(std::size_t island, const std::shared_ptr<const Setting>& setting,
                  const AllocationGenes& genes, Rank by, const Choices* start = nullptr,
                  bool restored = true);
    std::int64_t room_bytes(double spare) const;
    double programme_s() const;
    void seed_from_bounds(const std::vector<OpId>& program);
    void seed_from(const std::vector<GapAdvice>& advice, const std::vector<OpId>& order, std::size_t island);
    void loosen(Island& island, std::size_t index, Random& random);
    void generation(Island& island, std::size_t index, int number);
    bool step(Island& island, const Individual& parent, Individual& child, Random& random);
    bool cross(Island& island, const Individual& a, const Individual& b, Individual& child, Random& random);
    static void insert(Island& island, Individual individual);
    /// Candidates that leave no memory free would crowd out those that do.
    static bool may_join(const Individual& traveller, const Island& island) {
        return island.population.empty() || traveller.setting->spare >= island.spare;
    }
    void build_best(Island& island);
    void collect();
    std::string why_none() const;

    const Problem& problem_;
    const PlanOptions& options_;
    Effort& effort_;
    std::vector<std::int32_t> sizes_;
    bool strict_;
    std::optional<Built> best_;
    std::vector<Island> islands_;
    int steps_ = 0;
};

void Search::add_seed(std::size_t index, const std::shared_ptr<const Setting>& setting,
                      const AllocationGenes& genes, Rank by, const Choices* start, bool restored) {
    if (!setting->possible) return;
    Island& island = islands_[index];
    Individual individual;
    individual.setting = setting;
    individual.genes = genes;
    if (start)
        individual.choice = *start;
    else
        individual.choice.assign(problem_.use_count(), GapChoice::keep);
    const Priorities priorities = rank(*setting, by);
    if (!cover(*setting, priorities, individual.choice)) return;
    std::vector<std::uint32_t> order(setting->gaps.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return priorities.head[a] < priorities.head[b];
    });
    if (restored) restore(*setting, order, individual.choice);
    individual.fitness = island.judge.period(*setting, individual.choice);
    if (individual.fitness == INT64_MAX) return;
    individual.pressure = island.judge.pressure(*setting);
    insert(island, std::move(individual));
}

std::int64_t Search::room_bytes(double spare) const {
    return static_cast<std::int64_t>(static_cast<double>(problem_.chunk_bytes * problem_.chunks) *
                                     (1 - spare));
}

/// Of a thread's time for a programme. A search that ends by steps gives the same result on every machine; one that
/// ends by time must not spend all of it here: some graphs and machines make programmes that take minutes.
double Search::programme_s() const {
    return options_.generations > 0 ? 1e9 : 0.2 * left_s();
}

/// For the most promising order and the program's, what the optimum of the timed bound evicts: roughly first, which
/// makes a good plan soon, then, where that leaves something to gain, as well as can be.
void Search::seed_from_bounds(const std::vector<OpId>& program) {
    std::vector<std::int64_t> bytes;
    for (const std::int32_t chunks : problem_.size) bytes.push_back(problem_.chunk_bytes * chunks);
    std::vector<std::vector<OpId>> orders{best_order(program)};
    if (orders[0] != program &&
        static_cast<double>(best_of(program)) <= comparable * static_cast<double>(best_of(orders[0])))
        orders.push_back(program);
    std::vector<BoundAdvice> guides;
    for (const auto& order : orders) {
        guides.emplace_back(problem_.graph, order, bytes);
        const auto advice = guides.back().next(room_bytes(least_spare), programme_s());
        for (std::size_t island = 0; island < islands_.size(); ++island) seed_from(advice, order, island);
        build_seeds();
        if (stop()) return;
    }
    if (orders.size() > 1 && best_of(program) < best_of(orders[0])) {
        std::swap(orders[0], orders[1]);
        std::swap(guides[0], guides[1]);
    }
    for (std::size_t o = 0; o < orders.size() && !options_.over(effort_.spent(), 0.4); ++o) {
        if (best_ && judged_ns(*best_) <= good_enough * static_cast<double>(std::max(problem_.compute_ns,
                                                                                     guides[o].bound_ns())))
            continue;
        const auto advice = guides[o].next(room_bytes(least_spare), programme_s());
        for (std::size_t island = 0; island < islands_.size(); ++island) seed_from(advice, orders[o], island);
        build_seeds();
    }
}

/// What the advice evicts, from different shares on, is close to what a plan can do. Some islands leave a little
/// memory free: where all of it is taken, places are hard to find.
void Search::seed_from(const std::vector<GapAdvice>& advice, const std::vector<OpId>& order,
                       std::size_t island) {
    if (advice.empty()) return;
    std::map<std::pair<TensorId, OpId>, GapAdvice> by_gap;
    for (const GapAdvice& a : advice) by_gap[{a.tensor, a.from}] = a;
    const AllocationGenes genes = shared_genes(sizes_.size());
    const auto setting = make_setting(order, genes, islands_[island].spare);
    std::size_t at = 0;
    for (const double share : {0.3, 0.5, 0.7, 0.9}) {
        // Half of them each: seeds in another order need room as well.
        if (islands_.size() > 1 && at++ % 2 != island % 2) continue;
        Choices start(problem_.use_count(), GapChoice::keep);
        for (const Gap& gap : setting->gaps) {
            const auto it =
                by_gap.find({gap.tensor, setting->sequence.order[static_cast<std::size_t>(gap.from)]});
            if (it == by_gap.end() || it->second.left < share) continue;
            start[gap.use] =
                gap.wrap && it->second.back_before_end ? GapChoice::evict_tail : GapChoice::evict;
        }
        for (const bool restored : {false, true})
            add_seed(island, setting, genes, Rank::farthest_next, &start, restored);
    }
}

/// Class genes to begin with.
std::vector<AllocationGenes> Search::seed_genes() const {
    if (!strict_) return {shared_genes(sizes_.size())};
    std::vector<AllocationGenes> genes;
    for (const double ratio : {1.0, 1.1, 1.26, 1.6, 2.1, 4.1, 16.1, 1e18}) {
        AllocationGenes g = class_genes(problem_, sizes_, ratio);
        if (!g.top.empty() && std::find(genes.begin(), genes.end(), g) == genes.end())
            genes.push_back(std::move(g));
    }
    if (genes.empty()) {
        std::int64_t chunks = 0;
        AllocationGenes g = least_classes(problem_, sizes_, chunks);
        if (!g.top.empty()) genes.push_back(std::move(g));
    }
    return genes;
}

void Search::seed() {
    islands_.resize(options_.genetic ? island_count : 1);
    for (std::size_t i = 0; i < islands_.size(); ++i) islands_[i].spare = island_spare[i];
    std::vector<OpId> program(problem_.graph.ops.size());
    std::iota(program.begin(), program.end(), 0);
    std::vector<std::vector<OpId>> orders{program};
    if (options_.reorder && program.size() <= 20000)
        for (auto make : {early_release_order, frugal_order})
            if (auto order = make(problem_); std::find(orders.begin(), orders.end(), order) == orders.end())
                orders.push_back(std::move(order));
    const Rank ranks[] = {Rank::farthest_next, Rank::longest_gap, Rank::largest_gap};
    std::size_t at = 0;
    for (const AllocationGenes& g : seed_genes())
        for (const auto& order : orders) {
            const auto setting = make_setting(order, g);
            for (const Rank by : ranks) {
                add_seed(at % islands_.size(), setting, g, by);
                ++at;
                if (stop() && best_) return begin_walks();
            }
        }
    if (!strict_ && options_.vary_swaps && options_.guided) {
        build_seeds();
        if (!stop()) seed_from_bounds(program);
    }
    begin_walks();
}

/// The best candidate in this order.
std::int64_t Search::best_of(const std::vector<OpId>& order) const {
    std::int64_t best = INT64_MAX;
    for (const Island& island : islands_)
        for (const Individual& individual : island.population)
            if (individual.fitness < best && individual.setting->sequence.order == order)
                best = individual.fitness;
    return best;
}

/// That of the best seed.
std::vector<OpId> Search::best_order(std::vector<OpId> otherwise) const {
    const Individual* best = nullptr;
    for (const Island& island : islands_)
        if (!island.population.empty() && (!best || island.population.front().fitness < best->fitness))
            best = &island.population.front();
    return best ? best->setting->sequence.order : otherwise;
}

void Search::build_seeds() {
    for (std::size_t i = 0; i < islands_.size(); ++i) {
        Island& island = islands_[i];
        build_best(island);
        collect();
        if (stop()) return;
        if (island.misses < few_misses || island.spare >= most_spare) continue;
        Random random(options_.seed, i, static_cast<std::uint64_t>(1000 * island.spare));
        loosen(island, i, random);
        build_best(island);
        collect();
        if (stop()) return;
    }
}

/// Each island walks from its best; one without a seed of its own starts from its neighbour's.
void Search::begin_walks() {
    for (std::size_t round = 0; round < islands_.size(); ++round)
        for (std::size_t i = 0; i < islands_.size(); ++i) {
            const Island& neighbour = islands_[(i + 1) % islands_.size()];
            if (islands_[i].population.empty() && !neighbour.population.empty())
                islands_[i].population.push_back(neighbour.population.front());
        }
    for (std::size_t i = 0; i < islands_.size(); ++i) {
        Island& island = islands_[i];
        if (island.population.empty()) continue;
        island.walker = island.population.front();
        island.memory.assign(memory_lengths[i], island.walker.fitness);
    }
}

/// Best first; a candidate as good as one that is there already adds nothing.
void Search::insert(Island& island, Individual individual) {
    auto& all = island.population;
    const auto at = std::lower_bound(all.begin(), all.end(), individual.fitness,
                                     [](const Individual& a, std::int64_t f) { return a.fitness < f; });
    if (at != all.end() && at->fitness == individual.fitness) {
        *at = std::move(individual);
        return;
    }
    all.insert(at, std::move(individual));
    if (all.size() > population_size) all.pop_back();
}

/// One mutation of a parent; false when it came to nothing.
bool Search::step(Island& island, const Individual& parent, Individual& child, Random& random) {
    const double which = random.unit();
    child.setting = parent.setting;
    child.genes = parent.genes;
    child.choice = parent.choice;
    const bool order = options_.reorder && which < 0.15;
    const bool allocation = options_.vary_allocation && !order && which < (strict_ ? 0.4 : 0.17);
    if (order || allocation) {
        std::vector<OpId> ops = parent.setting->sequence.order;
        if (order && !mutate_order(problem_, ops, random)) return false;
        if (allocation) mutate_genes(problem_, sizes_, strict_, child.genes, random);
        child.setting = make_setting(std::move(ops), child.genes, parent.setting->spare);
        if (!child.setting->possible) return false;
        adapt_choice(*child.setting, child.choice);
        if (!repair(*child.setting, order ? nullptr : &parent.pressure, child.choice, random)) return false;
    } else if (options_.vary_swaps) {
        if (!mutate_choice(parent, child.choice, random)) return false;
    } else {
        return false;
    }
    child.fitness = island.judge.period(*child.setting, child.choice);
    return child.fitness != INT64_MAX;
}

bool Search::cross(Island& island, const Individual& a, const Individual& b, Individual& child,
                   Random& random) {
    const std::size_t n = problem_.graph.ops.size();
    const std::size_t cut = random.below(n + 1);
    child.genes = options_.vary_allocation && random.chance(0.5)
                      ? cross_genes(a.genes, b.genes, random.below(sizes_.size() + 1))
                      : a.genes;
    child.setting = a.setting;
    const bool same_order = a.setting->sequence.order == b.setting->sequence.order;
    if (!same_order || !(child.genes == a.genes)) {
        child.setting = make_setting(cross_orders(a.setting->sequence.order, b.setting->sequence.order, cut),
                                     child.genes, a.setting->spare);
        if (!child.setting->possible) return false;
    }
    Choices other = b.choice;
    adapt_choice(*child.setting, other);
    Choices own = a.choice;
    adapt_choice(*child.setting, own);
    if (!cross_choice(*child.setting, own, other, static_cast<std::int32_t>(cut), child.choice, random))
        return false;
    child.fitness = island.judge.period(*child.setting, child.choice);
    if (child.fitness == INT64_MAX) return false;
    child.pressure = island.judge.pressure(*child.setting);
    return true;
}

/// Where places are hard to find, candidates that use less of the memory make the better plans.
void Search::loosen(Island& island, std::size_t index, Random& random) {
    island.misses = 0;
    island.spare = std::min(most_spare, std::max(2 * least_spare, 1.5 * island.spare));
    std::vector<Individual> before = std::move(island.population);
    island.population.clear();
    for (Individual& individual : before) {
        individual.setting = make_setting(individual.setting->sequence.order, individual.genes, island.spare);
        if (!individual.setting->possible || !repair(*individual.setting, nullptr, individual.choice, random))
            continue;
        individual.fitness = island.judge.period(*individual.setting, individual.choice);
        if (individual.fitness == INT64_MAX) continue;
        individual.pressure = island.judge.pressure(*individual.setting);
        insert(island, std::move(individual));
    }
    if (island.population.empty()) return;
    island.walker = island.population.front();
    island.memory.assign(memory_lengths[index], island.walker.fitness);
}

void Search::generation(Island& island, std::size_t index, int number) {
    Random random(options_.seed, static_cast<std::uint64_t>(number), index);
    if (island.misses >= most_misses && island.spare < most_spare) loosen(island, index, random);
    if (island.population.empty()) return;
    Individual child;
    // The walk: late acceptance from the island's best.
    if (island.walker.fitness > island.population.front().fitness + island.population.front().fitness / 100) {
        island.walker = island.population.front();
        island.memory.assign(memory_lengths[index], island.walker.fitness);
    }
    std::int64_t inserted = island.population.front().fitness;
    for (int k = 0; k < steps_ && !options_.cancelled(); ++k) {
        if (!step(island, island.walker, child, random)) continue;
        std::int64_t& remembered = island.memory[island.memory_at];
        island.memory_at = (island.memory_at + 1) % island.memory.size();
        if (child.fitness <= island.walker.fitness || child.fitness <= remembered) {
            std::swap(island.walker, child);
            island.walker.pressure = island.judge.pressure(*island.walker.setting);
            if (island.walker.fitness < inserted) {
                inserted = island.walker.fitness;
                insert(island, island.walker);
            }
        }
        remembered = std::min(remembered, island.walker.fitness);
    }
    if (!options_.genetic) return;
    // The population: crossover of two, then a short climb.
    for (int k = 0; k < std::max(1, steps_ / 16); ++k) {
        auto& all = island.population;
        if (all.size() < 2) break;
        const std::size_t a = std::min(random.below(all.size()), random.below(all.size()));
        std::size_t b = random.below(all.size());
        if (a == b) b = (b + 1) % all.size();
        Individual born;
        if (!cross(island, all[a], all[b], born, random)) continue;
        for (int climb = 0; climb < 4; ++climb)
            if (step(island, born, child, random) && child.fitness <= born.fitness) {
                std::swap(born, child);
                born.pressure = island.judge.pressure(*born.setting);
            }
        if (born.fitness < all.back().fitness || all.size() < population_size)
            insert(island, std::move(born));
    }
}

/// The island's best as a plan, if it may be better than the best so far; where it finds no places, the next
/// best. Once all are done, the walker: of candidates as good as each other, some find better places.
void Search::build_best(Island& island) {
    const std::int64_t best = best_ ? static_cast<std::int64_t>(judged_ns(*best_)) : INT64_MAX;
    BuildOptions options;
    options.place.attempts = 4;
    if (best_) options.stop = [this] { return stop(); };
    const auto attempt = [&](const Individual& candidate) {
        if (!candidate.setting || candidate.fitness >= best) return false;
        const auto tried = std::find(island.tried.begin(), island.tried.end(), candidate.choice);
        if (tried != island.tried.end()) return false;
        if (island.tried.size() >= most_tried) island.tried.pop_front();
        island.tried.push_back(candidate.choice);
        // Without remaps first, as if they were not allowed: with them only where that leaves much to gain, so that
        // allowing them costs nothing elsewhere.
        options.place.allow_remaps = false;
        auto built = build(*candidate.setting, candidate.choice, options);
        if (const std::int64_t so_far = std::min(best, built ? built->sim.period_ns : INT64_MAX);
            !options_.no_remaps &&
            static_cast<double>(so_far) > worth_remaps * static_cast<double>(candidate.fitness)) {
            BuildOptions moving = options;
            moving.place.allow_remaps = true;
            if (best_ || built) moving.place.ejections = 0;  // tried above
            auto moved = build(*candidate.setting, candidate.choice, moving);
            if (moved && (!built || better(*moved, *built))) built = std::move(moved);
        }
        const bool missed = !built || judged_ns(*built) > much * static_cast<double>(candidate.fitness);
        island.misses = missed ? island.misses + 1 : 0;
        if (built && (!island.built || better(*built, *island.built))) island.built = std::move(built);
        return true;
    };
    int attempts = 0;
    for (const Individual& candidate : island.population) {
        if (!attempt(candidate)) continue;
        if (++attempts == 3 || (island.built && static_cast<std::int64_t>(judged_ns(*island.built)) < best))
            return;
    }
    if (attempts == 0) attempt(island.walker);
}

/// Between generations: the islands' new plans, in order.
void Search::collect() {
    for (Island& island : islands_) {
        if (island.built && (!best_ || better(*island.built, *best_))) {
            best_ = std::move(island.built);
            if (options_.on_better) options_.on_better(best_->plan, effort_.spent());
        }
        island.built.reset();
    }
}

std::string Search::why_none() const {
    const std::string limit = "the limit of " + std::to_string(problem_.limit_bytes) + " bytes";
    if (!strict_) return "no plan found within " + limit + " under these options: raise the limit";
    std::int64_t chunks = 0;
    least_classes(problem_, sizes_, chunks);
    const std::int64_t needed = chunks * problem_.chunk_bytes + problem_.arena_bytes;
    const std::string what =
        "strict reuse within size classes keeps, for every class, as many slots as some op "
        "needs of it at once, which takes at least " +
        std::to_string(needed) + " bytes here, ";
    if (needed > problem_.graph.device.memory_bytes)
        return what + "more than the device has: use --classes ours";
    if (needed > problem_.limit_bytes)
        return what + "more than " + limit + ": raise the limit to that or use --classes ours";
    return what + "but no plan was found within " + limit +
           ": raise the limit, search longer or use --classes ours";
}

Built Search::run() {
    steps_ = static_cast<int>(
        std::clamp<std::size_t>(400000 / (problem_.graph.ops.size() + problem_.use_count() / 2 + 1), 4, 200));
    if (!optimal()) {
        tbb::task_arena arena(options_.threads > 0 ? options_.threads : tbb::task_arena::automatic);
        seed();
        build_seeds();
        for (int number = 1; !stop() && !optimal(); ++number) {
            if (options_.generations > 0 && number > options_.generations) break;
            arena.execute([&] {
                in_parallel(effort_, islands_.size(), [&](std::size_t i) {
                    Island& island = islands_[i];
                    generation(island, i, number);
                    const bool optimal_now = !island.population.empty() &&
                                             island.population.front().fitness <= problem_.compute_ns;
                    if (number <= build_period || number % build_period == 0 || optimal_now)
                        build_best(island);
                });
            });
            if (islands_.size() > 1 && number % migration_period == 0) {
                std::vector<Individual> travellers;
                for (const Island& island : islands_)
                    travellers.push_back(island.population.empty() ? Individual{}
                                                                   : island.population.front());
                for (std::size_t i = 0; i < islands_.size(); ++i)
                    if (travellers[i].setting && may_join(travellers[i], islands_[(i + 1) % islands_.size()]))
                        insert(islands_[(i + 1) % islands_.size()], std::move(travellers[i]));
            }
            collect();
        }
        for (Island& island : islands_) build_best(island);
        collect();
    }
    if (!best_) throw PlanError(why_none());
    return std::move(*best_);
}

}  // namespace

Built search(const Problem& problem, const PlanOptions& options, std::optional<Built> first, Effort& effort) {
    return Search(problem, options, std::move(first), effort).run();
}

}  // namespace swapadvisor::planner
