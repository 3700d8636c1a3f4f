#include "recorder/iteration_finder.h"

#include <algorithm>
#include <cstdlib>

#include "recorder/nested_loops.h"
#include "recorder/signature.h"

namespace swapadvisor {
namespace {

constexpr std::uint64_t kWindow = 4;        // ops that propose a period together
constexpr std::size_t kPlaces = 1 << 16;    // entries of each place table
constexpr std::uint64_t kPeriodsKept = 12;  // instances in the history while a loop holds: medians need some
constexpr std::size_t kShortestHistory = 1 << 13;
constexpr std::uint64_t kShortestRun = 16;
constexpr std::uint64_t kMaxMultiple =
    4;                        // lives longer than the token period: the period is a multiple of it
constexpr int kMaxJoins = 4;  // rings of several lengths
constexpr std::size_t kMaxSections = 64;  // marked sections that may form one iteration together
constexpr std::size_t kKnownPeriods = 16;

std::uint64_t run_needed(std::uint64_t period) {
    return period >= kShortPeriod ? period : std::max(2 * period, kShortestRun);
}

}  // namespace

IterationFinder::IterationFinder(std::size_t max_ops)
    : history_(max_ops), max_period_(max_ops / 2), last_place_(kPlaces), first_place_(kPlaces) {}

std::uint64_t IterationFinder::op(const OpView& view) {
    const std::uint64_t i = history_.op(view);
    note_first_seen(i);
    if (mark_count_ >= 2) return i;
    if (lock_.period != 0) {
        if (history_.has_whole(i - lock_.period) && history_.same_place(i, lock_.period)) {
            ++lock_.run;
            if (!lock_.delivered)
                consider_delivery();
            else if (lock_.run % lock_.period == 0)
                ++instances_;
            return i;
        }
        end_loop(i);
    }
    // As much history as the loop needs while it holds; more again once it has been gone for long.
    if (++unlocked_ops_ > history_.ops.room() / 2) history_.enough(0);
    const std::uint64_t before = previous_same_window(i);
    misses_.met += before != kNever;
    const std::uint64_t repeat = history_.ops[i].repeat = turns_.note(history_, i, max_period_);
    if (before != kNever && try_periods(i, i - before)) return i;
    if (repeat != 0 && (before == kNever || repeat != i - before)) try_period(i, repeat);
    return i;
}

// --- places ---

std::uint64_t IterationFinder::previous_same_window(std::uint64_t i) {
    if (i + 1 < kWindow) return kNever;
    std::uint64_t window = 0;
    for (std::uint64_t j = i + 1 - kWindow; j <= i; ++j) window = mix(window, history_.ops[j].token);
    Place& place = last_place_[window & (kPlaces - 1)];
    const std::uint64_t before = place.window == window ? place.op : kNever;
    place = {window, i};
    return before;
}

void IterationFinder::note_first_seen(std::uint64_t i) {
    if (i + 1 < kWindow || first_place_used_ * 4 > kPlaces * 3) return;
    std::uint64_t window = 0;
    for (std::uint64_t j = i + 1 - kWindow; j <= i; ++j) window = mix(window, history_.ops[j].key);
    for (std::size_t slot = window & (kPlaces - 1);; slot = (slot + 1) & (kPlaces - 1)) {
        Place& place = first_place_[slot];
        if (place.op == kNever) {
            place = {window, i + 1 - kWindow};
            ++first_place_used_;
            return;
        }
        if (place.window == window) return;
    }
}

std::uint64_t IterationFinder::first_seen(std::uint64_t i) const {
    std::uint64_t window = 0;
    for (std::uint64_t j = i; j < i + kWindow; ++j) {
        if (j >= history_.op_count()) return i;
        window = mix(window, history_.ops[j].key);
    }
    for (std::size_t slot = window & (kPlaces - 1);; slot = (slot + 1) & (kPlaces - 1)) {
        const Place& place = first_place_[slot];
        if (place.op == kNever) return i;
        if (place.window == window) return place.op;
    }
}

// --- periods ---

bool IterationFinder::recently_refused(std::uint64_t period, std::uint64_t i) const {
    return std::any_of(refusals_.begin(), refusals_.end(),
                       [&](const Refusal& r) { return r.period == period && i < r.until; });
}

void IterationFinder::refuse(std::uint64_t period, std::uint64_t until) {
    for (Refusal& r : refusals_)
        if (r.period == period) {
            r.until = until;
            return;
        }
    refusals_[next_refusal_++ % refusals_.size()] = {period, until};
}

/// The newest of the `length` ops that end at `i` that is not at the place of its twin; kNever: none.
std::uint64_t IterationFinder::last_mismatch(std::uint64_t i, std::uint64_t period,
                                             std::uint64_t length) const {
    for (std::uint64_t j = i + 1; j-- > i + 1 - length;)
        if (!history_.same_place(j, period)) return j;
    return kNever;
}

// Small buffers may leak a little. A loop that makes (or frees) one every few ops is initialisation (or the
// end).
bool IterationFinder::litters(std::uint64_t i, std::uint64_t period) const {
    const auto before = static_cast<std::int64_t>(history_.ops[i - period].small_live);
    const auto now = static_cast<std::int64_t>(history_.ops[i].small_live);
    return static_cast<std::uint64_t>(std::abs(now - before)) * 4 > period;
}

bool IterationFinder::try_periods(std::uint64_t i, std::uint64_t distance) {
    for (std::uint64_t period = distance; period <= distance * kMaxMultiple; period += distance) {
        if (period > max_period_ || i + 1 < 2 * period) return false;
        if (try_period(i, period)) return true;
    }
    return false;
}

bool IterationFinder::try_period(std::uint64_t i, std::uint64_t period) {
    for (int round = 0; round < kMaxJoins; ++round) {
        if (period > max_period_ || i + 1 < 2 * period || recently_refused(period, i) ||
            !history_.tokens_repeat(i, period, period) || i + 1 - 2 * period < history_.oldest_op())
            return false;
        // A refusal is not looked at again for half a period, which keeps the cost per op constant.
        const std::uint64_t other = last_mismatch(i, period, period);
        if (other == kNever) return lock_on(i, period);
        refuse(period, i + 1 + period / 2);
        note_other_buffers(period, history_.ops[other]);
        // The same work on other buffers: these come back after so many ops.
        const std::uint64_t repeat = history_.ops[other].repeat;
        if (repeat == 0) return false;
        const std::uint64_t joined = common_multiple(period, repeat, max_period_);
        if (joined == 0 || joined == period) return false;
        period = joined;
    }
    return false;
}

void IterationFinder::note_other_buffers(std::uint64_t period, const OpHistory& op) {
    // Equal ops one after the other say little.
    if (period < 2) return;
    ++misses_.other_buffers;
    if (misses_.other_period != 0 && misses_.other_period <= period) return;
    misses_.other_period = period;
    misses_.other_function = op.function;
    misses_.other_kernel = op.kind == OpKind::kernel;
}

std::string IterationFinder::why_none(
    const std::function<std::string(std::uint64_t function)>& name_of) const {
    const std::uint64_t ops = history_.op_count();
    if (ops < 3 * kShortestRun) return "only " + std::to_string(ops) + " operations ran";
    if (lock_.period != 0 && !lock_.delivered)
        return "the loop of " + std::to_string(lock_.period) + " operations did not go on for long enough";
    if (misses_.met * 4 < ops)
        return "of " + std::to_string(ops) + " operations only " + std::to_string(misses_.met) +
               " came as they had come before: their order, sizes or the memory held differ each time";
    if (misses_.other_buffers != 0) {
        std::string text = "every " + std::to_string(misses_.other_period) +
                           " operations the same work comes again, but on buffers in no fixed order";
        const std::string name = misses_.other_kernel && name_of ? name_of(misses_.other_function) : "";
        return name.empty() ? text : text + ", as in " + name;
    }
    if (misses_.lives != 0) return "buffers live longer than what repeats";
    if (misses_.litter != 0) return "each time that the work comes again it holds more small buffers";
    if (misses_.nested != 0) return "its loops are passes within something longer that did not repeat";
    return "the same work comes again, but never twice in a row in the same order and sizes";
}

// Two whole instances of the period end at `i`; so do more of a shorter one if it divides it.
bool IterationFinder::lock_on(std::uint64_t i, std::uint64_t period) {
    std::uint64_t rest = period;
    for (std::uint64_t factor = 2; rest > 1; ++factor) {
        if (factor * factor > rest) factor = rest;
        if (rest % factor != 0) continue;
        while (rest % factor == 0) rest /= factor;
        const std::uint64_t shorter = period / factor;
        if (history_.tokens_repeat(i, shorter, period) && last_mismatch(i, shorter, period) == kNever &&
            lock_on(i, shorter))
            return true;
    }
    const auto refused = [&](std::uint64_t& why) {
        ++why;
        refuse(period, i + 1 + period / 2);
        return false;
    };
    if (recently_refused(period, i)) return false;
    if (litters(i, period)) return refused(misses_.litter);
    if (!belongs_together(i, period)) return refused(misses_.nested);
    const Window window =
        choose_window(history_, i, period, [this](std::uint64_t op) { return first_seen(op); });
    auto iteration = build_iteration(history_, window);
    if (!iteration) return refused(misses_.lives);
    // What was seen of this very loop before counts too: two steps between evaluations, again and again. Not
    // where a few ops come twice in a row by chance.
    const std::uint64_t before = remember_period(period, iteration->signature);
    const std::uint64_t seen = period >= kShortestRun / 2 ? before : 0;
    const std::uint64_t needed = run_needed(period);
    unlocked_ops_ = 0;
    std::size_t enough = kShortestHistory;
    while (enough < kPeriodsKept * period) enough *= 2;
    history_.enough(enough);
    // It may have gone on for longer than the two instances.
    std::uint64_t run = period;
    const std::uint64_t oldest = history_.oldest_op();
    while (run < needed && i + 1 > oldest + run + period && history_.same_place(i - run, period)) ++run;
    lock_ = {period, run, false, needed > seen ? needed - seen : 0, std::move(iteration)};
    consider_delivery();
    return true;
}

std::uint64_t IterationFinder::remember_period(std::uint64_t period, std::uint64_t signature) {
    Known entry{period, signature, 0};
    const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& k) {
        return k.period == period && k.signature == signature;
    });
    if (known != known_.end()) {
        entry = *known;
        known_.erase(known);
    }
    const std::uint64_t seen = entry.seen;
    entry.seen += period;
    known_.push_back(entry);
    if (known_.size() > kKnownPeriods) known_.erase(known_.begin());
    return seen;
}

