// Places by ejection: a tensor that finds no chunks takes those that cost least to clear, and what stood
// there is placed again. What was put out often gets dearer, so that the search moves on; a tensor that keeps
// failing is split at its longest absence, which costs a remap there, where remaps are allowed.
//
// Only the positions count here, not the dispatcher's times: retime() makes the best of the places found.
#include <algorithm>
#include <bit>
#include <numeric>

#include "planner/place/placement_parts.h"

namespace swapadvisor::planner {

namespace {

using Bits = std::vector<std::uint64_t>;

constexpr int fails_before_split = 6;

/// Chunks that hold the same stays.
struct Piece {
    Placement at;
    std::int32_t count = 0;
    Bits held;
};

/// Leaves `count` chunks in `piece`; returns the rest.
Piece cut(Piece& piece, std::int32_t count) {
    Piece rest{{}, piece.count - count, piece.held};
    piece.count = count;
    std::size_t k = 0;
    for (; count >= piece.at[k].count; ++k) count -= piece.at[k].count;
    rest.at.assign(piece.at.begin() + static_cast<std::ptrdiff_t>(k), piece.at.end());
    piece.at.resize(k);
    if (count > 0) {
        piece.at.push_back({rest.at[0].first, count});
        rest.at[0].first += count;
        rest.at[0].count -= count;
    }
    return rest;
}

/// Stays of one tensor that share their chunks.
struct Group {
    std::vector<std::int32_t> stays;  // indices into the region's
    std::int32_t units = 0, order = 0;
    int fails = 0;
    double weight = 0;
    bool placed = false, always = false, leaving = false;
    std::uint64_t stamp = 0;
    Bits clash, late;  // stays it cannot, and would rather not, share chunks with
};

class Ejector {
  public:
    Ejector(std::span<const Stay> stays, const Spans& spans, std::vector<std::int32_t> members,
            std::int32_t slots, bool allow_remaps)
        : stays_(stays),
          spans_(spans),
          members_(std::move(members)),
          words_((members_.size() + 63) / 64),
          allow_remaps_(allow_remaps),
          owner_(members_.size(), -1) {
        find_clashes();
        make_groups();
        if (slots > 0) pieces_.push_back({{{0, slots}}, slots, Bits(words_)});
    }

    /// False when the budget was not enough.
    bool run(const EjectOptions& options) {
        for (std::int64_t left = options.budget; !queue_.empty(); --left) {
            if (left <= 0 || (left % 32 == 0 && options.stop && options.stop())) return false;
            const std::int32_t g = queue_.back();
            queue_.pop_back();
            if (!put(g)) return false;
        }
        return true;
    }

    /// Each group once more, now that all have places: where it waits least.
    void polish() {
        std::vector<std::int32_t> order;
        for (std::size_t g = 0; g < groups_.size(); ++g)
            if (groups_[g].placed && !groups_[g].always) order.push_back(static_cast<std::int32_t>(g));
        std::sort(order.begin(), order.end(), [&](std::int32_t x, std::int32_t y) {
            const Group &a = groups_[static_cast<std::size_t>(x)], &b = groups_[static_cast<std::size_t>(y)];
            return a.order != b.order ? a.order < b.order : x < y;
        });
        for (const std::int32_t g : order) {
            take_out(groups_[static_cast<std::size_t>(g)]);
            put(g);
            merge_if_many();
        }
    }

    void write(std::vector<Placement>& at) const {
        for (const Group& g : groups_) {
            Placement where;
            for (const Piece& p : pieces_)
                if (holds(p, g)) where.insert(where.end(), p.at.begin(), p.at.end());
            tidy(where);
            for (const std::int32_t s : g.stays)
                at[static_cast<std::size_t>(members_[static_cast<std::size_t>(s)])] = where;
        }
    }

