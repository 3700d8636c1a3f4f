// The linear programmes that find good prices. Residency is a flow along the rows: R[k+1] = R[k] + what comes
// - what goes, so a gap of any length costs two entries, not one per op. The timed programme has a column for
// every slot in which a gap may be left or ended; columns join only when their price says that they help
// (column generation).
#include <algorithm>
#include <chrono>
#include <coin/ClpSimplex.hpp>
#include <coin/CoinPackedMatrix.hpp>
#include <map>
#include <set>

#include "planner/bound_model.h"

namespace swapadvisor::planner::bounds {
namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;  // the programme's unit of memory
constexpr double ms = 1e6;                        // and of time

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Sparse columns gathered for Clp.
class Columns {
  public:
    void begin(double cost, double lower, double upper) {
        starts_.push_back(static_cast<CoinBigIndex>(rows_.size()));
        cost_.push_back(cost);
        lower_.push_back(lower);
        upper_.push_back(upper);
    }
    void entry(int row, double value) {
        if (row < 0 || value == 0) return;
        rows_.push_back(row);
        values_.push_back(value);
    }
    int count() const { return static_cast<int>(cost_.size()); }
    void add_to(ClpSimplex& lp) {
        starts_.push_back(static_cast<CoinBigIndex>(rows_.size()));
        lp.addColumns(count(), lower_.data(), upper_.data(), cost_.data(), starts_.data(), rows_.data(),
                      values_.data());
        *this = Columns();
    }

  private:
    std::vector<CoinBigIndex> starts_;
    std::vector<int> rows_;
    std::vector<double> values_, cost_, lower_, upper_;
};

struct Rows {
    std::vector<double> lower, upper;
    int add(double low, double high) {
        lower.push_back(low);
        upper.push_back(high);
        return static_cast<int>(lower.size()) - 1;
    }
    void add_to(ClpSimplex& lp) const {
        lp.resize(0, 0);
        lp.addRows(static_cast<int>(lower.size()), lower.data(), upper.data(), nullptr, nullptr, nullptr);
    }
};

// The part that both programmes share: residency along the rows.
struct Residency {
    // Balance row k: R[k+1] - R[k] + (bytes evicted in slot k) - (bytes copied in in slot k) = what uses
    // bring and take. The anchor fixes R[0].
    int slots = 0;
    int first_row = 0, anchor = 0;
    std::vector<double> change;
    double at_zero = 0;

    explicit Residency(const Model& model) : slots(model.slots), change(model.slots) {
        for (const Version& version : model.versions)
            for (const Gap& gap : version.gaps) {
                change[gap.first % slots] += gap.bytes;
                change[gap.last % slots] -= gap.bytes;
                if (crosses(gap) > 0) at_zero += gap.bytes;
            }
    }
    // Index on the gap's scale of row 0 if it lies inside the gap, else 0.
    int crosses(const Gap& gap) const {
        const int turn = (gap.first / slots + 1) * slots;
        return turn <= gap.last ? turn : 0;
    }
    void add_rows(Rows& rows) {
        first_row = static_cast<int>(rows.lower.size());
        for (int k = 0; k + 1 < slots; ++k) rows.add(change[k] / gib, change[k] / gib);
        anchor = rows.add(at_zero / gib, at_zero / gib);
    }
    void add_columns(const Model& model, Columns& columns) const {
        for (int k = 0; k < slots; ++k) {
            // Never negative anyway; said here, it would take prices away from the rows that imply it.
            columns.begin(0, -COIN_DBL_MAX, std::max(0.0, model.room[k] / gib));
            columns.entry(balance(k - 1), 1);
            columns.entry(balance(k), -1);
            if (k == 0) columns.entry(anchor, 1);
        }
    }
    int balance(int k) const { return k >= 0 && k + 1 < slots ? first_row + k : -1; }
    // `sign` +1: leaves in `slot`, -1: comes back in it.
    void entries(Columns& columns, const Gap& gap, int slot, double sign) const {
        columns.entry(balance(slot % slots), sign * gap.bytes / gib);
        const int zero = crosses(gap);
        if (zero > 0 && slot < zero) columns.entry(anchor, sign * gap.bytes / gib);
    }
    double dual(const double* duals, const Gap& gap, int slot) const {
        double sum = 0;
        const int row = balance(slot % slots);
        if (row >= 0) sum += duals[row];
        const int zero = crosses(gap);
        if (zero > 0 && slot < zero) sum += duals[anchor];
        return sum * gap.bytes / gib;
    }
};

void quiet(ClpSimplex& lp) {
    lp.setLogLevel(0);
    lp.messageHandler()->setLogLevel(0);
}

}  // namespace

