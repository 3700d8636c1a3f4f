// The traffic programme: how much must move at all, as if a transfer could be made at any time of the
// iteration.
#include "planner/bound/bound_lp.h"

namespace swapadvisor::planner::bounds {

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
        const double time = e.gap->bytes * link.in_ns_per_byte / ms,
                     latency = e.gap->copies * link.latency_ns / ms;
        columns.entry(in_row, -time - latency);
        columns.entry(both_row, -time - link.theta * latency);
        columns.entry(mirror_row, -(1 - link.theta) * time);
        columns.entry(e.save_row, -1);
    }
    std::size_t next = 0;
    for (const Version& version : model.versions) {
        if (!version.clean) {
            columns.begin(0, 0, 1);
            const double time = version.gaps[0].bytes * link.out_ns_per_byte / ms,
                         latency = version.gaps[0].copies * link.latency_ns / ms;
            columns.entry(out_row, -time - latency);
            columns.entry(mirror_row, -time - link.theta * latency);
            columns.entry(both_row, -(1 - link.theta) * time);
            for (std::size_t j = 0; j < version.gaps.size(); ++j)
                columns.entry(evicted[next + j].save_row, 1);
            saved.emplace_back(&version, columns.count() - 1);
        }
        next += version.gaps.size();
    }
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

}  // namespace swapadvisor::planner::bounds