  private:
    static void set(Bits& bits, std::int32_t i) {
        bits[static_cast<std::size_t>(i) / 64] |= std::uint64_t{1} << (i % 64);
    }
    static void clear(Bits& bits, std::int32_t i) {
        bits[static_cast<std::size_t>(i) / 64] &= ~(std::uint64_t{1} << (i % 64));
    }
    static bool test(const Bits& bits, std::int32_t i) {
        return (bits[static_cast<std::size_t>(i) / 64] >> (i % 64)) & 1;
    }
    bool holds(const Piece& p, const Group& g) const { return g.placed && test(p.held, g.stays.front()); }
    bool meets(const Bits& a, const Bits& b) const {
        const std::uint64_t *x = a.data(), *y = b.data();
        std::size_t w = 0;
        for (; w + 4 <= words_; w += 4)
            if (((x[w] & y[w]) | (x[w + 1] & y[w + 1]) | (x[w + 2] & y[w + 2]) | (x[w + 3] & y[w + 3])) != 0)
                return true;
        for (; w < words_; ++w)
            if ((x[w] & y[w]) != 0) return true;
        return false;
    }

    void find_clashes() {
        const auto count = static_cast<std::int32_t>(members_.size());
        clash_.assign(members_.size(), Bits(words_));
        late_.assign(members_.size(), Bits(words_));
        const auto pairs = [&](const std::vector<Span>& spans, std::vector<Bits>& into) {
            std::vector<std::pair<Span, std::int32_t>> sorted;
            for (std::int32_t i = 0; i < count; ++i) {
                const Span& s = spans[static_cast<std::size_t>(members_[static_cast<std::size_t>(i)])];
                if (s.begin < s.end) sorted.emplace_back(s, i);
            }
            return add_pairs(std::move(sorted), into);
        };
        pairs(spans_.must, clash_);
        std::vector<std::pair<Span, std::int32_t>> wishes;
        for (std::int32_t i = 0; i < count; ++i) {
            const auto m = static_cast<std::size_t>(members_[static_cast<std::size_t>(i)]);
            if (spans_.wish[m].begin < spans_.wish[m].end) wishes.emplace_back(spans_.wish[m], i);
            if (spans_.wish_wrapped[m].begin < spans_.wish_wrapped[m].end)
                wishes.emplace_back(spans_.wish_wrapped[m], i);
        }
        add_pairs(std::move(wishes), late_);
    }
    static void add_pairs(std::vector<std::pair<Span, std::int32_t>> sorted, std::vector<Bits>& into) {
        std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
            return a.first.begin != b.first.begin ? a.first.begin < b.first.begin : a.second < b.second;
        });
        std::vector<std::pair<Span, std::int32_t>> open;
        for (const auto& s : sorted) {
            std::erase_if(open, [&](const auto& o) { return o.first.end <= s.first.begin; });
            for (const auto& o : open) {
                set(into[static_cast<std::size_t>(s.second)], o.second);
                set(into[static_cast<std::size_t>(o.second)], s.second);
            }
            open.push_back(s);
        }
    }

