// From an iteration to plans, through the planner library and the interchange formats. Runs on the background
// thread; makes no CUDA call (measure_device does, and is called under the runtime's lock).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "planner/model/plan.h"
#include "recorder/device_model.h"
#include "recorder/iteration.h"
#include "replayer/residency.h"

namespace swapadvisor {

struct PlanRequest {
    std::shared_ptr<const Iteration> iteration;
    std::int64_t limit_bytes = 0;
    std::int64_t chunk_bytes = 0;
    DeviceModel model;
    std::function<std::string(std::uint64_t)> function_name;
    const std::atomic<bool>* cancel = nullptr;  ///< ends the search; the best so far is still offered
    /// Bytes that a plan has copied out without knowing it (PlanScript::late_bytes); -1: it would be refused.
    std::function<std::int64_t(const planner::Plan&)> late_bytes;
    bool use_file = true;    ///< SWAPADVISOR_PLAN comes first
    bool from_file = false;  ///< set: what is offered is that plan
    std::string refusal;     ///< set by whoever refuses an offer: why, in one line
    /// SWAPADVISOR_PLAN is not for this program; unless a search is to follow.
    std::function<void(const std::string& line)> on_misfit;
    bool another_try = false;         ///< there is more room to try with: failing is not worth a word
    std::function<void()> on_search;  ///< a planner begins, or has ended
    std::function<void(std::int64_t predicted_ns)> on_better;  ///< it found a better plan
    std::function<void(std::int64_t ns)> on_bound;             ///< no plan can be faster
    std::int64_t infinite_ns = -1;                             ///< filled in: the ops alone
};

/// Takes a plan, tensor ids are those of the iteration. `gain_percent`: by how much it should be better than
/// a former one to be worth the change. False: it was refused.
using OfferPlan = std::function<bool(const planner::Plan&, int gain_percent)>;

/// Offers plans as they are found, best last. Says one line when planning is not possible.
void run_planner(PlanRequest& request, const OfferPlan& offer);

/// Copy rates, once per context. False if they had to be guessed.
bool measure_device(Residency& residency, DeviceModel& model);

}  // namespace swapadvisor
