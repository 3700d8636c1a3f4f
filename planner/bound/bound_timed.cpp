// The timed programme: transfers need time of their queue, and a stalled nanosecond gives one to every queue.
// It has a column for every slot in which a gap may be left or ended; columns join only when they may help
// (column generation, as in Dantzig and Wolfe, "Decomposition Principle for Linear Programs", 1960; the
// prices are smoothed towards the best ones so far as in Wentges, "Weighted Dantzig-Wolfe decomposition",
// 1997).
#include <map>
#include <set>

#include "planner/base/time_left.h"
#include "planner/bound/bound_lp.h"

namespace swapadvisor::planner::bounds {
namespace {

// ClpSolve's third special option: 1 keeps it from taking SIGINT, which is the program's, while it solves.
constexpr int kInterrupts = 2, kLeaveToProgram = 1;

// Rounds without a better proof after which more are not worth their time: what is left to gain is then tiny,
// though the programme itself would need many more to know that.
constexpr int patience = 12;

Prices mix(const Prices& a, const Prices& b, double share) {
    Prices sum = a;
    for (auto list :
         {&Prices::room, &Prices::in, &Prices::out, &Prices::in_and_out, &Prices::out_and_in, &Prices::late})
        for (std::size_t k = 0; k < (sum.*list).size(); ++k)
            (sum.*list)[k] = share * (a.*list)[k] + (1 - share) * (b.*list)[k];
    return sum;
}

class Timed {
  public:
    Timed(const Model& model, int samples) : model_(model), residency_(model) {
        residency_.add_rows(rows_);
        const auto per_slot = [&](std::vector<int>& list, const std::vector<double>& time, double slack) {
            for (int k = 0; k < model.slots; ++k)
                list.push_back(rows_.add(-COIN_DBL_MAX, (time[k] + slack) / ms));
        };
        per_slot(in_, model.time_ns, 0);
        per_slot(out_, model.time_ns, 0);
        per_slot(late_, model.late_ns, 0);
        if (model.link.coupled()) {
            const double slack = 2 * (1 - model.link.theta) * model.link.latency_ns;
            per_slot(both_, model.time_ns, slack);
            per_slot(mirror_, model.time_ns, slack);
        }
        for (std::size_t v = 0; v < model.versions.size(); ++v)
            for (std::size_t j = 0; j < model.versions[v].gaps.size(); ++j) {
                const bool clean = model.versions[v].clean;
                GapRows g;
                g.version = static_cast<int>(v);
                g.index = static_cast<int>(j);
                g.even = rows_.add(0, 0);
                g.once = rows_.add(-COIN_DBL_MAX, 1);
                // A save before the gap lets go for free at its start.
                g.free_start = clean || model.versions[v].gaps[j].first > model.versions[v].born;
                if (!clean && g.free_start) g.saved = rows_.add(-COIN_DBL_MAX, 0);
                gaps_.push_back(g);
            }
        quiet(lp_);
        rows_.add_to(lp_);
        Columns columns;
        residency_.add_columns(model, columns);
        for (int k = 0; k < model.slots; ++k) {  // stalls
            columns.begin(1, 0, COIN_DBL_MAX);
            for (const auto* list : {&in_, &out_, &late_, &both_, &mirror_})
                if (!list->empty()) columns.entry((*list)[k], -1);
        }
        for (std::size_t g = 0; g < gaps_.size(); ++g) first_columns(columns, static_cast<int>(g), samples);
        columns.add_to(lp_);
    }

    // Solves over the columns there are. False if stopped early.
    bool solve(double seconds, bool first) {
        lp_.setMaximumSeconds(seconds);
        if (first) {
            ClpSolve how;
            how.setSolveType(ClpSolve::usePrimal);  // many times faster here than the dual
            how.setPresolveType(ClpSolve::presolveOff);
            how.setSpecialOption(kInterrupts, kLeaveToProgram);
            lp_.initialSolve(how);
        } else {
            lp_.primal(1);
        }
        return lp_.status() == 0;
    }
    double objective() const { return lp_.objectiveValue() * ms + model_.compute_ns; }
    int columns() const { return lp_.numberColumns(); }

