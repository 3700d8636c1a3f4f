// Records (recorder/record.h) into the iteration finder: shared by the live recorder and the readers of
// traces.
#pragma once

#include <string_view>
#include <vector>

#include "recorder/iteration_finder.h"
#include "recorder/record.h"

namespace swapadvisor {

/// The op of an op record. Its touches live in `touches`.
inline OpView op_of_record(const std::uint64_t* words, std::size_t count, std::vector<Touch>& touches) {
    OpView op;
    op.kind = static_cast<OpKind>(record_flag(words[0]));
    op.function = words[1];
    for (std::size_t i = 0; i < 3; ++i) {
        op.geometry[2 * i] = static_cast<std::uint32_t>(words[2 + i] >> 32);
        op.geometry[2 * i + 1] = static_cast<std::uint32_t>(words[2 + i]);
    }
    op.stream = reinterpret_cast<void*>(words[5]);
    touches.clear();
    for (std::size_t i = kOpFixedWords; i < count; ++i)
        touches.push_back({words[i] >> 2, static_cast<Access>(words[i] & 3)});
    op.touches = touches.data();
    op.touch_count = static_cast<std::uint32_t>(touches.size());
    return op;
}

/// Everything that the finder needs to know; other records are ignored.
inline void feed(IterationFinder& finder, const std::uint64_t* words, std::size_t count,
                 std::vector<Touch>& touches) {
    switch (record_type(words[0])) {
        case RecordType::allocate:
            finder.allocate(words[1], static_cast<std::int64_t>(words[2]), (record_flag(words[0]) & 1) != 0,
                            words[3], (record_flag(words[0]) & 2) != 0);
            break;
        case RecordType::release:
            finder.release(words[1]);
            break;
        case RecordType::op:
            finder.op(op_of_record(words, count, touches));
            break;
        case RecordType::duration:
            finder.op_duration(words[1], static_cast<std::int64_t>(words[2]));
            break;
        case RecordType::content:
            finder.content(words[1], words[2], record_flag(words[0]) != 0);
            break;
        case RecordType::mark:
            finder.mark();
            break;
        case RecordType::range:
            finder.set_range(words[1]);
            break;
        case RecordType::text:
            if (static_cast<TextKind>(record_flag(words[0])) == TextKind::escape) finder.escaped(words[1]);
            break;
        case RecordType::swap:
        case RecordType::stall:
        case RecordType::device:
        case RecordType::figure:
            break;
    }
}

/// The text of a text record.
inline std::string_view text_of_record(const std::uint64_t* words) {
    return {reinterpret_cast<const char*>(words + 3), static_cast<std::size_t>(words[2])};
}

}  // namespace swapadvisor