Prices traffic_prices(const Model& model, double seconds, double& in_bytes, double& out_bytes) {
    const Link& link = model.link;
    Rows rows;
    Residency residency(model);
    residency.add_rows(rows);
    // The period less each queue's time, and the duplex rules, are at least 0.
    const int in_row = rows.add(0, COIN_DBL_MAX), out_row = rows.add(0, COIN_DBL_MAX);
    const int both_row = link.coupled() ? rows.add(0, COIN_DBL_MAX) : -1;
    const int mirror_row = link.coupled() ? rows.add(0, COIN_DBL_MAX) : -1;
    struct Evicted {
        const Gap* gap;
        int save_row;
    };
    std::vector<Evicted> evicted;
    std::vector<std::pair<const Version*, int>> saved;
    for (const Version& version : model.versions)
        for (const Gap& gap : version.gaps) {
            // Evicted at most as far as saved.
            evicted.push_back({&gap, version.clean ? -1 : rows.add(0, COIN_DBL_MAX)});
        }
    ClpSimplex lp;
    quiet(lp);
    rows.add_to(lp);
    Columns columns;
    residency.add_columns(model, columns);
    columns.begin(1, 0, COIN_DBL_MAX);
    for (int row : {in_row, out_row, both_row, mirror_row}) columns.entry(row, 1);
    const int first_evicted = columns.count();
    for (const Evicted& e : evicted) {
        columns.begin(0, 0, 1);
        residency.entries(columns, *e.gap, e.gap->first, 1);
        residency.entries(columns, *e.gap, e.gap->last, -1);
        const double time = e.gap->bytes * link.in_ns_per_byte / ms, latency = link.latency_ns / ms;
        columns.entry(in_row, -time - latency);
        columns.entry(both_row, -time - link.theta * latency);
        columns.entry(mirror_row, -(1 - link.theta) * time);
        columns.entry(e.save_row, -1);
    }
    const int first_saved = columns.count();
    std::size_t next = 0;
    for (const Version& version : model.versions) {
        if (!version.clean) {
            columns.begin(0, 0, 1);
            const double time = version.gaps[0].bytes * link.out_ns_per_byte / ms,
                         latency = link.latency_ns / ms;
            columns.entry(out_row, -time - latency);
            columns.entry(mirror_row, -time - link.theta * latency);
            columns.entry(both_row, -(1 - link.theta) * time);
            for (std::size_t j = 0; j < version.gaps.size(); ++j)
                columns.entry(evicted[next + j].save_row, 1);
            saved.emplace_back(&version, columns.count() - 1);
        }
        next += version.gaps.size();
    }
    (void)first_saved;
    columns.add_to(lp);
    lp.setMaximumSeconds(seconds);
    lp.primal();
    in_bytes = out_bytes = 0;
    const double* solution = lp.primalColumnSolution();
    for (std::size_t i = 0; i < evicted.size(); ++i)
        in_bytes +=
            evicted[i].gap->bytes * std::clamp(solution[first_evicted + static_cast<int>(i)], 0.0, 1.0);
    for (const auto& [version, column] : saved)
        out_bytes += version->gaps[0].bytes * std::clamp(solution[column], 0.0, 1.0);

    Prices prices(model.slots);
    const double* duals = lp.dualRowSolution();
    const double* reduced = lp.dualColumnSolution();
    for (int k = 0; k < model.slots; ++k) {
        prices.room[k] = std::max(0.0, -reduced[k]) * ms / gib;
        prices.in[k] = duals[in_row];
        prices.out[k] = duals[out_row];
        if (!link.coupled()) continue;
        prices.in_and_out[k] = duals[both_row];
        prices.out_and_in[k] = duals[mirror_row];
    }
    return prices;
}

namespace {

class Timed {
  public:
    explicit Timed(const Model& model) : model_(model), residency_(model) {
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
        for (std::size_t g = 0; g < gaps_.size(); ++g) first_columns(columns, static_cast<int>(g));
        columns.add_to(lp_);
    }

