// Pieces of the linear programmes of the bounds. Residency is a flow along the rows: R[k+1] = R[k] + what
// comes - what goes, so a gap of any length costs two entries, not one per op. Internal to bound_traffic.cpp
// and bound_timed.cpp.
#pragma once

#include <algorithm>
#include <coin/ClpSimplex.hpp>
#include <vector>

#include "planner/bound/bound_model.h"

namespace swapadvisor::planner::bounds {

inline constexpr double gib = 1024.0 * 1024.0 * 1024.0;  // the programme's unit of memory
inline constexpr double ms = 1e6;                        // and of time

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

inline void quiet(ClpSimplex& lp) {
    lp.setLogLevel(0);
    lp.messageHandler()->setLogLevel(0);
}

}  // namespace swapadvisor::planner::bounds
