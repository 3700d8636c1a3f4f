#include <algorithm>

#include "planner/search/chromosome.h"

namespace swapadvisor::planner {

namespace {

struct Class {
    std::size_t top;         // index of its largest size
    std::int32_t least = 0;  // slots that some op needs at once
    std::int32_t live = 0;   // tensors of it live at once in program order
};

/// The classes that `top` makes, in ascending order, with what they need.
std::vector<Class> classes_of(const Problem& problem, const std::vector<std::int32_t>& sizes,
                              const std::vector<std::uint8_t>& top) {
    std::vector<Class> classes;
    std::vector<std::size_t> class_of_size(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        class_of_size[i] = classes.size();
        if (top[i]) classes.push_back({i, 0, 0});
    }
    std::vector<std::size_t> class_of(problem.size.size(), 0);
    std::vector<std::int32_t> born(problem.size.size(), -1), last(problem.size.size(), -1);
    for (std::size_t t = 0; t < problem.size.size(); ++t)
        if (problem.size[t] > 0)
            class_of[t] = class_of_size[static_cast<std::size_t>(
                std::lower_bound(sizes.begin(), sizes.end(), problem.size[t]) - sizes.begin())];
    const auto n = static_cast<std::int32_t>(problem.graph.ops.size());
    std::vector<std::int32_t> count(classes.size(), 0);
    for (OpId op = 0; op < n; ++op) {
        for (const auto& u : problem.uses(op)) {
            Class& c = classes[class_of[u.tensor]];
            c.least = std::max(c.least, ++count[class_of[u.tensor]]);
            if (born[u.tensor] < 0) born[u.tensor] = op;
            last[u.tensor] = op;
        }
        for (const auto& u : problem.uses(op)) count[class_of[u.tensor]] = 0;
    }
    std::vector<std::vector<std::int32_t>> ends(static_cast<std::size_t>(n) + 1),
        begins(static_cast<std::size_t>(n) + 1);
    for (std::size_t t = 0; t < problem.size.size(); ++t) {
        if (problem.size[t] == 0) continue;
        const bool all = problem.graph.tensors[t].persistent;
        begins[static_cast<std::size_t>(all ? 0 : born[t])].push_back(static_cast<std::int32_t>(class_of[t]));
        ends[static_cast<std::size_t>(all ? n : last[t] + 1)].push_back(
            static_cast<std::int32_t>(class_of[t]));
    }
    for (std::size_t p = 0; p <= static_cast<std::size_t>(n); ++p) {
        for (const std::int32_t c : ends[p]) --count[static_cast<std::size_t>(c)];
        for (const std::int32_t c : begins[p]) {
            Class& into = classes[static_cast<std::size_t>(c)];
            into.live = std::max(into.live, ++count[static_cast<std::size_t>(c)]);
        }
    }
    return classes;
}

/// Raises slots to the least that every class needs, lowers them until they fit, and hands out what is left
/// to the class that lacks most bytes. False: impossible.
bool settle_slots(const Problem& problem, const std::vector<std::int32_t>& sizes,
                  const std::vector<Class>& classes, AllocationGenes& genes) {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (!genes.top[i]) genes.slots[i] = 0;
    for (const Class& c : classes) {
        genes.slots[c.top] = std::clamp(genes.slots[c.top], c.least, std::max(c.least, c.live));
        total += std::int64_t{genes.slots[c.top]} * sizes[c.top];
    }
    while (total > problem.chunks) {
        const Class* victim = nullptr;
        std::int64_t most = 0;
        for (const Class& c : classes) {
            const std::int64_t over = std::int64_t{genes.slots[c.top] - c.least} * sizes[c.top];
            if (over > most) most = over, victim = &c;
        }
        if (!victim) return false;
        --genes.slots[victim->top];
        total -= sizes[victim->top];
    }
    while (true) {
        const Class* lucky = nullptr;
        std::int64_t most = 0;
        for (const Class& c : classes) {
            const std::int64_t lacks = std::int64_t{c.live - genes.slots[c.top]} * sizes[c.top];
            if (lacks > most && total + sizes[c.top] <= problem.chunks) most = lacks, lucky = &c;
        }
        if (!lucky) return true;
        ++genes.slots[lucky->top];
        total += sizes[lucky->top];
    }
}

}  // namespace

AllocationGenes shared_genes(std::size_t sizes) {
    AllocationGenes genes;
    genes.top.assign(sizes, 1);
    genes.slots.assign(sizes, 0);
    return genes;
}

AllocationGenes class_genes(const Problem& problem, const std::vector<std::int32_t>& sizes, double ratio) {
    AllocationGenes genes = shared_genes(sizes.size());
    std::size_t group_end = sizes.size();
    for (std::size_t i = sizes.size(); i-- > 0;) {  // from the top: a class spans sizes down to top / ratio
        const bool first = group_end == sizes.size() && i + 1 == sizes.size();
        if (first || static_cast<double>(sizes[i]) * ratio < static_cast<double>(sizes[group_end]))
            group_end = i;
        else
            genes.top[i] = 0;
    }
    if (!settle_slots(problem, sizes, classes_of(problem, sizes, genes.top), genes)) genes.top.clear();
    return genes;
}

AllocationGenes least_classes(const Problem& problem, const std::vector<std::int32_t>& sizes,
                              std::int64_t& chunks) {
    const std::size_t count = sizes.size();
    std::vector<std::vector<OpId>> users(count);
    for (std::size_t op = 0; op < problem.graph.ops.size(); ++op)
        for (const auto& u : problem.uses(static_cast<OpId>(op)))
            users[static_cast<std::size_t>(
                      std::lower_bound(sizes.begin(), sizes.end(), problem.size[u.tensor]) - sizes.begin())]
                .push_back(static_cast<OpId>(op));
    // Best for the smallest k sizes: their last class spans [from, k).
    std::vector<std::int64_t> least(count + 1, INT64_MAX);
    std::vector<std::size_t> last_from(count + 1, 0);
    std::vector<std::int32_t> at_once;
    least[0] = 0;
    for (std::size_t from = 0; from < count; ++from) {
        at_once.assign(problem.graph.ops.size(), 0);
        std::int32_t slots = 0;
        for (std::size_t k = from; k < count; ++k) {
            for (const OpId op : users[k]) slots = std::max(slots, ++at_once[static_cast<std::size_t>(op)]);
            const std::int64_t sum = least[from] + std::int64_t{slots} * sizes[k];
            if (sum < least[k + 1]) least[k + 1] = sum, last_from[k + 1] = from;
        }
    }
    chunks = least[count];
    AllocationGenes genes = shared_genes(count);
    for (std::size_t k = count; k > 0; k = last_from[k])
        for (std::size_t i = last_from[k]; i + 1 < k; ++i) genes.top[i] = 0;
    if (!settle_slots(problem, sizes, classes_of(problem, sizes, genes.top), genes)) genes.top.clear();
    return genes;
}

void mutate_genes(const Problem& problem, const std::vector<std::int32_t>& sizes, bool strict,
                  AllocationGenes& genes, Random& random) {
    if (sizes.empty()) return;
    const std::size_t i = random.below(sizes.size());
    if (!strict) {  // a class gets slots of its own, or shares again
        const auto classes = classes_of(problem, sizes, genes.top);
        const Class& c = classes[random.below(classes.size())];
        if (genes.slots[c.top] > 0)
            genes.slots[c.top] = 0;
        else
            genes.slots[c.top] = c.least + static_cast<std::int32_t>(
                                               random.below(static_cast<std::size_t>(c.live - c.least) + 1));
        return;
    }
    if (random.chance(0.3) && i + 1 < sizes.size()) {  // merge or split a class
        genes.top[i] ^= 1;
        if (!genes.top[i]) {
            std::size_t up = i + 1;
            while (!genes.top[up]) ++up;
            genes.slots[up] += genes.slots[i];
        }
    } else {  // one class gives up slots, which settle_slots hands to another at random here
        const auto classes = classes_of(problem, sizes, genes.top);
        const Class &from = classes[random.below(classes.size())],
                    &to = classes[random.below(classes.size())];
        const std::int32_t give = 1 + static_cast<std::int32_t>(random.below(3));
        genes.slots[from.top] = std::max(from.least, genes.slots[from.top] - give);
        const std::int64_t freed = std::int64_t{give} * sizes[from.top];
        genes.slots[to.top] += std::max<std::int32_t>(1, static_cast<std::int32_t>(freed / sizes[to.top]));
    }
    AllocationGenes settled = genes;
    if (settle_slots(problem, sizes, classes_of(problem, sizes, settled.top), settled))
        genes = std::move(settled);
}

AllocationGenes cross_genes(const AllocationGenes& a, const AllocationGenes& b, std::size_t cut) {
    AllocationGenes child = a;
    for (std::size_t i = cut; i < child.top.size(); ++i) {
        child.top[i] = b.top[i];
        child.slots[i] = b.slots[i];
    }
    return child;
}

}  // namespace swapadvisor::planner