// Is the period that ends at `i` one iteration, or instances of a known one with something else in between?
bool IterationFinder::belongs_together(std::uint64_t i, std::uint64_t period) const {
    return std::all_of(known_.begin(), known_.end(), [&](const Known& known) {
        return is_one_iteration(history_, i, period, known.period);
    });
}

// The loop in force has ended before op `end`.
void IterationFinder::end_loop(std::uint64_t end) {
    if (lock_.period != 0 && on_loop_end && end >= 2 * lock_.period + history_.oldest_op()) {
        Window window = marked_window_;
        if (!lock_.iteration->marked)
            window = choose_window(history_, end - 1, lock_.period,
                                   [this](std::uint64_t op) { return first_seen(op); });
        const bool here =
            window.first_op >= history_.oldest_op() && window.first_event >= history_.events.first();
        if (auto newest = here ? build_iteration(history_, window) : nullptr) {
            newest->marked = lock_.iteration->marked;
            on_loop_end(std::move(newest), lock_.run + lock_.period);
        }
    }
    // Places were not kept up while the loop held: its last instance stands for all.
    if (lock_.period != 0 && !lock_.iteration->marked)
        for (std::uint64_t i = end - lock_.period; i < end; ++i) {
            previous_same_window(i);
            turns_.note(history_, i, max_period_);
            history_.ops[i].repeat = lock_.period;
        }
    lock_ = {};
}