    // Solves over the columns there are. False if stopped early.
    bool solve(double seconds, bool first) {
        lp_.setMaximumSeconds(seconds);
        if (first) {
            ClpSolve how;
            how.setSolveType(ClpSolve::usePrimal);
            how.setPresolveType(ClpSolve::presolveOff);
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

  private:
    struct GapRows {
        int version = 0, index = 0;
        int even = -1;   // left - came back = 0
        int once = -1;   // came back <= 1
        int saved = -1;  // left for free - saved before <= 0
        bool free_start = false;
        std::set<int> leaves, backs, saves;  // slots with a column
    };
    const Version& version_of(const GapRows& g) const { return model_.versions[g.version]; }
    const Gap& gap_of(const GapRows& g) const { return version_of(g).gaps[g.index]; }
    // Saves while it stays have their columns with the version's first gap.
    bool may_save(const GapRows& g) const {
        return !version_of(g).clean && g.index == 0 && (g.free_start || version_of(g).gaps.size() > 1);
    }
    double in_time(const Gap& gap) const { return gap.bytes * model_.link.in_ns_per_byte / ms; }
    double out_time(const Gap& gap) const { return gap.bytes * model_.link.out_ns_per_byte / ms; }
    double latency() const { return model_.link.latency_ns / ms; }

    void first_columns(Columns& columns, int index) {
        GapRows& g = gaps_[index];
        const Gap& gap = gap_of(g);
        const int length = gap.last - gap.first;
        constexpr int samples = 8;
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
        columns.entry(out_[k], time + latency());
        if (slot == version.born) columns.entry(late_[k], time + latency());
        if (!both_.empty()) {
            columns.entry(both_[k], (1 - model_.link.theta) * time);
            columns.entry(mirror_[k], time + model_.link.theta * latency());
        }
    }
    double out_dual(const double* duals, const Version& version, const Gap& gap, int slot) const {
        const int k = slot % model_.slots;
        const double time = out_time(gap);
        double sum = duals[out_[k]] * (time + latency());
        if (slot == version.born) sum += duals[late_[k]] * (time + latency());
        if (!both_.empty())
            sum += duals[both_[k]] * (1 - model_.link.theta) * time +
                   duals[mirror_[k]] * (time + model_.link.theta * latency());
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
        if (!g.backs.insert(slot).second) return;
        const Gap& gap = gap_of(g);
        const int k = slot % model_.slots;
        columns.begin(0, 0, 1);
        residency_.entries(columns, gap, slot, -1);
        columns.entry(in_[k], in_time(gap) + latency());
        if (!both_.empty()) {
            columns.entry(both_[k], in_time(gap) + model_.link.theta * latency());
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
                           duals[in_[k]] * (in_time(gap) + latency());
                if (!both_.empty())
                    r -= duals[both_[k]] * (in_time(gap) + model_.link.theta * latency()) +
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
                for (std::size_t j = 1; j < version.gaps.size(); ++j)
                    if (version.gaps[j].first >= slot)
                        helped += duals[gaps_[index + static_cast<int>(j)].saved];
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

Prices timed_prices(const Model& model, const Prices& start, double seconds, long double& best,
                    std::string& note) {
    const double begin = now_s();
    Prices best_prices = start;
    best = proved_ns(model, start);
    if (model.versions.empty()) return best_prices;
    Timed timed(model);
    const auto left = [&] { return seconds - (now_s() - begin); };
    for (int round = 0; left() > 0; ++round) {
        const bool solved = timed.solve(left(), round == 0);
        const Prices prices = timed.prices();
        const long double proved = proved_ns(model, prices);
        if (getenv("BOUND_DEBUG"))
            fprintf(stderr, "round %d t=%.2f cols=%d obj=%.6f proved=%.6f\n", round, now_s() - begin,
                    timed.columns(), timed.objective() / 1e9, double(proved) / 1e9);
        if (proved > best) {
            best = proved;
            best_prices = prices;
        }
        if (!solved) break;
        if (timed.objective() - static_cast<double>(best) < 2e-4 * timed.objective()) return best_prices;
        if (timed.grow() == 0) return best_prices;
    }
    note = "the timed bound was cut short and may be loose";
    return best_prices;
}

}  // namespace swapadvisor::planner::bounds
