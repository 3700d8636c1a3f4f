// The relaxation behind the bounds, as numbers: slots of time, gaps between uses, versions of contents.
// Internal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model/graph.h"

namespace swapadvisor::planner::bounds {

/// Between two uses of a tensor, in slots counted from the write or use before it without wrapping (`% slots`
/// is the slot). Evicting in slot o frees rows o+1 to `last`; copying in in slot r takes them back from row
/// r+1 on.
struct Gap {
    double bytes = 0;
    int opened_by = 0;  ///< the op of the earlier use
    double copies = 1;  ///< latencies that one copy of all these bytes costs (1, unless gaps were merged)
    int first = 0;      ///< slot in which the earlier use ends; rows first+1 .. last lie inside the gap
    int last = 0;       ///< slot in which the later use waits: the last one to copy in
};

/// What one write left in a tensor (or what a tensor that is never written holds), and the gaps in which it
/// lives.
struct Version {
    TensorId tensor = 0;
    bool clean = false;  ///< the host has it already: evicting copies nothing
    int born = 0;        ///< slot in which the write ends (for dirty ones), on the scale of the gaps
    std::vector<Gap> gaps;
};

struct Link {
    double in_ns_per_byte = 0, out_ns_per_byte = 0, latency_ns = 0;
    /// Both directions in one slot: in + (1 - theta) out <= time and the mirror of it. 1: independent.
    double theta = 1;
    bool coupled() const { return theta < 1; }
};

/// Time is cut where chosen ops start; slot k runs from the start of chosen op k to that of op k+1
/// (cyclically). Row k: what is resident when chosen op k starts.
struct Model {
    Link link;
    int slots = 0;
    std::vector<int> chosen;        ///< ops
    std::vector<double> time_ns;    ///< of the ops in the slot
    std::vector<double> late_ns;    ///< part of it after the first op that leaves a new version there
    std::vector<double> room;       ///< row: limit less what the op itself uses
    std::vector<Version> versions;  ///< with at least one gap
    double compute_ns = 0;
    double ignored_bytes = 0;  ///< tensors treated as if they took no room
};

struct ModelOptions {
    std::int64_t limit_bytes = 0;
    int most_slots = 4000;  ///< judge memory at so many ops at most
    int most_gaps = 20000;  ///< after merging
    bool merge = true;      ///< gaps that are alike, where not every op is judged
};
Model build_model(const Graph& graph, const ModelOptions& options);

/// Prices of what is scarce. Any prices give a valid bound (weak duality); good ones come from a linear
/// programme.
struct Prices {
    std::vector<double> room;                    ///< per byte at row k
    std::vector<double> in, out;                 ///< per ns of a queue in slot k
    std::vector<double> in_and_out, out_and_in;  ///< per ns of the two duplex rules
    std::vector<double> late;  ///< per ns of the out queue's time for versions born in slot k
    explicit Prices(int slots)
        : room(slots), in(slots), out(slots), in_and_out(slots), out_and_in(slots), late(slots) {}
};

/// The cheapest thing to do with one version at given prices.
struct Strategy {
    int save = -1;          ///< slot in which it is copied out; -1: never
    int left = -1;          ///< gap that is left by that copy; -1: none
    std::vector<int> back;  ///< per gap: slot in which it is copied in again; -1: kept through the gap
};

/// The bound that `prices` prove, in ns. Negative or out-of-range prices are put right first. If asked, says
/// what is cheapest for each version.
long double proved_ns(const Model& model, Prices prices, std::vector<Strategy>* cheapest = nullptr);

/// Prices from the traffic programme (one slot's worth of time for all transfers), and the traffic of its
/// solution.
Prices traffic_prices(const Model& model, double seconds, double& in_bytes, double& out_bytes);

/// Prices from the timed programme, refined until `seconds` are over or nothing more is gained (`finished`).
/// `start`: prices to begin near. `samples`: columns per gap to begin with. `best`: what the prices returned
/// prove.
/// `solution`, if given, gets how far the last programme solved leaves each gap.
struct Left {
    double share = 0;  ///< 0: kept, 1: left
    double before_wrap =
        0;  ///< part of it that comes back before the iteration ends (gaps over the boundary)
};
Prices timed_prices(const Model& model, const Prices& start, int samples, double seconds, long double& best,
                    bool& finished, std::vector<std::vector<Left>>* solution = nullptr);

/// Prices of a model with fewer slots as prices of one with more (of the same graph).
Prices refined(const Prices& prices, const Model& from, const Model& to);

}  // namespace swapadvisor::planner::bounds
