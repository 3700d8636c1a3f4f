#include "planner/place/occupancy.h"

#include <algorithm>
#include <bit>

namespace swapadvisor::planner {

namespace {

/// a becomes a ∪ b; both sorted, disjoint, merged.
void unite(Placement& a, const Placement& b) {
    if (b.empty()) return;
    Placement out;
    out.reserve(a.size() + b.size());
    std::size_t i = 0, j = 0;
    while (i < a.size() || j < b.size()) {
        const ChunkRange& r = j == b.size() || (i < a.size() && a[i].first <= b[j].first) ? a[i++] : b[j++];
        if (!out.empty() && out.back().first + out.back().count >= r.first)
            out.back().count = std::max(out.back().count, r.first + r.count - out.back().first);
        else
            out.push_back(r);
    }
    a = std::move(out);
}

}  // namespace

void ChunkBits::add(const ChunkRange& range) {
    if (range.count <= 0) return;
    const auto first = static_cast<std::size_t>(range.first);
    const auto last = first + static_cast<std::size_t>(range.count) - 1;
    const std::uint64_t head = ~std::uint64_t{0} << (first % 64),
                        tail = ~std::uint64_t{0} >> (63 - last % 64);
    if (first / 64 == last / 64) {
        words_[first / 64] |= head & tail;
        return;
    }
    words_[first / 64] |= head;
    for (std::size_t w = first / 64 + 1; w < last / 64; ++w) words_[w] = ~std::uint64_t{0};
    words_[last / 64] |= tail;
}

void ChunkBits::free_runs(Placement& into) const {
    into.clear();
    std::int32_t run = -1;
    for (std::size_t w = 0; w < words_.size(); ++w) {
        std::uint64_t word = words_[w];
        const auto at = static_cast<std::int32_t>(w * 64);
        if (w + 1 == words_.size() && chunks_ % 64 != 0) word |= ~std::uint64_t{0} << (chunks_ % 64);
        std::int32_t bit = 0;
        while (bit < 64) {
            const std::uint64_t rest = word >> bit;
            if (run < 0) {  // look for a free chunk
                if (~rest << bit == 0) break;
                const int skip = std::countr_one(rest);
                bit += skip;
                if (bit >= 64) break;
                run = at + bit;
            } else {
                if (rest == 0) break;
                bit += std::countr_zero(rest);
                into.push_back({run, at + bit - run});
                run = -1;
            }
        }
    }
    if (run >= 0) into.push_back({run, chunks_ - run});
}

Occupancy::Occupancy(std::int32_t length) : length_(std::max(1, length)) {
    nodes_.resize(2 * std::bit_ceil(static_cast<std::size_t>(length_)));
}

void Occupancy::add(std::int32_t begin, std::int32_t end, const Placement& at) {
    begin = std::max(begin, 0);
    end = std::min(end, length_);
    if (begin < end) add(1, 0, static_cast<std::int32_t>(nodes_.size() / 2), begin, end, at);
}

void Occupancy::add(std::size_t node, std::int32_t lo, std::int32_t hi, std::int32_t begin, std::int32_t end,
                    const Placement& at) {
    if (end <= lo || hi <= begin) return;
    unite(nodes_[node].inside, at);
    if (begin <= lo && hi <= end) {
        unite(nodes_[node].through, at);
        return;
    }
    const std::int32_t mid = lo + (hi - lo) / 2;
    add(2 * node, lo, mid, begin, end, at);
    add(2 * node + 1, mid, hi, begin, end, at);
}

void Occupancy::taken(std::int32_t begin, std::int32_t end, ChunkBits& into) const {
    begin = std::max(begin, 0);
    end = std::min(end, length_);
    if (begin < end) taken(1, 0, static_cast<std::int32_t>(nodes_.size() / 2), begin, end, into);
}

void Occupancy::taken(std::size_t node, std::int32_t lo, std::int32_t hi, std::int32_t begin,
                      std::int32_t end, ChunkBits& into) const {
    if (end <= lo || hi <= begin || nodes_[node].inside.empty()) return;
    if (begin <= lo && hi <= end) {
        into.add(nodes_[node].inside);
        return;
    }
    into.add(nodes_[node].through);
    const std::int32_t mid = lo + (hi - lo) / 2;
    taken(2 * node, lo, mid, begin, end, into);
    taken(2 * node + 1, mid, hi, begin, end, into);
}

}  // namespace swapadvisor::planner