    Prices prices() const {
        Prices prices(model_.slots);
        const double* duals = lp_.dualRowSolution();
        const double* reduced = lp_.dualColumnSolution();
        for (int k = 0; k < model_.slots; ++k) {
            prices.room[k] = std::max(0.0, -reduced[k]) * ms / gib;
            prices.in[k] = -duals[in_[k]];
            prices.out[k] = -duals[out_[k]];
            prices.late[k] = -duals[late_[k]];
            if (!both_.empty()) {
                prices.in_and_out[k] = -duals[both_[k]];
                prices.out_and_in[k] = -duals[mirror_[k]];
            }
        }
        return prices;
    }

    // Adds columns with a negative reduced cost. Returns how many.
    int grow() {
        const double* duals = lp_.dualRowSolution();
        Columns columns;
        for (std::size_t g = 0; g < gaps_.size(); ++g) price_gap(static_cast<int>(g), duals, columns);
        const int added = columns.count();
        if (added > 0) columns.add_to(lp_);
        return added;
    }

    // Adds the columns of given strategies, and of the slots up to `around` beside, that are not there yet.
    // Returns how many.
    int add(const std::vector<Strategy>& strategies, int around) {
        Columns columns;
        for (std::size_t g = 0; g < gaps_.size(); ++g) {
            const GapRows& rows = gaps_[g];
            const Strategy& strategy = strategies[rows.version];
            const int index = static_cast<int>(g);
            const Gap& gap = gap_of(rows);
            const auto beside = [&](int slot, int first, int last, auto add) {
                for (int at = std::max(first, slot - around); at <= std::min(last, slot + around); ++at)
                    add(at);
            };
            if (strategy.back[rows.index] >= 0)
                beside(strategy.back[rows.index], gap.first + 1, gap.last,
                       [&](int slot) { add_back(columns, index, slot); });
            if (strategy.save < 0) continue;
            if (strategy.left == rows.index)
                beside(strategy.save, gap.first, gap.last - 1,
                       [&](int slot) { add_leave(columns, index, slot); });
            else if (strategy.left < 0 && may_save(rows))
                add_save(columns, index, std::min(strategy.save, version_of(rows).gaps.back().first));
        }
        const int added = columns.count();
        if (added > 0) columns.add_to(lp_);
        return added;
    }

    // Per version and gap.
    std::vector<std::vector<Left>> left() const {
        std::vector<std::vector<Left>> result(model_.versions.size());
        for (std::size_t v = 0; v < result.size(); ++v) result[v].resize(model_.versions[v].gaps.size());
        const double* value = lp_.primalColumnSolution();
        for (const GapRows& g : gaps_) {
            Left& left = result[g.version][g.index];
            const int wrap = residency_.crosses(gap_of(g));
            for (const auto& [slot, column] : g.backs) {
                left.share += value[column];
                if (wrap > 0 && slot < wrap) left.before_wrap += value[column];
            }
        }
        return result;
    }

  private:
    struct GapRows {
        int version = 0, index = 0;
        int even = -1;   // left - came back = 0
        int once = -1;   // came back <= 1
        int saved = -1;  // left for free - saved before <= 0
        bool free_start = false;
        std::set<int> leaves, saves;  // slots with a column
        std::map<int, int> backs;     // and the column
    };
    const Version& version_of(const GapRows& g) const { return model_.versions[g.version]; }
    const Gap& gap_of(const GapRows& g) const { return version_of(g).gaps[g.index]; }
    // Saves while it stays have their columns with the version's first gap.
    bool may_save(const GapRows& g) const {
        return !version_of(g).clean && g.index == 0 && (g.free_start || version_of(g).gaps.size() > 1);
    }
    double in_time(const Gap& gap) const { return gap.bytes * model_.link.in_ns_per_byte / ms; }
    double out_time(const Gap& gap) const { return gap.bytes * model_.link.out_ns_per_byte / ms; }
    double latency(const Gap& gap) const { return gap.copies * model_.link.latency_ns / ms; }

