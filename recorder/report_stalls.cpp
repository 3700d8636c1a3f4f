#include "recorder/report_stalls.h"

#include <algorithm>
#include <cstdlib>

#include "recorder/report_sections.h"

namespace swapadvisor {
namespace {

using Op = ReportModel::OpRow;
using Swap = ReportModel::SwapRow;
using Stall = ReportModel::StallRow;

constexpr std::size_t kMostExplained = 1000;

bool same_time(std::int64_t a, std::int64_t b) {
    return std::llabs(a - b) <= 1;
}

class Explainer {
  public:
    explicit Explainer(const ReportModel& m) : m_(m) {
        for (const Swap& swap : m.swaps) {
            if (swap.kind == "in")
                ins_.push_back(&swap);
            else if (swap.kind != "drop")
                outs_.push_back(&swap);
        }
        const auto by_end = [](const Swap* a, const Swap* b) { return a->end_ns < b->end_ns; };
        std::stable_sort(ins_.begin(), ins_.end(), by_end);
        std::stable_sort(outs_.begin(), outs_.end(), by_end);
    }

    Stall explain(const Op& op) const {
        Stall stall;
        stall.op = op.op;
        stall.stall_ns = op.stall_ns;
        const std::int64_t from = op.start_ns - op.stall_ns;
        // Where times are estimates no copy may end in time: then the one that is for this op, or the last begun.
        const Swap *copy = nullptr, *late_copy = nullptr, *begun = nullptr;
        for (const Swap* in : ins_) {
            if (in->before_op != op.op) continue;
            late_copy = in;
            if (in->end_ns > from && in->start_ns < op.start_ns) copy = in;
        }
        const Swap* out = last_ending(outs_, from, op.start_ns);
        if (!out)
            for (const Swap* o : outs_)
                if (o->after_op != kUnknown && o->after_op < op.op &&
                    (!begun || o->after_op >= begun->after_op))
                    begun = o;
        if (!out) out = begun;
        if (copy || (late_copy && out == begun)) {
            late(stall, copy ? *copy : *late_copy, from);
        } else if (out) {
            stall.tensor = out->tensor;
            stall.cause = "room";
            stall.why = "its new buffers take places that are being copied out, the last of " + out->name +
                        " (" + short_bytes_text(out->bytes) + ")";
            stall.remedy = short_bytes_text(out->bytes) + " more memory";
        } else if (const Swap* in = running(op.start_ns)) {
            stall.tensor = in->tensor;
            stall.cause = "bus";
            stall.why = "the copy in of " + in->name + " (" + short_bytes_text(in->bytes) + ") is under way";
            stall.remedy = "fewer copies (more memory) or a faster link";
        } else {
            stall.cause = "unknown";
            stall.why = "no copy of this iteration is before it";
        }
        return stall;
    }

  private:
    static const Swap* last_ending(const std::vector<const Swap*>& swaps, std::int64_t from,
                                   std::int64_t to) {
        const auto after = std::upper_bound(swaps.begin(), swaps.end(), to + 1,
                                            [](std::int64_t t, const Swap* s) { return t < s->end_ns; });
        if (after == swaps.begin() || (*(after - 1))->end_ns <= from) return nullptr;
        return *(after - 1);
    }
    // The one of `swaps` that ends at `time`; of the tensor itself if there is such a one.
    static const Swap* ending_at(const std::vector<const Swap*>& swaps, std::int64_t time,
                                 std::int64_t tensor) {
        const Swap* found = nullptr;
        for (auto s = std::lower_bound(swaps.begin(), swaps.end(), time - 1,
                                       [](const Swap*a, std::int64_t t) { return a->end_ns < t; });
             s != swaps.end() && (*s)->end_ns <= time + 1; ++s)
            if (!found || (*s)->tensor == tensor) found = *s;
        return found;
    }
    // The last copy in that had begun by then and was not long over.
    const Swap* running(std::int64_t time) const {
        const Swap* found = nullptr;
        for (const Swap* in : ins_)
            if (in->start_ns < time && 2 * in->end_ns - in->start_ns >= time) found = in;
        return found;
    }
    const Op* op_at(std::int64_t index) const {
        return index >= 0 && index < static_cast<std::int64_t>(m_.ops.size())
                   ? &m_.ops[static_cast<std::size_t>(index)]
                   : nullptr;
    }

    void late(Stall& stall, const Swap& copy, std::int64_t from) const {
        const std::string size = short_bytes_text(copy.bytes);
        stall.tensor = copy.tensor;
        const std::string what = "the copy in of " + copy.name + " (" + size + ") ";
        const Swap* const out = ending_at(outs_, copy.start_ns, copy.tensor);
        const Swap* const in = ending_at(ins_, copy.start_ns, kUnknown);
        const Op* const after = op_at(copy.after_op);
        const bool held = after && same_time(after->start_ns + after->duration_ns, copy.start_ns);
        if (out && out->tensor == copy.tensor && copy.tensor != kUnknown) {
            stall.cause = "no earlier chance";
            stall.why = what + "begins as soon as it has been copied out";
            stall.remedy = "keeping it: " + size + " more memory";
        } else if (in && in != &copy && copy.start_ns > 0) {
            stall.cause = "bus";
            stall.why = what + "waits for the one of " + in->name + " (" + short_bytes_text(in->bytes) +
                        ") before it";
            stall.remedy = "fewer copies (more memory) or a faster link";
        } else if (out) {
            stall.cause = "room";
            stall.why = what + "takes the place of " + out->name + ", which is copied out until then";
            stall.remedy = size + " more memory";
        } else if (copy.start_ns >= from && !held) {
            stall.cause = "on demand";
            stall.why = what + "begins when the op asks for it";
            stall.remedy = "a plan, or a few iterations more until one is followed";
        } else if (held) {
            stall.cause = "room";
            stall.why = what + "takes a place that is in use until op " + std::to_string(after->op) + " (" +
                        after->name + ") is done";
            stall.remedy = size + " more memory";
        } else {
            stall.cause = "bus";
            stall.why = what + "takes longer than the work beside it";
            stall.remedy = "fewer copies (more memory) or a faster link";
        }
    }

    const ReportModel& m_;
    std::vector<const Swap*> ins_, outs_;  // by their ends
};

}  // namespace

void explain_stalls(ReportModel& m) {
    m.stalls.clear();
    std::vector<const Op*> waiting;
    for (const Op& op : m.ops)
        if (op.stall_ns > 0) waiting.push_back(&op);
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const Op* a, const Op* b) { return a->stall_ns > b->stall_ns; });
    if (waiting.size() > kMostExplained) waiting.resize(kMostExplained);
    const Explainer explainer(m);
    for (const Op* op : waiting) m.stalls.push_back(explainer.explain(*op));
}

}  // namespace swapadvisor
