// What given prices prove. The bound is the Lagrangian of the relaxation: every rule is given up for its
// price, and what is left falls apart into one cheapest strategy per version, found by looking at all of
// them. It holds for any prices, so neither the solver's tolerance nor an early stop can make a bound wrong.
#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/bound/bound_model.h"

namespace swapadvisor::planner::bounds {
namespace {

void put_right(const Model& model, Prices& prices) {
    for (int k = 0; k < model.slots; ++k) {
        double* all[] = {&prices.in[k], &prices.out[k], &prices.in_and_out[k], &prices.out_and_in[k],
                         &prices.late[k]};
        for (double* price : all)
            if (!(*price > 0)) *price = 0;
        if (!(prices.room[k] > 0)) prices.room[k] = 0;
        if (!model.link.coupled()) prices.in_and_out[k] = prices.out_and_in[k] = 0;
        // A stalled nanosecond costs one and gives one to every queue.
        double sum = 0;
        for (double* price : all) sum += *price;
        if (sum > 1)
            for (double* price : all) *price /= sum;
    }
}

class Evaluation {
  public:
    Evaluation(const Model& model, const Prices& prices) : model_(model), prices_(prices) {
        // Twice around, so that gaps need no wrapping; a version born in the last slot may span a whole turn.
        const int length = 3 * model.slots + 1;
        rows_.resize(length + 1);
        in_time_.resize(length);
        in_latency_.resize(length);
        out_time_.resize(length);
        out_latency_.resize(length);
        const double theta = model.link.theta;
        for (int i = 0; i < length; ++i) {
            const int k = i % model.slots;
            rows_[i + 1] = rows_[i] + prices.room[k];
            in_time_[i] = prices.in[k] + prices.in_and_out[k] + (1 - theta) * prices.out_and_in[k];
            in_latency_[i] = prices.in[k] + theta * prices.in_and_out[k];
            out_time_[i] = prices.out[k] + prices.out_and_in[k] + (1 - theta) * prices.in_and_out[k];
            out_latency_[i] = prices.out[k] + theta * prices.out_and_in[k];
        }
    }

    long double value(std::vector<Strategy>* strategies) {
        long double sum = 0;
        for (int k = 0; k < model_.slots; ++k) {
            const double duplex = prices_.in_and_out[k] + prices_.out_and_in[k];
            // A transfer cut by a slot's end may have spent its whole latency in it: one latency of slack
            // each way.
            const double slack = 2 * (1 - model_.link.theta) * model_.link.latency_ns;
            sum += model_.time_ns[k] * (1.0L - prices_.in[k] - prices_.out[k] - duplex) - duplex * slack;
            sum -= static_cast<long double>(model_.late_ns[k]) * prices_.late[k];
            sum -= static_cast<long double>(model_.room[k]) * prices_.room[k];
        }
        Strategy unused;
        if (strategies != nullptr) strategies->resize(model_.versions.size());
        for (std::size_t v = 0; v < model_.versions.size(); ++v)
            sum += cheapest(model_.versions[v], strategies != nullptr ? (*strategies)[v] : unused);
        return sum;
    }

  private:
    double rows(int from, int to) const { return rows_[to + 1] - rows_[from + 1]; }  // rows from+1 .. to
    double in_cost(const Gap& gap, int slot) const {
        return gap.bytes * model_.link.in_ns_per_byte * in_time_[slot] +
               gap.copies * model_.link.latency_ns * in_latency_[slot];
    }
    double out_cost(const Gap& gap, int slot) const {
        return gap.bytes * model_.link.out_ns_per_byte * out_time_[slot] +
               gap.copies * model_.link.latency_ns * out_latency_[slot];
    }
    // The cheapest way back for who is gone when slot r begins: its cost and its slot, for r from first + 1
    // to last + 1.
    struct Back {
        double cost = std::numeric_limits<double>::infinity();
        int slot = -1;
    };
    void ways_back(const Gap& gap) {
        back_.assign(gap.last - gap.first + 2, {});
        for (int r = gap.last; r > gap.first; --r) {
            const double cost = in_cost(gap, r) + gap.bytes * rows(r, gap.last);
            back_[r - gap.first] =
                cost < back_[r - gap.first + 1].cost ? Back{cost, r} : back_[r - gap.first + 1];
        }
    }

    double cheapest(const Version& version, Strategy& strategy) {
        const std::size_t count = version.gaps.size();
        keep_.resize(count);
        free_back_.assign(count, -1);
        saved_after_.assign(count + 1, 0);  // gaps j.. if the host copy is valid by then
        double all_kept = 0;
        for (std::size_t j = count; j-- > 0;) {
            const Gap& gap = version.gaps[j];
            keep_[j] = gap.bytes * rows(gap.first, gap.last);
            all_kept += keep_[j];
            ways_back(gap);
            if (back_[1].cost < keep_[j]) free_back_[j] = back_[1].slot;
            saved_after_[j] = saved_after_[j + 1] + std::min(keep_[j], back_[1].cost);
        }
        strategy.save = strategy.left = -1;
        if (version.clean) {
            strategy.back = free_back_;
            return saved_after_[0];
        }
        strategy.back.assign(count, -1);
        double best = all_kept;
        double kept = 0;  // gaps before j
        int slot = version.born;
        const auto found = [&](double cost, std::size_t first_free, int left, int left_back) {
            best = cost;
            strategy.save = slot;
            strategy.left = left;
            std::fill(strategy.back.begin(), strategy.back.end(), -1);
            std::copy(free_back_.begin() + static_cast<std::ptrdiff_t>(first_free), free_back_.end(),
                      strategy.back.begin() + static_cast<std::ptrdiff_t>(first_free));
            if (left >= 0) strategy.back[left] = left_back;
        };
        for (std::size_t j = 0; j < count; ++j) {
            const Gap& gap = version.gaps[j];
            for (; slot < gap.first; ++slot) {  // saved while it stays
                const double cost = kept + save_cost(version, gap, slot) + saved_after_[j];
                if (cost < best) found(cost, j, -1, -1);
            }
            ways_back(gap);
            for (; slot < gap.last; ++slot) {
                const Back& back = back_[slot + 1 - gap.first];
                const double leave = gap.bytes * rows(gap.first, slot) + back.cost;
                const double cost =
                    kept + save_cost(version, gap, slot) + saved_after_[j + 1] + std::min(keep_[j], leave);
                if (cost >= best) continue;
                if (leave < keep_[j])
                    found(cost, j + 1, static_cast<int>(j), back.slot);
                else
                    found(cost, j + 1, -1, -1);
            }
            kept += keep_[j];
        }
        return best;
    }
    double save_cost(const Version& version, const Gap& gap, int slot) const {
        double cost = out_cost(gap, slot);
        if (slot == version.born)
            cost += prices_.late[slot % model_.slots] *
                    (gap.bytes * model_.link.out_ns_per_byte + gap.copies * model_.link.latency_ns);
        return cost;
    }

    const Model& model_;
    const Prices& prices_;
    std::vector<double> rows_;  // prefix sums of the rows' prices
    std::vector<double> in_time_, in_latency_, out_time_, out_latency_;
    std::vector<Back> back_;
    std::vector<double> keep_, saved_after_;
    std::vector<int> free_back_;
};

}  // namespace

long double proved_ns(const Model& model, Prices prices, std::vector<Strategy>* cheapest) {
    if (model.slots == 0) return 0;
    put_right(model, prices);
    return Evaluation(model, prices).value(cheapest);
}

}  // namespace swapadvisor::planner::bounds