    void first_columns(Columns& columns, int index, int samples) {
        GapRows& g = gaps_[index];
        const Gap& gap = gap_of(g);
        const int length = gap.last - gap.first;
        for (int i = 0; i <= samples; ++i) {
            const int step = (length - 1) * i / samples;
            add_back(columns, index, gap.first + 1 + step);
            if (!version_of(g).clean) add_leave(columns, index, gap.first + step);
        }
        if (g.free_start) {
            columns.begin(0, 0, 1);
            residency_.entries(columns, gap, gap.first, 1);
            columns.entry(g.even, 1);
            columns.entry(g.saved, 1);
        }
        // Saved while it stays, for later gaps.
        if (may_save(g)) {
            const int end = version_of(g).gaps.back().first;
            for (int i = 0; i <= samples; ++i)
                add_save(columns, index, version_of(g).born + (end - version_of(g).born) * i / samples);
        }
    }
    void out_entries(Columns& columns, const Version& version, const Gap& gap, int slot) const {
        const int k = slot % model_.slots;
        const double time = out_time(gap);
        columns.entry(out_[k], time + latency(gap));
        if (slot == version.born) columns.entry(late_[k], time + latency(gap));
        if (!both_.empty()) {
            columns.entry(both_[k], (1 - model_.link.theta) * time);
            columns.entry(mirror_[k], time + model_.link.theta * latency(gap));
        }
    }
    double out_dual(const double* duals, const Version& version, const Gap& gap, int slot) const {
        const int k = slot % model_.slots;
        const double time = out_time(gap);
        double sum = duals[out_[k]] * (time + latency(gap));
        if (slot == version.born) sum += duals[late_[k]] * (time + latency(gap));
        if (!both_.empty())
            sum += duals[both_[k]] * (1 - model_.link.theta) * time +
                   duals[mirror_[k]] * (time + model_.link.theta * latency(gap));
        return sum;
    }
    void add_leave(Columns& columns, int index, int slot) {
        GapRows& g = gaps_[index];
        if (!g.leaves.insert(slot).second) return;
        columns.begin(0, 0, 1);
        residency_.entries(columns, gap_of(g), slot, 1);
        out_entries(columns, version_of(g), gap_of(g), slot);
        columns.entry(g.even, 1);
        for (std::size_t j = g.index + 1; j < version_of(g).gaps.size(); ++j)
            columns.entry(gaps_[index + static_cast<int>(j) - g.index].saved, -1);
    }
    void add_back(Columns& columns, int index, int slot) {
        GapRows& g = gaps_[index];
        if (!g.backs.emplace(slot, lp_.numberColumns() + columns.count()).second) return;
        const Gap& gap = gap_of(g);
        const int k = slot % model_.slots;
        columns.begin(0, 0, 1);
        residency_.entries(columns, gap, slot, -1);
        columns.entry(in_[k], in_time(gap) + latency(gap));
        if (!both_.empty()) {
            columns.entry(both_[k], in_time(gap) + model_.link.theta * latency(gap));
            columns.entry(mirror_[k], (1 - model_.link.theta) * in_time(gap));
        }
        columns.entry(g.even, -1);
        columns.entry(g.once, 1);
    }
    void add_save(Columns& columns, int index, int slot) {
        GapRows& g = gaps_[index];
        if (!g.saves.insert(slot).second) return;
        const Version& version = version_of(g);
        columns.begin(0, 0, 1);
        out_entries(columns, version, gap_of(g), slot);
        for (std::size_t j = 0; j < version.gaps.size(); ++j)
            if (version.gaps[j].first >= slot) columns.entry(gaps_[index + static_cast<int>(j)].saved, -1);
    }

