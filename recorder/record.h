// What the recorder passes on, as words: from the runtime's threads to the recorder's own, and on to the
// trace file. A record is a header word and its fields, each one word; texts and touches follow at the end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swapadvisor {

enum class RecordType : std::uint8_t {
    allocate = 1,  ///< flag: 1 small, 2 page of small ones, 3 small in a page; buffer, bytes, site, stream
    release,       ///< buffer
    op,  ///< flag: kind; function, geometry x3 (two per word), stream, host ns, touches (buffer * 4 + access)
    duration,  ///< op seq, ns
    mark,      ///< -
    swap,      ///< flag: kind * 2 + planned; buffer, bytes, op seq
    stall,     ///< op seq, ns
    text,      ///< flag: TextKind; id, byte count, bytes
    device,    ///< memory, h2d rate, d2h rate, duplex rate, latency, limit
    range,     ///< range: the NVTX range of what follows (0: none)
    figure,    ///< flag: FigureKind; ns
    content,   ///< flag: changed; op seq, touch (its index in the op)
};
constexpr std::uint8_t kLastRecordType = static_cast<std::uint8_t>(RecordType::content);

/// Figures of one iteration of the main loop that the runtime knows; the newest counts.
enum class FigureKind : std::uint8_t {
    predicted_ns,    ///< by the plan that is followed from here on
    measured_ns,     ///< from boundary to boundary, on the device
    lower_bound_ns,  ///< no plan in the program's order can be faster
};
constexpr std::uint8_t kLastFigureKind = static_cast<std::uint8_t>(FigureKind::lower_bound_ns);

enum class TextKind : std::uint8_t { function, site, buffer, escape, program, device, range };
constexpr std::uint8_t kLastTextKind = static_cast<std::uint8_t>(TextKind::range);

constexpr std::size_t kMaxRecordWords = 4096;  ///< longer ones are cut when made and refused when read
constexpr std::size_t kMaxTextBytes = 16384;
constexpr unsigned kMaxValueBits = 48;  ///< sizes, times and rates are below 2^48: sums cannot overflow soon
constexpr std::size_t kOpFixedWords = 7;  ///< header, function, geometry x3, stream, host ns

constexpr std::uint64_t record_header(RecordType type, std::uint8_t flag, std::size_t words) {
    return static_cast<std::uint64_t>(type) | static_cast<std::uint64_t>(flag) << 8 |
           static_cast<std::uint64_t>(words) << 16;
}
constexpr RecordType record_type(std::uint64_t header) {
    return static_cast<RecordType>(header & 0xFF);
}
constexpr std::uint8_t record_flag(std::uint64_t header) {
    return static_cast<std::uint8_t>(header >> 8);
}
constexpr std::size_t record_words(std::uint64_t header) {
    return static_cast<std::size_t>(header >> 16 & 0xFFFFFFFF);
}

}  // namespace swapadvisor
