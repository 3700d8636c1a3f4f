#include "planner/bound/bound_advice.h"

#include <algorithm>
#include <optional>

#include "planner/base/time_left.h"
#include "planner/bound/bound_model.h"

namespace swapadvisor::planner {

std::vector<GapAdvice> bound_advice(const Graph& graph, const std::vector<std::int64_t>& bytes,
                                    std::int64_t room_bytes, double seconds) {
    const TimeLeft left_s(seconds);
    std::vector<GapAdvice> advice;
    if (graph.ops.empty() || graph.ops.size() > 4000) return advice;
    Graph sized;
    sized.device = graph.device;
    sized.ops = graph.ops;
    for (std::size_t t = 0; t < graph.tensors.size(); ++t)
        sized.tensors.push_back({bytes[t], graph.tensors[t].persistent, "", ""});

    bounds::ModelOptions shape;
    shape.limit_bytes = room_bytes;
    shape.merge = false;
    std::optional<bounds::Model> before;
    bounds::Prices prices(0);
    std::vector<std::vector<bounds::Left>> left;
    for (const int slots : {160, 480}) {
        shape.most_slots = slots;
        bounds::Model model = bounds::build_model(sized, shape);
        double in = 0, out = 0;
        prices = before ? bounds::refined(prices, *before, model)
                        : bounds::traffic_prices(model, std::max(0.0, left_s()), in, out);
        long double best = 0;
        bool finished = false;
        prices = bounds::timed_prices(model, prices, before ? 4 : 8, left_s(), best, finished, &left);
        before = std::move(model);
        if (slots >= static_cast<int>(graph.ops.size())) break;
    }
    for (std::size_t v = 0; v < left.size(); ++v)
        for (std::size_t j = 0; j < left[v].size(); ++j) {
            const bounds::Left& found = left[v][j];
            if (found.share < 0.01) continue;
            const bounds::Version& version = before->versions[v];
            advice.push_back({version.tensor, version.gaps[j].opened_by, found.share,
                              found.before_wrap * 2 > found.share});
        }
    return advice;
}

}  // namespace swapadvisor::planner