// --- delivery ---

void IterationFinder::consider_delivery() {
    if (lock_.run < lock_.next_try) return;
    const Iteration& found = *lock_.iteration;
    if (steady_ && found.signature != steady_->signature) {
        const bool inner =
            std::find(inner_periods_.begin(), inner_periods_.end(), lock_.period) != inner_periods_.end();
        const bool contains = lock_.period >= 2 * steady_period_;
        const bool heavier = found.peak_live_bytes > steady_->peak_live_bytes + steady_->peak_live_bytes / 64;
        const bool as_heavy = found.peak_live_bytes >= steady_->peak_live_bytes;
        const bool weightier = !inner && (heavier || (contains && as_heavy));
        // As heavy as the loop in force: a few instances more. Lighter (evaluation, one phase of it): only if
        // it goes on for long.
        const std::uint64_t lasting =
            std::max((as_heavy && !inner ? 3 : 8) * lock_.period, 2 * steady_period_);
        if (!weightier && lock_.run < lasting) {
            lock_.next_try = lasting;
            return;
        }
    }
    deliver();
}

void IterationFinder::deliver() {
    if (!steady_ || steady_->signature != lock_.iteration->signature) {
        std::vector<std::uint64_t> inner;
        for (const Known& known : known_)
            if (known.period < lock_.period) inner.push_back(known.period);
        inner_periods_ = std::move(inner);
    }
    const std::uint64_t next = history_.op_count();
    Iteration& iteration = *lock_.iteration;
    const std::uint64_t whole = (next - iteration.first_seq) / lock_.period;
    if (whole > 1) iteration.first_seq += (whole - 1) * lock_.period;
    fill_measured(history_, iteration);
    steady_ = lock_.iteration;
    steady_period_ = lock_.period;
    lock_.delivered = true;
    instances_ = lock_.run / lock_.period + 1;
    ++version_;
}

