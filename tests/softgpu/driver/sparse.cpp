// Copies between sparse files: what was never written is neither read nor written.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/softgpu/driver/memory.h"

namespace softgpu {
namespace {

constexpr std::uint64_t kSmall = 64 << 10;  // below this plain copies are cheaper than asking for holes
constexpr std::uint64_t kHostPage = 4096;

/// [begin, end) of one address run with its backing; file is null for ordinary memory.
struct Piece {
    std::uint64_t begin, end;
    BackingFile* file;
    std::uint64_t offset;
};

Piece piece_at(Memory& memory, std::uint64_t address, std::uint64_t end) {
    if (Span* span = memory.find(address))
        return {address, std::min(end, span->end), span->file, span->offset + (address - span->begin)};
    auto next = memory.spans().upper_bound(address);
    const std::uint64_t until = next == memory.spans().end() ? end : std::min(end, next->first);
    return {address, until, nullptr, 0};
}

void zero_piece(const Piece& p) {
    auto* bytes = reinterpret_cast<char*>(p.begin);
    const std::uint64_t length = p.end - p.begin;
    if (!p.file || length < kSmall) {
        std::memset(bytes, 0, length);
        return;
    }
    // Only whole pages of the file become holes; the ragged ends are written.
    const std::uint64_t head = (kHostPage - p.offset % kHostPage) % kHostPage;
    const std::uint64_t whole = (length - head) / kHostPage * kHostPage;
    std::memset(bytes, 0, head);
    p.file->release(p.offset + head, whole);
    std::memset(bytes + head + whole, 0, length - head - whole);
}

}  // namespace

void sparse_zero(Memory& memory, std::uint64_t to, std::uint64_t bytes) {
    const std::uint64_t end = to + bytes;
    while (to < end) {
        const Piece p = piece_at(memory, to, end);
        zero_piece(p);
        to = p.end;
    }
}

void sparse_copy(Memory& memory, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    if (bytes < kSmall) {
        std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
        return;
    }
    const std::uint64_t end = from + bytes;
    const std::uint64_t shift = to - from;
    while (from < end) {
        const Piece source = piece_at(memory, from, end);
        if (!source.file) {
            std::memmove(reinterpret_cast<void*>(from + shift), reinterpret_cast<const void*>(from),
                         source.end - from);
            from = source.end;
            continue;
        }
        // Walk data and holes of this piece.
        std::uint64_t at = source.offset;
        const std::uint64_t stop = source.offset + (source.end - source.begin);
        while (at < stop) {
            const off_t data = lseek(source.file->fd(), static_cast<off_t>(at), SEEK_DATA);
            const std::uint64_t data_at =
                data < 0 ? stop : std::min<std::uint64_t>(stop, static_cast<std::uint64_t>(data));
            if (data_at > at) sparse_zero(memory, source.begin + (at - source.offset) + shift, data_at - at);
            if (data_at >= stop) break;
            const off_t hole = lseek(source.file->fd(), static_cast<off_t>(data_at), SEEK_HOLE);
            const std::uint64_t hole_at =
                hole < 0 ? stop : std::min<std::uint64_t>(stop, static_cast<std::uint64_t>(hole));
            const std::uint64_t address = source.begin + (data_at - source.offset);
            std::memmove(reinterpret_cast<void*>(address + shift), reinterpret_cast<const void*>(address),
                         hole_at - data_at);
            at = hole_at;
        }
        from = source.end;
    }
}

}  // namespace softgpu
