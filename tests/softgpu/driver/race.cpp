#include "tests/softgpu/driver/race.h"

#include "tests/softgpu/driver/stats.h"

namespace softgpu {

RaceCheck::Cells::iterator RaceCheck::split(Cells& cells, std::uint64_t at) {
    auto it = cells.upper_bound(at);
    if (it == cells.begin()) return it;
    --it;
    if (it->first == at) return it;
    if (it->second.end <= at) return std::next(it);
    Cell right = it->second;
    it->second.end = at;
    return cells.emplace(at, std::move(right)).first;
}

void RaceCheck::report(const Op& op, const Access& other, const Span& span, std::uint64_t first, bool write,
                       bool other_wrote) {
    Stats& stats = *driver().stats;
    ++stats.races;
    // One line per pair of operations.
    if (!reported_.insert({other.sequence << 16 | other.slot, op.id}).second || reported_.size() > 1000)
        return;
    char text[600];
    std::snprintf(
        text, sizeof text,
        "race: %s #%llu (stream slot %u) %s and %s #%llu (stream slot %u) %s the same bytes at 0x%llx (%s) "
        "with no order between them",
        other.name->c_str(), static_cast<unsigned long long>(other.sequence), other.slot,
        other_wrote ? "writes" : "reads", op.name->c_str(), static_cast<unsigned long long>(op.sequence),
        op.slot, write ? "writes" : "reads", static_cast<unsigned long long>(first),
        span_kind_name(span.kind));
    if (stats.findings.size() < 100) stats.findings.push_back(text);
    say("%s", text);
}

void RaceCheck::access(const Op& op, const Span& span, std::uint64_t first, std::uint64_t last, bool write) {
    // Registered host memory has no file: its own address is its place.
    Cells& cells = files_[span.file];
    const std::uint64_t base = span.file ? span.offset : span.begin;
    const std::uint64_t begin = base + (first - span.begin), end = base + (last - span.begin);
    const auto ordered = [&](const Access& a) {
        return a.sequence == 0 || (a.slot == op.slot && a.sequence <= op.sequence) ||
               knows(op.clock, a.slot, a.sequence);
    };
    split(cells, end);
    auto it = split(cells, begin);
    std::uint64_t at = begin;
    const Access self{op.slot, op.sequence, op.name};
    while (at < end) {
        if (it == cells.end() || it->first > at) {  // untouched so far
            Cell fresh;
            fresh.end = it == cells.end() ? end : std::min(end, it->first);
            it = cells.emplace_hint(it, at, std::move(fresh));
        }
        Cell& cell = it->second;
        if (!ordered(cell.writer)) report(op, cell.writer, span, span.begin + (at - base), write, true);
        if (write) {
            for (const Access& reader : cell.readers)
                if (!ordered(reader)) report(op, reader, span, span.begin + (at - base), write, false);
            cell.writer = self;
            cell.readers.clear();
        } else {
            bool found = false;
            for (Access& reader : cell.readers)
                if (reader.slot == op.slot) reader = self, found = true;
            if (!found) cell.readers.push_back(self);
        }
        at = cell.end;
        ++it;
    }
}

void check_stream_order(const Op& op, const Span& span) {
    if (!options().strict) return;
    const auto where = static_cast<unsigned long long>(span.begin);
    if (span.born_sequence && span.born_slot != op.slot &&
        !knows(op.clock, span.born_slot, span.born_sequence))
        report_strictness("%s #%llu uses stream-ordered memory 0x%llx without waiting for its allocation",
                          op.name->c_str(), static_cast<unsigned long long>(op.id), where);
    if (span.freeing && !knows(span.free_clock, op.slot, op.sequence))
        report_strictness(
            "%s #%llu uses stream-ordered memory 0x%llx that a stream frees without waiting for it",
            op.name->c_str(), static_cast<unsigned long long>(op.id), where);
}

}  // namespace softgpu
