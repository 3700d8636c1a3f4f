// From keep-or-evict choices to residencies.
#include <algorithm>

#include "planner/swap/swap_planner.h"

namespace swapadvisor::planner {

namespace {

/// The stays of one tensor: cut its uses at the evicted gaps.
class TensorStays {
  public:
    TensorStays(const Setting& setting, std::span<const GapChoice> choice, const SwapOptions& options,
                TensorId tensor, std::vector<Stay>& into)
        : setting_(setting),
          problem_(setting.problem),
          s_(setting.sequence),
          choice_(choice),
          options_(options),
          tensor_(tensor),
          into_(into),
          first_(problem_.first_use(tensor)),
          last_(problem_.first_use(tensor + 1) - 1),
          n_(setting.ops) {}

    void run() {
        const bool persistent = problem_.graph.tensors[tensor_].persistent;
        const auto base = into_.size();
        const bool wraps = persistent && choice_[last_] == GapChoice::keep;
        const bool tail = persistent && choice_[last_] == GapChoice::evict_tail;
        for (std::uint32_t u = first_; u <= last_;) {
            std::uint32_t v = u;
            while (v < last_ && choice_[v] == GapChoice::keep) ++v;
            add(u, v, persistent);
            u = v + 1;
        }
        Stay& head = into_[base];
        if (!persistent) {
            head.birth = true;
            into_.back().dead = true;
            into_.back().save_after = -1;
            return;
        }
        if (tail) {
            Stay back = head;
            back.by_in = true;
            back.initial = false;
            back.begin = back.end = back.release = n_;
            back.save_after = -1;
            head.initial = true;
            head.by_in = false;
            head.begin = 0;
            into_.push_back(back);
            into_.back().partner = static_cast<std::int32_t>(base);
            into_[base].partner = static_cast<std::int32_t>(into_.size()) - 1;
            return;
        }
        if (!wraps) return;
        head.initial = true;
        head.by_in = false;
        head.begin = 0;
        Stay& end = into_.back();
        if (into_.size() - base > 1) {
            // One residency across the boundary: what its end wrote must go out before its beginning may
            // leave.
            const std::int32_t written_late = end.save_after;
            end.partner = static_cast<std::int32_t>(base);
            head.partner = static_cast<std::int32_t>(into_.size()) - 1;
            if (head.save_after >= 0) {
                end.save_after = -1;
            } else if (written_late >= 0) {
                head.waits_last_iteration = true;
            }
        } else {
            end.save_after = -1;  // never leaves
            head.release = head.end = n_;
        }
        into_.back().end = into_.back().release = n_;
    }

  private:
    void add(std::uint32_t u, std::uint32_t v, bool persistent) {
        Stay s;
        s.tensor = tensor_;
        s.units = setting_.allocation.units[tensor_];
        s.region = setting_.allocation.region[tensor_];
        s.begin = s_.position[u];
        s.end = s_.position[v];
        s.release = options_.release_at.empty() ? s.end : std::max(s.end, options_.release_at[v]);
        if (v == last_ && !persistent) s.release = s.end;
        s.by_in = u != first_ || persistent;
        for (std::uint32_t i = v + 1; i-- > u;)
            if (s_.writes[i]) {
                s.save_after = s_.position[i];
                break;
            }
        if (s.save_after < 0 && !s.by_in) s.save_after = s.begin;  // newborn: no host copy yet
        into_.push_back(s);
    }

    const Setting& setting_;
    const Problem& problem_;
    const Sequence& s_;
    std::span<const GapChoice> choice_;
    const SwapOptions& options_;
    TensorId tensor_;
    std::vector<Stay>& into_;
    std::uint32_t first_, last_;
    std::int32_t n_;
};

}  // namespace

void stays(const Setting& setting, std::span<const GapChoice> choice, const SwapOptions& options,
           std::vector<Stay>& into) {
    into.clear();
    for (std::size_t t = 0; t < setting.allocation.units.size(); ++t)
        if (setting.allocation.units[t] > 0)
            TensorStays(setting, choice, options, static_cast<TensorId>(t), into).run();
}

}  // namespace swapadvisor::planner