    void make_groups() {
        const auto count = static_cast<std::int32_t>(members_.size());
        for (std::int32_t i = 0; i < count;) {
            Group g;
            const TensorId tensor = stay(i).tensor;
            for (; i < count && stay(i).tensor == tensor; ++i) g.stays.push_back(i);
            add(std::move(g));
        }
        // Those that stay for good, those over the boundary, then as they come.
        std::vector<std::int32_t> order(groups_.size());
        std::iota(order.begin(), order.end(), 0);
        const auto key = [&](std::int32_t i) {
            const Group& g = groups_[static_cast<std::size_t>(i)];
            const Stay& first = stay(g.stays.front());
            return std::tuple(!g.always, !first.initial, first.begin, i);
        };
        std::sort(order.begin(), order.end(),
                  [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
        for (std::size_t k = 0; k < order.size(); ++k)
            groups_[static_cast<std::size_t>(order[k])].order = static_cast<std::int32_t>(k);
        for (const std::int32_t g : order) queue_.push_back(g);
        std::reverse(queue_.begin(), queue_.end());
    }
    const Stay& stay(std::int32_t i) const {
        return stays_[static_cast<std::size_t>(members_[static_cast<std::size_t>(i)])];
    }
    std::int32_t add(Group g) {
        const Stay& first = stay(g.stays.front());
        g.units = first.units;
        g.always = g.stays.size() == 1 && first.initial && first.partner < 0;
        g.clash.assign(words_, 0);
        g.late.assign(words_, 0);
        double length = 0;
        for (const std::int32_t s : g.stays) {
            for (std::size_t w = 0; w < words_; ++w) {
                g.clash[w] |= clash_[static_cast<std::size_t>(s)][w];
                g.late[w] |= late_[static_cast<std::size_t>(s)][w];
            }
            const Span& span = spans_.must[static_cast<std::size_t>(members_[static_cast<std::size_t>(s)])];
            length += span.end - span.begin;
        }
        g.weight = g.units * (static_cast<double>(g.stays.size()) + 4 * length / spans_.must_length);
        if (g.always) g.weight *= 100;
        const auto id = static_cast<std::int32_t>(groups_.size());
        for (const std::int32_t s : g.stays) owner_[static_cast<std::size_t>(s)] = id;
        groups_.push_back(std::move(g));
        return id;
    }

    const Span& must(std::int32_t i) const {
        return spans_.must[static_cast<std::size_t>(members_[static_cast<std::size_t>(i)])];
    }
    /// How much time around the group's stays a piece leaves unused: little is a good fit.
    std::int64_t room(const Piece& p, const Group& g) const {
        std::int64_t sum = 0;
        for (const std::int32_t s : g.stays) {
            const Span& span = must(s);
            std::int32_t before = -spans_.must_length, after = 2 * spans_.must_length;
            each(p.held, p.held, [&](std::int32_t i) {
                const Span& other = must(i);
                if (other.end <= span.begin)
                    before = std::max(before, other.end);
                else if (other.begin >= span.end)
                    after = std::min(after, other.begin);
            });
            sum += std::int64_t{after - span.end} + 2 * std::int64_t{span.begin - before};
        }
        return sum;
    }
    /// For how long the group's stays and those of a piece want the same chunks: somebody has to wait.
    std::int64_t wait(const Piece& p, const Group& g) const {
        std::int64_t sum = 0;
        if (!meets(p.held, g.late)) return 0;
        for (const std::int32_t s : g.stays)
            each(p.held, late_[static_cast<std::size_t>(s)], [&](std::int32_t i) { sum += wait(s, i); });
        return sum;
    }
    std::int64_t wait(std::int32_t a, std::int32_t b) const {
        const auto x = static_cast<std::size_t>(members_[static_cast<std::size_t>(a)]),
                   y = static_cast<std::size_t>(members_[static_cast<std::size_t>(b)]);
        std::int64_t most = 0;
        for (const Span* s : {&spans_.wish[x], &spans_.wish_wrapped[x]})
            for (const Span* t : {&spans_.wish[y], &spans_.wish_wrapped[y]}) {
                const std::int32_t from = std::max(s->begin, t->begin), to = std::min(s->end, t->end);
                if (from < to)
                    most = std::max(most, spans_.wish_time[static_cast<std::size_t>(to)] -
                                              spans_.wish_time[static_cast<std::size_t>(from)]);
            }
        return most;
    }
    template <class F>
    void each(const Bits& a, const Bits& b, F&& f) const {
        const std::uint64_t *x = a.data(), *y = b.data();
        for (std::size_t w = 0; w < words_; ++w)
            for (std::uint64_t bits = x[w] & y[w]; bits != 0; bits &= bits - 1)
                f(static_cast<std::int32_t>(64 * w) + std::countr_zero(bits));
    }

    bool put(std::int32_t index) {
        Group& g = groups_[static_cast<std::size_t>(index)];
        free_.clear();
        taken_.clear();
        std::int64_t have = 0;
        for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
            if (meets(pieces_[i].held, g.clash)) {
                taken_.push_back(i);
                continue;
            }
            free_.push_back({0, 0, i});
            have += pieces_[i].count;
        }
        if (have < g.units) {
            if (++g.fails > fails_before_split && allow_remaps_ && split(index)) return true;
            return make_room(index, g.units - have) && put(index);
        }
        for (Free& f : free_) f.wait = wait(pieces_[f.piece], g);
        // Those that wait least, as many as it takes, and all that wait no longer than these.
        const auto later = [](const Free& x, const Free& y) { return y < x; };
        std::make_heap(free_.begin(), free_.end(), later);
        auto heap_end = free_.end();
        std::int64_t sum = 0, most_wait = 0;
        while (heap_end != free_.begin() && sum < g.units) {
            std::pop_heap(free_.begin(), heap_end--, later);
            sum += pieces_[heap_end->piece].count;
            most_wait = heap_end->wait;
        }
        std::erase_if(free_, [&](const Free& f) { return f.wait > most_wait; });
        // The fit matters among these only.
        for (Free& f : free_) f.room = room(pieces_[f.piece], g);
        std::make_heap(free_.begin(), free_.end(), later);
        std::int32_t want = g.units;
        for (heap_end = free_.end(); want > 0 && heap_end != free_.begin();) {
            std::pop_heap(free_.begin(), heap_end--, later);
            const Free& f = *heap_end;
            if (pieces_[f.piece].count > want) {
                Piece rest = cut(pieces_[f.piece], want);
                pieces_.push_back(std::move(rest));
            }
            Piece& p = pieces_[f.piece];
            for (const std::int32_t s : g.stays) set(p.held, s);
            want -= p.count;
        }
        g.placed = true;
        return true;
    }

    void take_out(Group& g) {
        for (Piece& p : pieces_)
            if (holds(p, g))
                for (const std::int32_t s : g.stays) clear(p.held, s);
        g.placed = false;
    }
    /// Puts out what costs least for `lack` chunks more.
    bool make_room(std::int32_t index, std::int64_t lack) {
        const Group& g = groups_[static_cast<std::size_t>(index)];
        std::vector<std::int32_t> out;
        costs_.assign(taken_.size(), -1);  // -1: to be found (anew)
        while (lack > 0) {
            double best = -1;
            std::size_t at = 0;
            for (std::size_t k = 0; k < taken_.size(); ++k) {
                const Piece& p = pieces_[taken_[k]];
                if (costs_[k] < 0) costs_[k] = cost_of(p, g) / p.count;
                if (best < 0 || costs_[k] < best) best = costs_[k], at = k;
            }
            if (best < 0) return false;
            const Piece& p = pieces_[taken_[at]];
            Bits left(words_);
            each(p.held, g.clash, [&](std::int32_t i) {
                Group& other = groups_[static_cast<std::size_t>(owner_[static_cast<std::size_t>(i)])];
                if (other.leaving) return;
                other.leaving = true;
                for (const std::int32_t s : other.stays) set(left, s);
                out.push_back(owner_[static_cast<std::size_t>(i)]);
            });
            lack -= p.count;
            taken_[at] = taken_.back();
            taken_.pop_back();
            costs_[at] = costs_.back();
            costs_.pop_back();
            if (lack <= 0) break;
            for (std::size_t k = 0; k < taken_.size(); ++k)
                if (meets(pieces_[taken_[k]].held, left)) costs_[k] = -1;
        }
        for (const std::int32_t other : out) eject(other);
        merge_if_many();
        return true;
    }
    double cost_of(const Piece& p, const Group& g) {
        ++stamp_;
        double cost = 0;
        each(p.held, g.clash, [&](std::int32_t i) {
            Group& other = groups_[static_cast<std::size_t>(owner_[static_cast<std::size_t>(i)])];
            if (other.leaving || other.stamp == stamp_) return;
            other.stamp = stamp_;
            cost += other.weight;
        });
        return cost;
    }
    void eject(std::int32_t index) {
        Group& g = groups_[static_cast<std::size_t>(index)];
        take_out(g);
        g.leaving = false;
        g.weight *= 1.3;
        queue_.push_back(index);
    }
    /// Pieces that hold the same become one.
    void merge_if_many() {
        if (pieces_.size() <= merge_above_) return;
        std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
            return a.held != b.held ? a.held < b.held : a.at.front().first < b.at.front().first;
        });
        std::size_t kept = 0;
        for (std::size_t i = 1; i < pieces_.size(); ++i) {
            Piece &into = pieces_[kept], &from = pieces_[i];
            if (into.held == from.held) {
                into.at.insert(into.at.end(), from.at.begin(), from.at.end());
                into.count += from.count;
            } else if (++kept != i) {
                pieces_[kept] = std::move(from);
            }
        }
        pieces_.resize(kept + 1);
        merge_above_ = pieces_.size() * 5 / 4 + 16;
    }
    /// In two at its longest absence. False: one stay, or one residency.
    bool split(std::int32_t index) {
        const Group g = groups_[static_cast<std::size_t>(index)];
        std::int32_t longest = -1;
        std::size_t cut = 0;
        const bool around =
            stay(g.stays.front()).partner >= 0 &&
            members_[static_cast<std::size_t>(g.stays.back())] == stay(g.stays.front()).partner;
        for (std::size_t k = 1; k < g.stays.size(); ++k) {
            const std::int32_t absence = stay(g.stays[k]).begin - stay(g.stays[k - 1]).release;
            if (absence > longest) longest = absence, cut = k;
        }
        if (cut == 0 || (around && g.stays.size() == 2)) return false;
        Group a, b;
        a.stays.assign(g.stays.begin(), g.stays.begin() + static_cast<std::ptrdiff_t>(cut));
        b.stays.assign(g.stays.begin() + static_cast<std::ptrdiff_t>(cut), g.stays.end());
        if (around) {  // both ends of the residency over the boundary stay together
            std::int32_t next = -1;
            std::size_t second = 0;
            for (std::size_t k = 1; k < g.stays.size(); ++k) {
                if (k == cut) continue;
                const std::int32_t absence = stay(g.stays[k]).begin - stay(g.stays[k - 1]).release;
                if (absence > next) next = absence, second = k;
            }
            const std::size_t from = std::min(cut, second), to = std::max(cut, second);
            a.stays.assign(g.stays.begin() + static_cast<std::ptrdiff_t>(from),
                           g.stays.begin() + static_cast<std::ptrdiff_t>(to));
            b.stays.assign(g.stays.begin(), g.stays.begin() + static_cast<std::ptrdiff_t>(from));
            b.stays.insert(b.stays.end(), g.stays.begin() + static_cast<std::ptrdiff_t>(to), g.stays.end());
        }
        a.order = b.order = g.order;
        groups_[static_cast<std::size_t>(index)].stays.clear();
        groups_[static_cast<std::size_t>(index)].placed = false;
        queue_.push_back(add(std::move(a)));
        queue_.push_back(add(std::move(b)));
        return true;
    }

    std::span<const Stay> stays_;
    const Spans& spans_;
    std::vector<std::int32_t> members_;  // stays of the region
    std::size_t words_;
    bool allow_remaps_;
    std::vector<std::int32_t> owner_;  // group of each
    std::vector<Bits> clash_, late_;   // by stay
    std::vector<Group> groups_;
    std::vector<Piece> pieces_;
    std::size_t merge_above_ = 64;
    std::uint64_t stamp_ = 0;
    struct Free {
        std::int64_t wait, room;
        std::uint32_t piece;
        bool operator<(const Free& o) const {
            return wait != o.wait ? wait < o.wait : room != o.room ? room < o.room : piece < o.piece;
        }
    };
    std::vector<Free> free_;  // of the group at hand
    std::vector<std::uint32_t> taken_;
    std::vector<double> costs_;        // of each in taken_
    std::vector<Span> held_;           // of the piece at hand
    std::vector<std::int32_t> queue_;  // next at the back
};

}  // namespace

bool place_by_ejection(const Setting& setting, std::span<const Stay> stays, const Spans& spans,
                       const EjectOptions& options, const std::function<bool(const Places&)>& good) {
    std::vector<Ejector> regions;
    for (std::size_t r = 0; r < setting.allocation.regions.size(); ++r) {
        std::vector<std::int32_t> members;
        for (std::size_t i = 0; i < stays.size(); ++i)
            if (stays[i].region == r) members.push_back(static_cast<std::int32_t>(i));
        if (members.empty()) continue;
        regions.emplace_back(stays, spans, std::move(members), setting.allocation.regions[r].slots,
                             options.allow_remaps);
        if (!regions.back().run(options)) return false;
    }
    const auto found = [&] {
        Places places;
        places.ok = true;
        places.delay_ns = 1;  // not measured here: there may be one
        places.at.resize(stays.size());
        for (const Ejector& e : regions) e.write(places.at);
        for (std::size_t i = 0; i < stays.size(); ++i) to_chunks(setting, stays[i], places.at[i]);
        count_remaps(stays, places);
        return good(places);
    };
    if (found() || !options.polish || (options.stop && options.stop())) return true;
    for (Ejector& e : regions) e.polish();
    found();
    return true;
}

}  // namespace swapadvisor::planner