std::shared_ptr<const Iteration> IterationFinder::with_durations() const {
    if (!steady_) return nullptr;
    auto copy = std::make_shared<Iteration>(*steady_);
    fill_measured(history_, *copy);
    return copy;
}

// --- marks ---

void IterationFinder::mark() {
    const Mark now{history_.op_count(), history_.events.end()};
    ++mark_count_;
    if (!marks_.empty() && marks_.back().op == now.op) return;  // an empty section
    marks_.push_back(now);
    if (marks_.size() > 2 * kMaxSections + 1) marks_.erase(marks_.begin());
    if (mark_count_ == 2) end_loop(now.op);
    for (std::size_t sections = 1; sections <= kMaxSections && 2 * sections < marks_.size(); ++sections)
        if (try_marked(sections)) return;
    end_loop(now.op);
}

// Do the last `sections` sections repeat the ones before them?
bool IterationFinder::try_marked(std::size_t sections) {
    const Mark& end = marks_.back();
    const Mark& middle = marks_[marks_.size() - 1 - sections];
    const Mark& begin = marks_[marks_.size() - 1 - 2 * sections];
    const std::uint64_t period = end.op - middle.op;
    if (middle.op - begin.op != period || begin.op < history_.oldest_op() ||
        begin.event < history_.events.first())
        return false;
    const std::uint64_t last = end.op - 1;
    if (!history_.tokens_repeat(last, period, period)) return false;
    if (lock_.period == period && lock_.delivered) {
        if ((end.op - steady_->first_seq) % period == 0) {
            lock_.run += period;
            ++instances_;
            marked_window_ = {middle.op, end.op, middle.event, end.event};
        }
        return true;
    }
    if (last_mismatch(last, period, period) != kNever || litters(last, period)) return false;
    const Window window{middle.op, end.op, middle.event, end.event};
    auto iteration = build_iteration(history_, window);
    if (!iteration) return false;
    iteration->marked = true;
    end_loop(middle.op);
    marked_window_ = window;
    lock_ = {period, period, false, 0, std::move(iteration)};
    deliver();
    return true;
}

}  // namespace swapadvisor
