// Points in the work of a queue (a CUDA stream as the driver orders it), and small sets of them.
// A mark says "everything issued on `queue` up to and including number `seq`". Numbers never go back.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace swapadvisor {

using QueueId = std::uint32_t;
using Seq = std::uint64_t;

struct Mark {
    Seq seq = 0;  ///< 0: nothing, always done
    QueueId queue = 0;
};

/// At most one mark per queue, the latest. Few queues are the rule, so the first ones are kept inline.
class MarkSet {
  public:
    void add(Mark mark) {
        if (mark.seq == 0) return;
        for (std::uint8_t i = 0; i < count_; ++i)
            if (inline_[i].queue == mark.queue) {
                if (inline_[i].seq < mark.seq) inline_[i].seq = mark.seq;
                return;
            }
        if (count_ < inline_.size()) {
            inline_[count_++] = mark;
            return;
        }
        for (Mark& other : more_)
            if (other.queue == mark.queue) {
                if (other.seq < mark.seq) other.seq = mark.seq;
                return;
            }
        more_.push_back(mark);
    }
    void add(const MarkSet& other) {
        other.for_each([this](Mark mark) { add(mark); });
    }
    void clear() {
        count_ = 0;
        more_.clear();
    }
    bool empty() const { return count_ == 0; }
    template <class F>
    void for_each(F&& f) const {
        for (std::uint8_t i = 0; i < count_; ++i) f(inline_[i]);
        for (const Mark& mark : more_) f(mark);
    }

  private:
    std::array<Mark, 3> inline_{};
    std::uint8_t count_ = 0;
    std::vector<Mark> more_;
};

}  // namespace swapadvisor
