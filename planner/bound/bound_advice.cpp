#include "planner/bound/bound_advice.h"

#include <algorithm>

#include "planner/base/time_left.h"

namespace swapadvisor::planner {

namespace {

constexpr int rough_slots = 80, fine_slots = 480;
constexpr std::size_t most_ops = 4000;

}  // namespace

BoundAdvice::BoundAdvice(const Graph& graph, const std::vector<OpId>& order,
                         const std::vector<std::int64_t>& bytes) {
    if (graph.ops.size() > most_ops) return;
    order_ = order;
    sized_.device = graph.device;
    for (const OpId op : order) sized_.ops.push_back(graph.ops[static_cast<std::size_t>(op)]);
    for (std::size_t t = 0; t < graph.tensors.size(); ++t)
        sized_.tensors.push_back({bytes[t], graph.tensors[t].persistent, "", ""});
}

std::vector<GapAdvice> BoundAdvice::next(std::int64_t room_bytes, double seconds) {
    const TimeLeft left_s(seconds);
    std::vector<GapAdvice> advice;
    const int judged = before_ ? before_->slots : 0;
    if (judged >= fine_slots || judged >= static_cast<int>(order_.size())) return advice;
    bounds::ModelOptions shape;
    shape.limit_bytes = room_bytes;
    shape.merge = false;
    shape.most_slots = judged == 0 ? rough_slots : fine_slots;
    bounds::Model model = bounds::build_model(sized_, shape);
    double in = 0, out = 0;
    prices_ = before_ ? bounds::refined(prices_, *before_, model)
                      : bounds::traffic_prices(model, std::max(0.0, left_s()), in, out);
    long double best = 0;
    bool finished = false;
    std::vector<std::vector<bounds::Left>> left;  // stays empty where the time is over before it begins
    prices_ = bounds::timed_prices(model, prices_, before_ ? 4 : 8, left_s(), best, finished, &left);
    bound_ns_ = static_cast<std::int64_t>(best);
    for (std::size_t v = 0; v < left.size(); ++v)
        for (std::size_t j = 0; j < left[v].size(); ++j) {
            const bounds::Left& found = left[v][j];
            if (found.share < 0.01) continue;
            const bounds::Version& version = model.versions[v];
            advice.push_back({version.tensor, order_[static_cast<std::size_t>(version.gaps[j].opened_by)],
                              found.share, found.before_wrap * 2 > found.share});
        }
    before_ = std::move(model);
    return advice;
}

}  // namespace swapadvisor::planner