    void price_gap(int index, const double* duals, Columns& columns) {
        GapRows& g = gaps_[index];
        const Version& version = version_of(g);
        const Gap& gap = gap_of(g);
        constexpr double tolerance = 1e-7;
        constexpr int parts = 4;
        const auto best_of_parts = [&](int from, int to, auto reduced, auto add) {
            for (int part = 0; part < parts; ++part) {
                const int a = from + (to - from + 1) * part / parts,
                          b = from + (to - from + 1) * (part + 1) / parts;
                double best = -tolerance;
                int at = -1;
                for (int slot = a; slot < b; ++slot)
                    if (const double r = reduced(slot); r < best) {
                        best = r;
                        at = slot;
                    }
                if (at >= 0) add(at);
            }
        };
        best_of_parts(
            gap.first + 1, gap.last,
            [&](int slot) {
                const int k = slot % model_.slots;
                double r = residency_.dual(duals, gap, slot) + duals[g.even] - duals[g.once] -
                           duals[in_[k]] * (in_time(gap) + latency(gap));
                if (!both_.empty())
                    r -= duals[both_[k]] * (in_time(gap) + model_.link.theta * latency(gap)) +
                         duals[mirror_[k]] * (1 - model_.link.theta) * in_time(gap);
                return r;
            },
            [&](int slot) { add_back(columns, index, slot); });
        if (version.clean) return;
        double later = 0;
        for (std::size_t j = g.index + 1; j < version.gaps.size(); ++j)
            if (const int row = gaps_[index + static_cast<int>(j) - g.index].saved; row >= 0)
                later += duals[row];
        best_of_parts(
            gap.first, gap.last - 1,
            [&](int slot) {
                return -residency_.dual(duals, gap, slot) - duals[g.even] + later -
                       out_dual(duals, version, gap, slot);
            },
            [&](int slot) { add_leave(columns, index, slot); });
        if (!may_save(g)) return;
        best_of_parts(
            version.born, version.gaps.back().first,
            [&](int slot) {
                double helped = 0;
                for (std::size_t j = 0; j < version.gaps.size(); ++j)
                    if (const int row = gaps_[index + static_cast<int>(j)].saved;
                        row >= 0 && version.gaps[j].first >= slot)
                        helped += duals[row];
                return helped - out_dual(duals, version, gap, slot);
            },
            [&](int slot) { add_save(columns, index, slot); });
    }

    const Model& model_;
    Residency residency_;
    Rows rows_;
    std::vector<int> in_, out_, late_, both_, mirror_;
    std::vector<GapRows> gaps_;
    ClpSimplex lp_;
};

}  // namespace

Prices timed_prices(const Model& model, const Prices& start, int samples, double seconds, long double& best,
                    bool& finished, std::vector<std::vector<Left>>* solution) {
    const TimeLeft left(seconds);
    finished = true;
    std::vector<Strategy> strategies;
    Prices centre = start;
    best = proved_ns(model, start, &strategies);
    if (model.versions.empty()) return centre;
    Timed timed(model, samples);
    timed.add(strategies, 4);
    int idle_rounds = 0;
    for (int round = 0; left() > 0; ++round) {
        const bool solved = timed.solve(left(), round == 0);
        const Prices prices = timed.prices();
        int added = 0;
        for (const double share : {0.0, 0.5, 0.9}) {
            const Prices mixed = mix(centre, prices, share);
            const long double proved = proved_ns(model, mixed, &strategies);
            if (solved) added += timed.add(strategies, 1);
            if (proved <= best) continue;
            if (proved > best * (1 + 2e-5L)) idle_rounds = -1;
            best = proved;
            centre = mixed;
        }
        if (solution != nullptr && (solved || solution->empty())) *solution = timed.left();
        if (!solved) break;
        if (++idle_rounds >= patience) return centre;
        if (timed.objective() - static_cast<double>(best) < 2e-4 * timed.objective()) return centre;
        if (timed.grow() + added == 0) return centre;
    }
    finished = false;
    return centre;
}

}  // namespace swapadvisor::planner::bounds
